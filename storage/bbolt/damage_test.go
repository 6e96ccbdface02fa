package bbolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/storage"
)

// harmlessOrRefused opens damaged bytes. Either Open rejects the store, or everything in it reads
// as it was written.
func harmlessOrRefused(t testing.TB, data []byte, want story, what string) (harmless bool) {
	t.Helper()
	path := placeFile(t, data)
	db, err := openInert(t, path)
	if err != nil {
		refused(t, path, err, ErrDamaged, ErrForeign, ErrNewerFormat)
		return false
	}
	same(t, want, tell(t, db), what)
	require.NoError(t, db.Close())
	return true
}

// usedBytes is the part of a file that has pages.
func usedBytes(t testing.TB, data []byte) int {
	t.Helper()
	im, err := newImage(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	return int(im.pages) * int(im.pageSize)
}

func TestD8_FlippedBit(t *testing.T) {
	_, data, want := written(t, 60)
	random := rand.New(rand.NewPCG(3, 3))
	used := usedBytes(t, data)
	harmless := 0
	const flips = 300
	for range flips {
		at, bit := random.IntN(used), random.IntN(8)
		data[at] ^= 1 << bit
		if harmlessOrRefused(t, data, want, fmt.Sprintf("bit %d of byte %d", bit, at)) {
			harmless++
		}
		data[at] ^= 1 << bit
	}
	require.Less(t, harmless, flips, "some flips do harm")
	require.Positive(t, harmless, "some hit free pages")
	t.Logf("%d of %d flips hit nothing in use", harmless, flips)
}

// rawRecord is a record as it lies in a file.
type rawRecord struct{ key, value string }

// readRaw returns the contents of a file without opening it, or the reason for rejecting it.
func readRaw(data []byte) (s state, all []rawRecord, err error) {
	im, err := newImage(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return s, nil, err
	}
	if _, err := readContents(im); err != nil {
		return s, nil, err
	}
	im.begin(im.root, im.pages)
	err = im.walkStore(func(read state) error { s = read; return nil }, func(r record) error {
		data, _ := r.appendTo(nil)
		all = append(all, rawRecord{r.pos.String(), string(data)})
		return nil
	})
	return s, all, err
}

func TestD8_EveryByte(t *testing.T) {
	_, data, _ := written(t, 8)
	data = data[:usedBytes(t, data)]
	wantState, want, err := readRaw(data)
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(4, 4))
	for at := 0; at < len(data); at += 10 / effort.Of(10) {
		was := data[at]
		data[at] ^= 1 << random.IntN(8)
		if at%3 == 0 {
			data[at] = byte(random.Uint32())
		}
		gotState, got, err := readRaw(data)
		if err == nil {
			require.Equal(t, wantState, gotState, "byte %d", at)
			require.True(t, slices.Equal(want, got), "byte %d", at)
		}
		data[at] = was
	}
}

func TestD8_CutOff(t *testing.T) {
	_, data, want := written(t, 60)
	used, page := usedBytes(t, data), os.Getpagesize()
	for size := 0; size <= used+page; size += page {
		for _, cut := range []int{size - 1, size, size + 1, size + page/2} {
			if cut < 0 || cut > len(data) {
				continue
			}
			harmless := harmlessOrRefused(t, data[:cut], want, fmt.Sprintf("cut to %d bytes", cut))
			require.Equal(t, cut >= used, harmless, "cut to %d of %d bytes", cut, used)
		}
	}
}

func TestD8_ZeroedPage(t *testing.T) {
	_, data, want := written(t, 60)
	page := os.Getpagesize()
	harmed := 0
	for at := 0; at < usedBytes(t, data); at += page {
		zeroed := bytes.Clone(data)
		clear(zeroed[at : at+page])
		if !harmlessOrRefused(t, zeroed, want, fmt.Sprintf("page %d zeroed", at/page)) {
			harmed++
		}
	}
	require.Greater(t, harmed, 5)
}

