package remotestore_test

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/leak"
	"github.com/kindwright/kindwright/internal/remotestore"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

func TestMain(m *testing.M) { leak.Main(m) }

// serve offers stores in memory, which stay when nobody uses them, and returns their address.
func serve(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	stores := map[string]*memory.DB{}
	done := make(chan error, 1)
	go func() {
		done <- remotestore.Serve(ctx, l, func(name string) (storage.Backend, error) {
			mu.Lock()
			defer mu.Unlock()
			if stores[name] == nil {
				stores[name] = memory.New()
			}
			return lasting{stores[name]}, nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return path
}

// lasting is a store that stays open.
type lasting struct{ storage.Backend }

func (lasting) Close() error { return nil }

func TestCallsAndErrorsArrive(t *testing.T) {
	ctx := t.Context()
	address := serve(t)
	b, err := remotestore.Open(ctx, "unix", address, "a")
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	key := storage.ObjectKey("widgets", "team", "a")
	first, err := b.Revision(ctx)
	require.NoError(t, err)
	one, err := b.Commit(ctx, []storage.Op{storage.Put(key, []byte("one"), storage.Absent)})
	require.NoError(t, err)
	_, err = b.Commit(ctx, []storage.Op{storage.Put(key, nil, storage.Absent)})
	var conflict *storage.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, one, conflict.Actual)
	_, err = b.Get(ctx, storage.SysKey("none"))
	require.ErrorIs(t, err, storage.ErrNotFound)
	page, err := b.List(ctx, storage.ListRequest{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, []storage.Record{{Key: key, Value: []byte("one"), Revision: one}}, page.Records)
	history, err := b.History(ctx, storage.HistoryRequest{After: first, Limit: 10})
	require.NoError(t, err)
	require.Len(t, history.Batches, 1)
	require.NoError(t, b.Compact(ctx, one))
	_, err = b.List(ctx, storage.ListRequest{At: first, Limit: 1})
	require.ErrorIs(t, err, storage.ErrCompacted)
	other, err := remotestore.Open(ctx, "unix", address, "b")
	require.NoError(t, err)
	_, err = other.Get(ctx, key)
	require.ErrorIs(t, err, storage.ErrNotFound, "another store")
	require.NoError(t, other.Close())
	_, err = other.Get(ctx, key)
	require.ErrorIs(t, err, storage.ErrClosed)
}

// Virtual time stands still while a watch reads, so that everything that was committed is there
// before anything else happens.
func TestAWatchInABubble(t *testing.T) {
	address := serve(t)
	synctest.Test(t, func(t *testing.T) {
		b, err := remotestore.Open(t.Context(), "unix", address, "a")
		require.NoError(t, err)
		first, err := b.Revision(t.Context())
		require.NoError(t, err)
		var seen []storage.Batch
		var end error
		done := make(chan struct{})
		go func() {
			defer close(done)
			for batch, err := range b.Watch(t.Context(), "/r/widgets/", first) {
				if end = err; err == nil {
					seen = append(seen, batch)
				}
			}
		}()
		synctest.Wait()
		rev, err := b.Commit(t.Context(), []storage.Op{storage.Put(storage.ObjectKey("widgets", "", "a"), nil, storage.Absent)})
		require.NoError(t, err)
		synctest.Wait()
		for len(seen) == 0 {
			time.Sleep(time.Second) // the bubble does not wait for a socket
		}
		require.Equal(t, rev, seen[0].Revision)
		require.NoError(t, b.Close())
		<-done
		require.ErrorIs(t, end, storage.ErrClosed)
	})
}

func TestAnUnreachableStore(t *testing.T) {
	_, err := remotestore.Open(t.Context(), "unix", filepath.Join(t.TempDir(), "none"), "a")
	require.ErrorIs(t, err, storage.ErrUnavailable)
	_, err = remotestore.Open(t.Context(), "unix", "x", "")
	require.Error(t, err)
}
