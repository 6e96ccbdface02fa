package watch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

func TestADispatcherWithoutAStoreDoesNotRun(t *testing.T) {
	for name, store := range map[string]*storage.Store{"nil": nil, "a store without a backend": storage.New(nil)} {
		d := watch.NewDispatcher(store, nil)
		err := d.Run(t.Context())
		require.ErrorIs(t, err, storage.ErrInvalid, name)
		require.ErrorContains(t, err, "the backend is nil: pass one", name)
		require.Error(t, d.Ready(), name)
	}
}