// A disk that silently loses a write leaves an older page in its place. That page is intact.
func TestD8_LostWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	db := open(t, path)
	write(t, db, 1, 40)
	page := os.Getpagesize()
	var images [][]byte
	for range 12 {
		images = append(images, readFile(t, path))
		write(t, db, 2, 1)
	}
	want := tell(t, db)
	require.NoError(t, db.Close())
	last := readFile(t, path)
	used := usedBytes(t, last)
	harmed := 0
	for i, image := range images {
		for at := 2 * page; at < min(used, len(image)); at += page {
			if bytes.Equal(image[at:at+page], last[at:at+page]) {
				continue
			}
			stale := bytes.Clone(last)
			copy(stale[at:], image[at:at+page])
			if !harmlessOrRefused(t, stale, want, fmt.Sprintf("page %d as in image %d", at/page, i)) {
				harmed++
			}
		}
	}
	require.Positive(t, harmed)
}

// A damaged meta page must not take the store back by a transaction.
func TestD8_MetaPage(t *testing.T) {
	path, data, _ := written(t, 5)
	page := os.Getpagesize()
	for slot := range 2 {
		bad := bytes.Clone(data)
		bad[slot*page+pageHeader+40]++
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		_, err := openInert(t, path)
		refused(t, path, err, ErrDamaged)
		require.ErrorContains(t, err, fmt.Sprintf("meta page %d", slot))
	}
}

// The advice about a file that is not there tells it from a directory that is not there.
func TestTheAdviceAboutMissingFiles(t *testing.T) {
	dir := t.TempDir()
	_, err := Examine(filepath.Join(dir, "none.db"))
	require.ErrorContains(t, err, "; give the path of a file that exists")
	_, err = Open(filepath.Join(dir, "none", "a.db"))
	require.ErrorContains(t, err, "; make the directory first")
}

func TestD8_WrongFile(t *testing.T) {
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"empty":               {nil, ErrDamaged},
		"one byte":            {[]byte("x"), ErrForeign},
		"text":                {bytes.Repeat([]byte("Lorem ipsum. "), 10_000), ErrForeign},
		"zeroes":              {make([]byte, 100_000), ErrForeign},
		"another bbolt file":  {foreignFile(t, "objects"), ErrForeign},
		"one with our bucket": {foreignFile(t, metaBucket), ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			path := placeFile(t, c.data)
			_, err := openInert(t, path)
			refused(t, path, err, c.want)
		})
	}
}

// foreignFile is another program's bbolt file.
func foreignFile(t testing.TB, bucket string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "other.db")
	b, err := bolt.Open(path, 0o600, &bolt.Options{NoFreelistSync: true})
	require.NoError(t, err)
	require.NoError(t, b.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket([]byte(bucket))
		require.NoError(t, err)
		return b.Put([]byte("key"), []byte("value"))
	}))
	require.NoError(t, b.Close())
	return readFile(t, path)
}

// edit changes a closed store with bbolt itself, so every page stays intact.
func edit(t testing.TB, data []byte, change func(log, meta *bolt.Bucket)) []byte {
	t.Helper()
	path := placeFile(t, data)
	b, err := bolt.Open(path, 0o600, &bolt.Options{NoFreelistSync: true})
	require.NoError(t, err)
	require.NoError(t, b.Update(func(tx *bolt.Tx) error {
		change(tx.Bucket([]byte(logBucket)), tx.Bucket([]byte(metaBucket)))
		return nil
	}))
	require.NoError(t, b.Close())
	return readFile(t, path)
}

func TestD8_NewerFormat(t *testing.T) {
	_, data, _ := written(t, 5)
	data = edit(t, data, func(_, meta *bolt.Bucket) {
		require.NoError(t, meta.Put([]byte(formatKey), formatRecord(format+1)))
		require.NoError(t, meta.Put([]byte(stateKey), []byte("of whatever form")))
		require.NoError(t, meta.Put([]byte("more"), []byte("of it")))
	})
	path := placeFile(t, data)
	_, err := openInert(t, path)
	refused(t, path, err, ErrNewerFormat)
	require.ErrorContains(t, err, fmt.Sprintf("format %d", format+1))
}

