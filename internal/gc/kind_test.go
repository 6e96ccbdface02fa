package gc

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// late is a store whose lists take an hour.
type late struct{ storage.Backend }

func (l late) List(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
	select {
	case <-time.After(time.Hour):
		return l.Backend.List(ctx, r)
	case <-ctx.Done():
		return storage.Page{}, ctx.Err()
	}
}

// Workers that want the same answer of a slow store wait for it in a way that ends with them. Behind a
// lock they would not, and virtual time would stand still.
func TestOneSearchForKindsThatAreNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := memory.New()
		defer backend.Close() //nolint:errcheck // the test is over
		store := storage.New(late{backend})
		_, err := store.Commit(t.Context(), []storage.Op{storage.Put(storage.ObjectKey("olds", "default", "a"), nil, storage.Any)})
		require.NoError(t, err)
		k := &kinds{searching: make(chan struct{}, 1), stored: map[string]*engine.Served{}}
		search := func(ctx context.Context) <-chan error {
			done := make(chan error, 1)
			go func() {
				names, err := k.unserved(ctx, store)
				if err == nil && len(names) != 1 {
					t.Errorf("%q are not served", names)
				}
				done <- err
			}()
			synctest.Wait()
			return done
		}
		first := search(t.Context())
		ending, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		second := search(ending)
		third := search(t.Context())
		require.ErrorIs(t, <-second, context.DeadlineExceeded)
		require.NoError(t, <-first)
		require.NoError(t, <-third)
	})
}
