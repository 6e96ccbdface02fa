package bbolt

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
)

// The reader requires the exact bytes that bbolt writes. So it must accept everything that bbolt
// ever writes. Here histories grow, shrink and rebalance trees of several levels, with small pages
// and large values.
func TestImageAcceptsWhatBboltWrites(t *testing.T) {
	for _, pageSize := range []int{1 << 10, 4 << 10} {
		random := rand.New(rand.NewPCG(uint64(pageSize), 1))
		path := filepath.Join(t.TempDir(), "tree.db")
		b, err := bolt.Open(path, 0o600, &bolt.Options{PageSize: pageSize, NoFreelistSync: true, NoSync: true, FreelistType: bolt.FreelistMapType})
		require.NoError(t, err)
		model := map[position]int{}
		next := position{rev: 1}
		for round := range 120 {
			require.NoError(t, b.Update(func(tx *bolt.Tx) error { return anyTransaction(tx, random, model, &next, round) }))
			if round%5 == 0 {
				require.Equal(t, len(model), countImage(t, path), "round %d", round)
			}
		}
		require.NoError(t, b.Close())
	}
}

// anyTransaction appends some elements and deletes some. In some rounds it deletes many.
func anyTransaction(tx *bolt.Tx, random *rand.Rand, model map[position]int, next *position, round int) error {
	log, err := tx.CreateBucketIfNotExists([]byte(logBucket))
	if err != nil {
		return err
	}
	log.FillPercent = 1
	puts, deletes := random.IntN(40), random.IntN(40)
	switch {
	case round%50 == 49:
		deletes = len(model) // down to nothing
	case round < 30 || round%7 == 0:
		puts = 300
	}
	for range puts {
		size := random.IntN(200)
		if random.IntN(20) == 0 {
			size = random.IntN(50_000)
		}
		if err := log.Put(next.appendTo(nil), make([]byte, size)); err != nil {
			return err
		}
		model[*next] = size
		next.rev += 1 + 1<<random.IntN(20)
	}
	for p := range model {
		if deletes--; deletes < 0 {
			break
		}
		if err := log.Delete(p.appendTo(nil)); err != nil {
			return err
		}
		delete(model, p)
	}
	return nil
}

