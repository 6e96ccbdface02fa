package bbolt

import (
	"cmp"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/storagetest"
)

// The long run is `go test -run TestBackend -seeds 20 -steps 10000`.
var (
	seeds = flag.Int("seeds", 0, "random histories of the suite; 0 is its default")
	steps = flag.Int("steps", 0, "length of a random history; 0 is the suite's default")
)

// open opens the store at path.
func open(t testing.TB, path string, opts ...Option) *DB {
	t.Helper()
	db, err := Open(path, opts...)
	require.NoError(t, err)
	return db
}

func reopen(t testing.TB, b storage.Backend, opts ...Option) *DB {
	t.Helper()
	require.NoError(t, b.Close())
	return open(t, b.(*DB).path, opts...)
}

// kill opens what the process would have left behind. The tests of durability cut the power.
func kill(t testing.TB, b storage.Backend) storage.Backend {
	t.Helper()
	data, err := os.ReadFile(b.(*DB).path)
	require.NoError(t, err)
	left := filepath.Join(t.TempDir(), "left.db")
	require.NoError(t, os.WriteFile(left, data, 0o600))
	require.NoError(t, b.Close())
	return open(t, left)
}

func TestSTORE_02_Backend(t *testing.T) {
	storagetest.Run(t, storagetest.Harness{
		Open: func(t testing.TB) storage.Backend {
			return open(t, filepath.Join(t.TempDir(), "store.db"))
		},
		Reopen: func(t testing.TB, b storage.Backend) storage.Backend { return reopen(t, b) },
		Crash:  kill,
		Join: func(_ testing.TB, b storage.Backend) (storage.Backend, error) {
			other, err := Open(b.(*DB).path)
			if err != nil {
				return nil, err
			}
			return other, nil
		},
		Seeds: *seeds,
		Steps: cmp.Or(*steps, 1000), // each step waits for the disk
	})
}

// The same suite with no changes in memory for watches, and without syncs, which make no difference
// to a process that continues.
func TestBackendReadingTheFile(t *testing.T) {
	storagetest.Run(t, storagetest.Harness{
		Open: func(t testing.TB) storage.Backend { return openFast(t, WithRecentBytes(1)) },
		Reopen: func(t testing.TB, b storage.Backend) storage.Backend {
			return reopen(t, b, WithRecentBytes(1), withoutSync)
		},
		Seeds: *seeds,
		Steps: *steps,
	})
}
