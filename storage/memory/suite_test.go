package memory_test

import (
	"flag"
	"testing"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/storage/storagetest"
)

// seeds lengthens the random histories: go test ./storage/memory -seeds=20.
var seeds = flag.Int("seeds", 0, "random histories per suite; 0 is the suite's default")

// The three suites are the contract times who claims to keep it: the backend
// itself, the portable type over it, and a tenant's view of it. None has Reopen:
// memory does not survive its process, that is what it is.

func TestBackend(t *testing.T) {
	storagetest.Run(t, storagetest.Harness{
		Open:  func(testing.TB) storage.Backend { return memory.New() },
		Seeds: *seeds,
	})
}

func TestStore(t *testing.T) {
	storagetest.Run(t, storagetest.Harness{
		Open:  func(testing.TB) storage.Backend { return storage.New(memory.New()) },
		Seeds: *seeds,
	})
}

// A tenant's view keeps the contract among the writes of others, under a Store
// as a server would have it.
func TestPrefix(t *testing.T) {
	storagetest.Run(t, storagetest.Harness{
		Open: func(t testing.TB) storage.Backend {
			shared := memory.New()
			t.Cleanup(func() { _ = shared.Close() })
			neighbour := storage.Prefix(shared, "tenan")
			for _, name := range []string{"a", "b"} {
				_, err := neighbour.Commit(t.Context(), []storage.Op{
					storage.Put(storage.ObjectKey("widgets", "team", name), []byte("the neighbour's"), storage.Any),
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			return storage.New(storage.Prefix(shared, "tenant"))
		},
		Seeds: *seeds,
	})
}
