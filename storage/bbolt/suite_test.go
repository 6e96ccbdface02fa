package bbolt

import (
	"flag"
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

func harness(opts ...Option) storagetest.Harness {
	return storagetest.Harness{
		Open: func(t testing.TB) storage.Backend {
			return open(t, filepath.Join(t.TempDir(), "store.db"), opts...)
		},
		Reopen: func(t testing.TB, b storage.Backend) storage.Backend {
			require.NoError(t, b.Close())
			return open(t, b.(*DB).path, opts...)
		},
		Seeds: *seeds,
		Steps: *steps,
	}
}

func TestBackend(t *testing.T) {
	storagetest.Run(t, harness())
}
