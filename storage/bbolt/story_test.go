package bbolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/kindwright/kindwright/storage"
)

// A story is everything that can be read from a store.
type story struct {
	current, compacted storage.Revision
	first              []storage.Record // at compacted
	batches            []storage.Batch  // after it
	now                []storage.Record
}

func tell(t testing.TB, db *DB) story {
	t.Helper()
	ctx := context.Background()
	st := db.Statistics()
	s := story{current: st.Revision, compacted: st.Compacted}
	s.first = listAll(t, db, s.compacted)
	s.now = listAll(t, db, 0)
	if s.compacted < s.current {
		for b, err := range db.Watch(ctx, "", s.compacted) {
			require.NoError(t, err)
			if !b.Progress {
				slices.SortFunc(b.Changes, func(a, b storage.Change) int { return bytes.Compare([]byte(a.Key), []byte(b.Key)) })
				s.batches = append(s.batches, b)
			}
			if b.Revision >= s.current {
				break
			}
		}
	}
	return s
}

// same requires that a store still returns the same story.
func same(t testing.TB, want, got story, what string) {
	t.Helper()
	// Leave out the values, which would fill the screen.
	require.Equal(t, [2]storage.Revision{want.current, want.compacted}, [2]storage.Revision{got.current, got.compacted}, what)
	require.Len(t, got.batches, len(want.batches), what)
	require.True(t, assert.ObjectsAreEqual(want, got), "another story: %s", what)
}

func listAll(t testing.TB, db *DB, at storage.Revision) []storage.Record {
	t.Helper()
	p, err := db.List(context.Background(), storage.ListRequest{At: at, Limit: pageRecords})
	require.NoError(t, err)
	require.False(t, p.More)
	return p.Records
}

func put(t testing.TB, db *DB, key, value string) storage.Revision {
	t.Helper()
	rev, err := db.Commit(context.Background(), []storage.Op{storage.Put(key, []byte(value), storage.Any)})
	require.NoError(t, err)
	return rev
}

func widget(i int) string {
	return storage.ObjectKey("example.dev/widgets", "team", fmt.Sprintf("w%d", i))
}

// write makes commits of all kinds: several keys, empty values, values of several pages, deletions.
// Now and then it compacts.
func write(t testing.TB, db *DB, seed uint64, commits int) {
	t.Helper()
	ctx := context.Background()
	random := rand.New(rand.NewPCG(seed, 1))
	for range commits {
		var ops []storage.Op
		for _, i := range random.Perm(20)[:1+random.IntN(3)] {
			if random.IntN(5) == 0 {
				ops = append(ops, storage.Delete(widget(i), storage.Any))
				continue
			}
			size := random.IntN(300)
			if random.IntN(10) == 0 {
				size = random.IntN(12_000)
			}
			ops = append(ops, storage.Put(widget(i), randomBytes(random, size), storage.Any))
		}
		rev, err := db.Commit(ctx, ops)
		require.NoError(t, err)
		if random.IntN(25) == 0 {
			require.NoError(t, db.Compact(ctx, max(rev-10, db.Statistics().Compacted)))
		}
	}
}

func randomBytes(random *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// written is a closed store with a story, and its bytes.
func written(t testing.TB, commits int) (path string, data []byte, want story) {
	t.Helper()
	db := openFast(t)
	path = db.path
	write(t, db, 1, commits)
	want = tell(t, db)
	require.NoError(t, db.Close())
	return path, readFile(t, path), want
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
}

// place writes bytes to a new path, like a crashed machine or a careless copy.
func placeFile(t testing.TB, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// refused requires that Open rejects a file for one of the reasons. The error names the file and
// says what to do, and nothing was touched.
func refused(t testing.TB, path string, err error, reasons ...error) {
	t.Helper()
	var named *FileError
	require.ErrorAs(t, err, &named)
	require.Equal(t, path, named.Path)
	require.NotEmpty(t, named.Remedy, "%v", err)
	require.Contains(t, err.Error(), path)
	require.Contains(t, err.Error(), named.Remedy)
	require.True(t, slices.ContainsFunc(reasons, func(r error) bool { return errors.Is(err, r) }), "%v is none of %v", err, reasons)
}

// inert calls Open. If that fails, file and directory must be unchanged, to the byte and the
// nanosecond.
func openInert(t testing.TB, path string) (*DB, error) {
	t.Helper()
	before, beforeInfo, beforeDir := look(t, path)
	db, err := Open(path)
	if err != nil {
		after, afterInfo, afterDir := look(t, path)
		require.True(t, bytes.Equal(before, after), "a failed Open changed the file")
		require.Equal(t, beforeInfo.ModTime(), afterInfo.ModTime())
		require.Equal(t, beforeInfo.Mode(), afterInfo.Mode())
		require.Equal(t, beforeDir, afterDir, "a failed Open left something behind")
	}
	return db, err
}

func look(t testing.TB, path string) (data []byte, info os.FileInfo, names []string) {
	t.Helper()
	info, err := os.Lstat(path)
	require.NoError(t, err)
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return readFile(t, path), info, names
}

// withoutSync leaves out the syncs, for tests in which no machine stops.
func withoutSync(o *options) {
	o.disk = func(d disk) disk {
		begin := d.begin
		d.begin = func(writable bool) (*bolt.Tx, error) {
			tx, err := begin(writable)
			if err == nil && writable {
				tx.DB().NoSync = true
			}
			return tx, err
		}
		return d
	}
}

// openFast opens a fresh store without syncs.
func openFast(t testing.TB, opts ...Option) *DB {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "store.db"), append(opts, withoutSync)...)
}
