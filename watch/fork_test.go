package watch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
)

// fork makes another world of a copy of the store, whose kind "widgets" is not started yet.
func (w *world) fork(change ...func(*watch.CacheConfig)) *world {
	w.t.Helper()
	f := &world{t: w.t, now: map[string]*watch.Entry{}}
	cfg := config("widgets")
	for _, c := range change {
		c(&cfg)
	}
	dispatcher, caches, err := w.dispatcher.Fork(watch.ForkRequest{
		Store: func(storage.Revision) (*storage.Store, error) {
			db, err := w.backend.Backend.(*memory.DB).Fork()
			if err != nil {
				return nil, err
			}
			f.backend = &backend{Backend: db}
			f.store = storage.New(f.backend)
			return f.store, nil
		},
		Configs: []watch.CacheConfig{cfg, config("unknown")},
	})
	require.NoError(w.t, err)
	require.Len(w.t, caches, 1)
	f.dispatcher, f.cache = dispatcher, caches["widgets"]
	w.t.Cleanup(func() { require.NoError(w.t, f.store.Close()) })
	return f
}

func TestAForkDecodesAndListsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var decoded atomic.Int64
		counting := func(c *watch.CacheConfig) {
			c.Decode = func(r storage.Record) (*watch.Entry, error) {
				decoded.Add(1)
				return decode(r)
			}
		}
		w := newWorld(t, counting)
		for i := range 100 {
			w.put(widget{Namespace: "a", Name: fmt.Sprintf("n%02d", i)})
		}
		w.settle()
		require.EqualValues(t, 100, decoded.Swap(0))
		f := w.fork(counting)
		f.start(f.dispatcher)
		f.settle()
		require.Equal(t, 100, f.cache.Len())
		mine, ok := f.cache.Get(storage.ObjectKey("widgets", "a", "n07"))
		require.True(t, ok)
		its, _ := w.cache.Get(storage.ObjectKey("widgets", "a", "n07"))
		require.Same(t, its, mine)
		require.Len(t, take(t, f.watch(watch.Filter{}, 100), 100), 100, "its past is there as well")
		require.Zero(t, decoded.Load())
		require.Zero(t, f.backend.lists.Load())
	})
}

func TestAForkGoesOnWhereItsDispatcherWasNotTheStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.put(widget{Namespace: "a", Name: "seen"})
		w.settle()
		release := make(chan struct{})
		w.backend.play(trick{hold: func() { <-release }})
		late := w.put(widget{Namespace: "a", Name: "unseen"})
		synctest.Wait()
		f := w.fork()
		require.Less(t, f.dispatcher.Published(), late)
		cursor := f.watch(watch.Filter{}, 100)
		f.start(f.dispatcher)
		require.NoError(t, f.dispatcher.AwaitLive(t.Context()))
		require.Equal(t, []string{"a/seen", "a/unseen"}, names(f.cache.Snapshot(), "", ""))
		require.Equal(t, []string{line(meta.Added, "a/seen", 101), line(meta.Added, "a/unseen", 102)}, take(t, cursor, 2))
		require.Equal(t, []string{"a/seen"}, names(w.cache.Snapshot(), "", ""))
		close(release)
		w.settle()
	})
}

// What the parent's log lets go of was lent to the fork.
func TestTheLogOfAForkOutlivesThatOfItsParent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		small := func(c *watch.CacheConfig) { c.LogBytes = 4000 }
		w := newWorld(t, small)
		var want []string
		for i := range 20 {
			want = append(want, line(meta.Added, fmt.Sprintf("a/n%02d", i), w.put(widget{Namespace: "a", Name: fmt.Sprintf("n%02d", i)})))
		}
		w.settle()
		f := w.fork(small)
		before := f.cache.Statistics()
		require.Equal(t, w.cache.Statistics().Floor, before.Floor)
		again := f.dispatcher
		f.start(f.dispatcher)
		grand := f.fork(small)
		grand.start(grand.dispatcher)
		for range 50 {
			w.put(widget{Namespace: "a", Name: "n00", Size: 1})
		}
		w.settle()
		require.Greater(t, w.cache.Statistics().Floor, before.Floor, "the parent has let go of what it shared")
		for i := range 3 {
			f.put(widget{Namespace: "a", Name: fmt.Sprint("f", i)})
		}
		f.settle()
		require.Same(t, again, f.dispatcher)
		require.Equal(t, want, take(t, grand.watch(watch.Filter{}, 100), 20))
		got := take(t, f.watch(watch.Filter{}, 100), 23)
		require.Equal(t, want, got[:20])
		require.Equal(t, line(meta.Added, "a/f2", 123), got[22])
		require.Zero(t, f.backend.watches.Load()-1, "all of it was in memory: the one watch is the dispatcher's")
	})
}

func TestPinsAreForkedToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.put(widget{Namespace: "a", Name: "first"})
		w.settle()
		pinned := w.cache.Snapshot()
		w.cache.Pin(pinned)
		w.put(widget{Namespace: "a", Name: "second"})
		w.settle()
		f := w.fork()
		f.start(f.dispatcher)
		s, err := f.cache.SnapshotAt(t.Context(), pinned.Revision())
		require.NoError(t, err)
		require.Equal(t, []string{"a/first"}, names(s, "", ""))
		require.Zero(t, f.backend.lists.Load())
		cursor, err := f.cache.WatchFromSnapshot(s, watch.Filter{})
		require.NoError(t, err, "it is the fork's")
		defer cursor.Close()
		require.Equal(t, line(meta.Added, "a/second", 102), take(t, cursor, 3)[2])
		_, err = f.cache.WatchFromSnapshot(pinned, watch.Filter{})
		require.Error(t, err, "this one is its parent's")
	})
}

func TestAForkKnowsWhatCannotBeRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		key := storage.ObjectKey("widgets", "a", "n")
		_, err := w.store.Commit(t.Context(), []storage.Op{storage.Put(key, []byte("broken"), storage.Any)})
		require.NoError(t, err)
		synctest.Wait()
		f := w.fork()
		_, ok := f.cache.Unreadable(key)
		require.True(t, ok)
	})
}

func TestWhatCannotBeForked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := storage.New(memory.New())
		defer func() { require.NoError(t, store.Close()) }()
		same := func(storage.Revision) (*storage.Store, error) { return store, nil }
		d := watch.NewDispatcher(store)
		_, _, err := d.Fork(watch.ForkRequest{Store: same})
		require.ErrorContains(t, err, "not started")
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = d.Run(ctx) })
		require.NoError(t, d.AwaitLive(t.Context()))
		_, _, err = d.Fork(watch.ForkRequest{Store: same, Configs: []watch.CacheConfig{{}}})
		require.ErrorContains(t, err, "StorageName")
		broken := errors.New("no memory")
		_, _, err = d.Fork(watch.ForkRequest{Store: func(storage.Revision) (*storage.Store, error) { return nil, broken }})
		require.ErrorIs(t, err, broken)
		cancel()
		running.Wait()
		_, _, err = d.Fork(watch.ForkRequest{Store: same})
		require.ErrorIs(t, err, watch.ErrEnded)
	})
}
