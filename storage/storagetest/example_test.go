package storagetest_test

import (
	"testing"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/storage/storagetest"
)

// TestView shows a typical test of a backend. Here the backend under test is a tenant's view of a
// shared one.
func TestView(t *testing.T) {
	storagetest.Run(t, storagetest.Harness{
		Open: func(t testing.TB) storage.Backend {
			shared := memory.New()
			t.Cleanup(func() { _ = shared.Close() })
			return storage.Prefix(shared, "acme")
		},
		Reopen: func(t testing.TB, b storage.Backend) storage.Backend {
			shared, _ := storage.As[*memory.DB](b)
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			return storage.Prefix(shared, "acme")
		},
		Seeds: 1,
		Steps: 1000,
	})
}

// Every test of a backend can end with a check of everything that the backend reports.
func Example() {
	test := func(t *testing.T) {
		db := memory.New()
		t.Cleanup(func() {
			storagetest.CheckInvariants(t, db)
			_ = db.Close()
		})
		// … the test itself …
	}
	_ = testing.InternalTest{Name: "TestSomething", F: test}
	// Output:
}