func TestD8_OlderFormat(t *testing.T) {
	_, data, _ := written(t, 5)
	data = edit(t, data, func(_, meta *bolt.Bucket) {
		require.NoError(t, meta.Put([]byte(formatKey), formatRecord(1)))
	})
	path := placeFile(t, data)
	_, err := openInert(t, path)
	refused(t, path, err, ErrOlderFormat)
}

// Damage on intact pages, which only our own bookkeeping can detect.
func TestD8_LogDoesNotAddUp(t *testing.T) {
	_, data, _ := written(t, 60)
	first := func(log *bolt.Bucket) (k, v []byte) {
		k, v = log.Cursor().First()
		return bytes.Clone(k), bytes.Clone(v)
	}
	last := func(log *bolt.Bucket) (k, v []byte) {
		k, v = log.Cursor().Last()
		return bytes.Clone(k), bytes.Clone(v)
	}
	for name, change := range map[string]func(log, meta *bolt.Bucket) error{
		"the newest record is missing": func(log, _ *bolt.Bucket) error {
			k, _ := last(log)
			return log.Delete(k)
		},
		"the oldest record is missing": func(log, _ *bolt.Bucket) error {
			k, _ := first(log)
			return log.Delete(k)
		},
		"a record lies under another revision": func(log, _ *bolt.Bucket) error {
			k, v := last(log)
			binary.BigEndian.PutUint64(k, binary.BigEndian.Uint64(k)+1)
			return log.Put(k, v)
		},
		"a record came from elsewhere, sound in itself": func(log, _ *bolt.Bucket) error {
			k, _ := last(log)
			pos, _ := parsePosition(k)
			v, _ := (&record{pos: position{pos.rev, pos.op + 1}, key: []byte("/sys/new/")}).appendTo(nil)
			return log.Put(position{pos.rev, pos.op + 1}.appendTo(nil), v)
		},
		"a record was replaced, sound in itself": func(log, _ *bolt.Bucket) error {
			k, v := last(log)
			r, err := parseRecord(k, v)
			require.NoError(t, err)
			r.nanos++
			v, _ = r.appendTo(nil)
			return log.Put(k, v)
		},
		"the state is missing": func(_, meta *bolt.Bucket) error { return meta.Delete([]byte(stateKey)) },
		"the state is older": func(_, meta *bolt.Bucket) error {
			s, err := parseState(meta.Get([]byte(stateKey)))
			require.NoError(t, err)
			s.last -= 3
			return meta.Put([]byte(stateKey), s.encode())
		},
		"the state has another checksum": func(_, meta *bolt.Bucket) error {
			s := bytes.Clone(meta.Get([]byte(stateKey)))
			s[20]++
			return meta.Put([]byte(stateKey), s)
		},
		"the format has another checksum": func(_, meta *bolt.Bucket) error {
			s := bytes.Clone(meta.Get([]byte(formatKey)))
			s[len(s)-1]++
			return meta.Put([]byte(formatKey), s)
		},
		"the log has a bucket": func(log, _ *bolt.Bucket) error {
			_, err := log.CreateBucket([]byte("more"))
			return err
		},
		"the log is missing": func(log, _ *bolt.Bucket) error { return log.Tx().DeleteBucket([]byte(logBucket)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := placeFile(t, edit(t, data, func(log, meta *bolt.Bucket) { require.NoError(t, change(log, meta)) }))
			_, err := openInert(t, path)
			refused(t, path, err, ErrDamaged)
		})
	}
}

