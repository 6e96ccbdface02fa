package memory_test

import (
	"context"
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/storage/storagetest"
)

// seeds makes the random histories longer: go test ./storage/memory -seeds=20.
var seeds = flag.Int("seeds", 0, "random histories per suite; 0 is the suite's default")

// The three suites apply the contract to everything that claims to keep it: the backend itself, the
// portable type over it, and a tenant's view of it.

func TestSTORE_02_Backend(t *testing.T) {
	storagetest.Run(t, storagetest.Harness{
		Open: func(testing.TB) storage.Backend { return memory.New() },
		// No Reopen: memory does not survive Close by design.
		Seeds: *seeds,
	})
}

func TestStore(t *testing.T) {
	storagetest.Run(t, storagetest.Harness{
		Open: func(testing.TB) storage.Backend { return storage.New(memory.New()) },
		// No Reopen: as above.
		Seeds: *seeds,
	})
}

// A tenant's view keeps the contract while others write, below a Store as in a server. Closing the
// view leaves the shared backend open, so the tenant can be opened again.
func TestPrefix(t *testing.T) {
	open := func(shared storage.Backend) storage.Backend { return storage.New(storage.Prefix(shared, "tenant")) }
	storagetest.Run(t, storagetest.Harness{
		Open: func(t testing.TB) storage.Backend {
			shared := memory.New()
			t.Cleanup(func() { _ = shared.Close() })
			writeAsNeighbour(t, shared)
			return open(shared)
		},
		Reopen: func(t testing.TB, b storage.Backend) storage.Backend {
			shared, ok := storage.As[*memory.DB](b)
			require.True(t, ok)
			require.NoError(t, b.Close())
			return open(shared)
		},
		Join: func(_ testing.TB, b storage.Backend) (storage.Backend, error) {
			shared, _ := storage.As[*memory.DB](b)
			return open(shared), nil
		},
		Seeds: *seeds,
	})
}

// writeAsNeighbour fills the space of tenants with similar names.
func writeAsNeighbour(t testing.TB, shared storage.Backend) {
	for _, name := range []string{"tenan", "tenant-a", "", "Tenant"} {
		_, err := storage.Prefix(shared, name).Commit(context.Background(), []storage.Op{
			storage.Put(storage.ObjectKey("widgets", "team", "a"), []byte("the neighbour's"), storage.Absent),
			storage.Put(storage.SysKey("test", "phase"), []byte("the neighbour's"), storage.Absent),
		})
		require.NoError(t, err)
	}
}

// A fork is a store like any other, whatever happens to the original.
func TestForkedBackend(t *testing.T) {
	storagetest.Run(t, storagetest.Harness{
		Open: func(t testing.TB) storage.Backend {
			parent := memory.New()
			rev, err := parent.Commit(context.Background(), []storage.Op{storage.Put(storage.ObjectKey("widgets", "team", "a"), nil, storage.Any)})
			require.NoError(t, err)
			_, err = parent.Commit(context.Background(), []storage.Op{storage.Delete(storage.ObjectKey("widgets", "team", "a"), storage.Any)})
			require.NoError(t, err)
			require.NoError(t, parent.Compact(context.Background(), rev+1))
			db, err := parent.Fork()
			require.NoError(t, err)
			writeAsNeighbour(t, parent)
			require.NoError(t, parent.Close())
			return db
		},
		// No Reopen: memory does not survive Close by design.
		Seeds: *seeds,
	})
}
