package bbolt

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
)

// The reader demands what bbolt writes, to the byte. So it must accept everything
// that bbolt ever writes: here histories that grow, shrink and rebalance trees of
// several levels, with small pages and large values.
func TestImageAcceptsWhatBboltWrites(t *testing.T) {
	for _, pageSize := range []int{1 << 10, 4 << 10, 16 << 10} {
		random := rand.New(rand.NewPCG(uint64(pageSize), 1))
		path := filepath.Join(t.TempDir(), "tree.db")
		b, err := bolt.Open(path, 0o600, &bolt.Options{PageSize: pageSize, NoFreelistSync: true, NoSync: true, FreelistType: bolt.FreelistMapType})
		require.NoError(t, err)
		model := map[position]int{}
		next := position{rev: 1}
		for round := range 150 {
			require.NoError(t, b.Update(func(tx *bolt.Tx) error { return anyTransaction(tx, random, model, &next, round) }))
			if round%5 == 0 {
				require.Equal(t, len(model), countImage(t, path), "round %d", round)
			}
		}
		require.NoError(t, b.Close())
	}
}

// anyTransaction appends some elements and deletes some; in some rounds many.
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

// countImage walks a file as it is on disk and counts the elements of its log.
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

// No bytes make the reader panic, loop, or read beyond them.
func FuzzImage(f *testing.F) {
	_, data, _ := written(f, 8)
	data = data[:usedBytes(f, data)]
	f.Add(data, uint32(0), uint64(0))
	f.Add(data, uint32(2*os.Getpagesize()), uint64(1<<40))
	f.Add([]byte{}, uint32(0), uint64(1))
	f.Fuzz(func(t *testing.T, data []byte, at uint32, flip uint64) {
		data = bytes.Clone(data)
		// Eight bytes anywhere: most other changes end at a checksum.
		for i := range 8 {
			if j := int(at) + i; j < len(data) {
				data[j] ^= byte(flip >> (8 * i))
			}
		}
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