// rewrite changes the records of a closed store and corrects the checksums, as a bug in the program
// would.
func rewrite(t testing.TB, data []byte, change func(all []record) []record) []byte {
	t.Helper()
	return edit(t, data, func(log, meta *bolt.Bucket) {
		var all []record
		require.NoError(t, log.ForEach(func(k, v []byte) error {
			r, err := parseRecord(bytes.Clone(k), bytes.Clone(v))
			all = append(all, r)
			return err
		}))
		s, err := parseState(meta.Get([]byte(stateKey)))
		require.NoError(t, err)
		for _, r := range all {
			require.NoError(t, log.Delete(r.pos.appendTo(nil)))
		}
		s.records, s.sum = 0, 0
		for _, r := range change(all) {
			data, sum := r.appendTo(nil)
			require.NoError(t, log.Put(r.pos.appendTo(nil), data))
			s.add(r.pos, sum)
		}
		require.NoError(t, meta.Put([]byte(stateKey), s.encode()))
	})
}

// Matching totals are not enough: each record must name the one before it.
func TestD8_BrokenChain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	db := open(t, path)
	for _, key := range []string{"/sys/a/", "/sys/b/"} {
		put(t, db, key, "one")
		put(t, db, key, "two")
		_, err := db.Commit(t.Context(), []storage.Op{storage.Delete(key, storage.Any)})
		require.NoError(t, err)
		put(t, db, key, "three")
	}
	want := tell(t, db)
	require.NoError(t, db.Close())
	data := readFile(t, path)
	require.True(t, harmlessOrRefused(t, rewrite(t, data, func(all []record) []record { return all }), want, "unchanged"))
	for name, change := range map[string]func(all []record) []record{
		"the creation is missing":  func(all []record) []record { return slices.Delete(all, 0, 1) },
		"an update is missing":     func(all []record) []record { return slices.Delete(all, 1, 2) },
		"a deletion is missing":    func(all []record) []record { return slices.Delete(all, 2, 3) },
		"a creation has a past":    func(all []record) []record { all[0].prev = position{1, 0}; return all },
		"an update has none":       func(all []record) []record { all[1].prev = position{}; return all },
		"an update has another":    func(all []record) []record { all[1].prev.op++; return all },
		"a re-creation has a past": func(all []record) []record { all[3].prev = all[2].pos; return all },
		"a deletion deletes nothing": func(all []record) []record {
			return append(all, record{pos: position{want.current, 7}, key: []byte("/sys/c/"), deleted: true})
		},
		"a deletion deletes twice": func(all []record) []record {
			all[3].deleted, all[3].value = true, nil
			return all
		},
		"a key changes twice in a commit": func(all []record) []record {
			last := all[len(all)-1]
			return append(all, record{pos: position{last.pos.rev, 1}, prev: last.pos, key: last.key})
		},
		"a record is newer than the newest": func(all []record) []record {
			return append(all, record{pos: position{want.current + 1, 0}, key: []byte("/sys/c/")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := placeFile(t, rewrite(t, data, change))
			_, err := openInert(t, path)
			refused(t, path, err, ErrDamaged)
		})
	}
}

// Check compares the file with the state in memory.
func TestCheckKnowsTheIndex(t *testing.T) {
	db := openFast(t)
	put(t, db, widget(1), "one")
	put(t, db, widget(1), "two")
	put(t, db, widget(2), "x")
	require.NoError(t, db.Check(t.Context()))
	e, _ := db.index.get(widget(1))
	older := e.more
	e.more = nil
	require.ErrorIs(t, db.Check(t.Context()), ErrDamaged, "a version is missing")
	e.more = older
	require.Error(t, db.Healthy(), "damage is not forgotten")
	removed, _ := db.index.get(widget(2))
	db.index.keys.Remove(removed)
	require.ErrorIs(t, db.Check(t.Context()), ErrDamaged, "a key is missing")
	db.index.keys.Add(removed)
	db.index.keys.Add(&entry{key: widget(3), newest: removed.newest})
	require.ErrorIs(t, db.Check(t.Context()), ErrDamaged, "a key is too many")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, db.Check(ctx), context.Canceled)
	require.NoError(t, db.Close())
	require.ErrorIs(t, db.Check(t.Context()), storage.ErrClosed)
}