// countImage walks a file on disk and counts the elements of its log.
func countImage(t testing.TB, path string) int {
	t.Helper()
	data := readFile(t, path)
	im, err := newImage(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	n := 0
	require.NoError(t, im.walk(im.root, nil, nil, maxDepth, func(key, value []byte, _ uint32) error {
		require.Equal(t, logBucket, string(key))
		value = bytes.Clone(value)
		return im.walkBucket(value, func(_, _ []byte, _ uint32) error { n++; return nil })
	}))
	return n
}

// mend corrects the checksums of the meta pages.
func mend(data []byte) {
	for _, meta := range [][]byte{data[pageHeader:], data[os.Getpagesize()+pageHeader:]} {
		sum := fnv.New64a()
		_, _ = sum.Write(meta[:metaBytes-8])
		binary.NativeEndian.PutUint64(meta[metaBytes-8:], sum.Sum64())
	}
}

// Changes that do not harm a reader, but that would mislead bbolt when it writes, or that bbolt
// never leaves behind.
func TestD8_SoundToRead(t *testing.T) {
	var data []byte
	var branch, leaf pageID
	for ok := false; !ok; { // bbolt chooses the places of its pages at random
		_, data, _ = written(t, 60)
		branch, _ = findPage(t, data, branchPage, false)
		leaf, ok = findPage(t, data, leafPage, true)
	}
	page := os.Getpagesize()
	im, err := newImage(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	metaAt := pageHeader // the newer one is that of the even or odd transactions
	if binary.NativeEndian.Uint64(data[page+pageHeader+48:]) > binary.NativeEndian.Uint64(data[pageHeader+48:]) {
		metaAt += page
	}
	at := func(p pageID, offset int) int { return int(p)*page + offset }
	number := func(b []byte, change func(uint64) uint64) {
		binary.NativeEndian.PutUint64(b, change(binary.NativeEndian.Uint64(b)))
	}
	for name, change := range map[string]func(b []byte) []byte{
		"a separator is lower than the key it leads to": func(b []byte) []byte {
			n, _, err := parseNode(b[at(branch, 0):at(branch+1, 0)], branch)
			require.NoError(t, err)
			for i := 1; i < n.count; i++ {
				if pos, _ := parsePosition(n.key(i)); pos.op == 0 {
					copy(n.key(i), position{pos.rev - 1, 1<<16 - 1}.appendTo(nil)) // above all before it
					return b
				}
			}
			return nil
		},
		"a page calls itself another":    func(b []byte) []byte { b[at(leaf, 0)]++; return b },
		"a page reaches into a free one": func(b []byte) []byte { b[at(leaf, 12)]++; return b },
		"there is a list of free pages": func(b []byte) []byte {
			number(b[metaAt+32:], func(uint64) uint64 { return 2 })
			return b
		},
		"there should be more pages, free ones": func(b []byte) []byte {
			number(b[metaAt+40:], func(n uint64) uint64 { return n + 1 })
			return b[:int(im.pages)*page]
		},
		"a meta page is of long ago": func(b []byte) []byte {
			number(b[metaAt+48:], func(n uint64) uint64 { return n + 2 })
			return b
		},
		"the meta pages changed places": func(b []byte) []byte {
			number(b[pageHeader+48:], func(n uint64) uint64 { return n + 1 })
			number(b[page+pageHeader+48:], func(n uint64) uint64 { return n + 1 })
			return b
		},
		"the meta pages have different page sizes": func(b []byte) []byte {
			b[page+pageHeader+9] <<= 1
			return b
		},
		"a page size that is none": func(b []byte) []byte {
			b[pageHeader+8]++
			return b
		},
		"a newer version of bbolt": func(b []byte) []byte {
			b[pageHeader+4]++
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			changed := change(bytes.Clone(data))
			require.False(t, bytes.Equal(data[:len(changed)], changed) && len(data) == len(changed))
			mend(changed)
			_, _, err := readRaw(changed)
			require.Error(t, err)
			path := placeFile(t, changed)
			_, err = openInert(t, path)
			refused(t, path, err, ErrDamaged, ErrForeign)
		})
	}
}

// findPage returns a page of a kind that is in use. If asked, it returns one that lies before a
// page not in use. The result is false if there is none.
func findPage(t testing.TB, data []byte, kind uint16, beforeFree bool) (pageID, bool) {
	t.Helper()
	im, err := newImage(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	_, err = readContents(im)
	require.NoError(t, err)
	used := func(id pageID) bool { return im.seen[id/64]&(1<<(id%64)) != 0 }
	for id := pageID(2); id < im.pages-1; id++ {
		head := data[int(id)*int(im.pageSize):]
		itself := pageID(binary.NativeEndian.Uint64(head)) == id
		if used(id) && id != im.root && itself && binary.NativeEndian.Uint16(head[8:]) == kind && !(beforeFree && used(id+1)) {
			return id, true
		}
	}
	return 0, false
}

func TestImageMeetsNoPageTwice(t *testing.T) {
	_, data, _ := written(t, 60)
	im, err := newImage(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	_, err = im.page(im.root)
	require.NoError(t, err)
	_, err = im.page(im.root)
	require.ErrorContains(t, err, "two places")
}

// No contents of a file make the reader panic, loop, or read beyond the file. The checksums of the
// meta pages are corrected, since most changes would end there.
func FuzzImage(f *testing.F) {
	_, original, _ := written(f, 12)
	original = original[:usedBytes(f, original)]
	page := os.Getpagesize()
	f.Add(uint32(pageHeader+16), uint64(1), uint32(2*page), uint64(1<<40), uint32(0))
	f.Add(uint32(3*page), uint64(1<<16), uint32(5*page+8), uint64(3), uint32(100))
	f.Fuzz(func(t *testing.T, at uint32, flip uint64, at2 uint32, flip2 uint64, cut uint32) {
		data := bytes.Clone(original)
		for i := range uint32(8) {
			data[(at+i)%uint32(len(data))] ^= byte(flip >> (8 * i))
			data[(at2+i)%uint32(len(data))] ^= byte(flip2 >> (8 * i))
		}
		mend(data)
		data = data[:len(data)-int(cut%uint32(len(data)))]
		if im, err := newImage(bytes.NewReader(data), int64(len(data))); err == nil {
			_, _ = readContents(im)
		}
	})
}

func FuzzRecord(f *testing.F) {
	r := record{pos: position{7, 1}, prev: position{5, 2}, nanos: -1, key: []byte("/sys/a/"), value: []byte("value")}
	data, _ := r.appendTo(nil)
	f.Add(r.pos.appendTo(nil), data)
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, at, data []byte) {
		r, err := parseRecord(at, data)
		if err != nil {
			return
		}
		again, sum := r.appendTo([]byte("before"))
		require.Equal(t, append([]byte("before"), data...), again, "what parses is written the same")
		require.Equal(t, r.checksum, sum)
	})
}
