package watch_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
)

// After 200,000 updates, with some who read everything and a hundred who read no more, the log is
// within its bound, and beside the objects nothing is alive but what the log holds: a watcher that
// stalls is a position (WATCH-31, rule 13).
func TestWATCH_31_StalledWatchersHoldNothing(t *testing.T) {
	const (
		updates, objects, stalled, live = 200_000, 50, 100, 4
		logBytes                        = 64 << 10
	)
	var entries atomic.Int64 // that are alive
	cfg := config("widgets")
	cfg.LogBytes = logBytes
	cfg.Decode = func(r storage.Record) (*watch.Entry, error) {
		e, err := quick(r)
		entries.Add(1)
		runtime.AddCleanup(e, func(n *atomic.Int64) { n.Add(-1) }, &entries)
		return e, err
	}
	store := storage.New(memory.New())
	d := watch.NewDispatcher(store)
	cache, err := d.Add(t.Context(), cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running, reading sync.WaitGroup
	running.Go(func() { assert.NoError(t, d.Run(ctx)) })
	defer func() {
		cancel()
		running.Wait()
		require.NoError(t, store.Close())
	}()
	begin := cache.Revision()
	open := func() *watch.Cursor {
		c, err := cache.Watch(ctx, watch.WatchRequest{After: begin})
		require.NoError(t, err)
		return c
	}
	var idle []*watch.Cursor
	for range stalled {
		idle = append(idle, open())
	}
	var read [live]atomic.Int64
	for i := range read {
		c := open()
		reading.Go(func() {
			defer c.Close()
			buf := make([]watch.Event, 0, 8)
			for read[i].Load() < updates {
				events, err := c.Next(ctx, buf)
				if !assert.NoError(t, err) {
					read[i].Store(updates) // nobody waits for this one
					return
				}
				read[i].Add(int64(len(events)))
				clear(events)
			}
		})
	}
	value := []byte(`{"spec":{}}`)
	for i := range updates {
		revision, err := store.Commit(ctx, []storage.Op{storage.Put(storage.ObjectKey("widgets", "ns", fmt.Sprint("n", i%objects)), value, storage.Any)})
		require.NoError(t, err)
		if i%objects == 0 { // those who read are to keep up: the log holds about four times as much
			require.NoError(t, cache.WaitFor(ctx, revision))
			for l := range read {
				for read[l].Load() <= int64(i) {
					runtime.Gosched()
				}
			}
		}
		if i == objects {
			for _, c := range idle { // they have begun to read before they stall
				_, err := c.Next(ctx, make([]watch.Event, 0, 1))
				require.NoError(t, err)
			}
		}
		if i%1000 == 0 {
			held := cache.Statistics()
			require.LessOrEqual(t, held.LogBytes, logBytes)
			require.Less(t, held.Changes, logBytes/64)
		}
	}
	reading.Wait()
	held := cache.Statistics()
	require.Equal(t, stalled, held.Watchers)
	require.LessOrEqual(t, held.LogBytes, logBytes)
	// A change holds two entries, and its next one is the previous one of another.
	most := int64(objects + 2*held.Changes)
	for range 100 {
		if runtime.GC(); entries.Load() <= most {
			break
		}
		runtime.Gosched()
	}
	require.LessOrEqual(t, entries.Load(), most, "%d changes are in the log", held.Changes)

	// Nothing was lost for them either, as long as the store has it.
	event, err := idle[0].Next(ctx, make([]watch.Event, 0, 1))
	require.NoError(t, err)
	require.Equal(t, begin+2, event[0].Revision)
	require.NoError(t, store.Compact(ctx, cache.Revision()))
	for _, c := range idle {
		_, err := c.Next(ctx, nil)
		require.ErrorIs(t, err, storage.ErrCompacted)
		c.Close()
	}
	require.Zero(t, cache.Statistics().Watchers)
}
