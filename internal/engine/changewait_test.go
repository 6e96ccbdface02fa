package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// stuck is a store whose lists do not end by themselves while it hangs.
type stuck struct {
	storage.Backend
	hangs atomic.Bool
}

func (s *stuck) List(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
	if s.hangs.Load() {
		<-ctx.Done()
		return storage.Page{}, ctx.Err()
	}
	return s.Backend.List(ctx, r)
}

// A change of kinds ends with its context, also while it waits for another change, which a store
// that hangs does not let end.
func TestAChangeDoesNotWaitForAnotherBeyondItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		b := &stuck{Backend: db}
		e := start(t, b, nil)
		b.hangs.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		first := make(chan error, 1)
		kind := describe(t, widgets())
		go func() { first <- e.Install(ctx, kind) }()
		synctest.Wait()

		ending, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		begun := time.Now()
		books := widgets()
		books.Plural, books.Names.Kind = "books", "Book"
		require.ErrorIs(t, e.Install(ending, describe(t, books)), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(begun))

		cancel()
		require.ErrorIs(t, <-first, context.Canceled)
		b.hangs.Store(false)
		require.NoError(t, e.Install(t.Context(), describe(t, books)), "the store is back")
	})
}