// The mapped file is damaged while the store is open.
func TestD8_DamagedWhileOpen(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "store.db")
	db := open(t, path, WithRecentBytes(1)) // watches read the file
	start := put(t, db, widget(0), "before")
	put(t, db, widget(1), "this value will be damaged")
	for i := range 100 { // so that the others lie on other pages
		put(t, db, widget(2+i), string(make([]byte, 1000)))
	}
	damage(t, path, "this value will be damaged")

	_, err := db.Get(ctx, widget(1))
	refused(t, path, err, ErrDamaged)
	refused(t, path, db.Healthy(), ErrDamaged)
	_, err = db.List(ctx, storage.ListRequest{Limit: 100})
	refused(t, path, err, ErrDamaged)
	refused(t, path, db.Check(ctx), ErrDamaged)
	for _, err := range db.Watch(ctx, "", start) {
		refused(t, path, err, ErrDamaged)
	}
	r, err := db.Get(ctx, widget(0))
	require.NoError(t, err, "what is sound is still served")
	require.Equal(t, "before", string(r.Value))
	_, err = db.Commit(ctx, []storage.Op{storage.Put(widget(0), nil, storage.Any)})
	require.ErrorIs(t, err, storage.ErrClosed)
	require.NotErrorIs(t, err, storage.ErrUnknownOutcome)
	refused(t, path, err, ErrDamaged)
	require.Error(t, db.Compact(ctx, db.Statistics().Revision))
	require.NoError(t, db.Close())
	_, err = openInert(t, path)
	refused(t, path, err, ErrDamaged)
}

// damage flips one bit of a text in the file.
func damage(t testing.TB, path, text string) {
	t.Helper()
	data := readFile(t, path)
	at := bytes.Index(data, []byte(text))
	require.Positive(t, at)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	for at >= 0 && at < len(data) { // free pages may have copies too
		_, err = f.WriteAt([]byte{data[at] ^ 1}, int64(at))
		require.NoError(t, err)
		next := bytes.Index(data[at+1:], []byte(text))
		if next < 0 {
			break
		}
		at += 1 + next
	}
	require.NoError(t, f.Close())
}

// Pages that cannot be read arrive as a signal, which must not end the process.
func TestD8_CutOffWhileOpen(t *testing.T) {
	ctx := context.Background()
	for name, first := range map[string]func(*DB) error{
		"found by a get":  func(db *DB) error { _, err := db.Get(ctx, widget(1)); return err },
		"found by a list": func(db *DB) error { _, err := db.List(ctx, storage.ListRequest{Limit: 1}); return err },
		"found by a watch": func(db *DB) (err error) {
			for _, err = range db.Watch(ctx, "", db.Statistics().Compacted) {
			}
			return err
		},
		"found by a commit": func(db *DB) error {
			_, err := db.Commit(ctx, []storage.Op{storage.Put(widget(1), nil, storage.Any)})
			return err
		},
		"found by a creation": func(db *DB) error {
			_, err := db.Commit(ctx, []storage.Op{storage.Put(widget(1000), nil, storage.Any)})
			return err
		},
		"found by a compaction": func(db *DB) error { return db.Compact(ctx, db.Statistics().Revision) },
		"found by a check":      func(db *DB) error { return db.Check(ctx) },
		"found by a backup": func(db *DB) error {
			_, err := db.Backup(ctx, db.path+".backup")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			db := open(t, path, WithRecentBytes(1))
			fill(t, db, 500)
			put(t, db, widget(1), "x")
			require.NoError(t, os.Truncate(path, int64(2*os.Getpagesize())))
			refused(t, path, first(db), ErrDamaged)
			refused(t, path, db.Healthy(), ErrDamaged)
			_, err := db.Commit(ctx, []storage.Op{storage.Check(widget(1), storage.Absent)})
			require.ErrorIs(t, err, storage.ErrClosed)
			require.NoError(t, db.Close())
		})
	}
}
