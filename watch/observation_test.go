package watch_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
)

// register is an observer that knows which objects there are, and fails when told to.
type register struct {
	mu    sync.Mutex
	known map[string]storage.Revision
	fills int
	fail  func() // called first
}

func (n *register) Filled(_ string, entries iter.Seq[*watch.Entry]) {
	if n.fail != nil {
		n.fail()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fills++
	n.known = map[string]storage.Revision{}
	for e := range entries {
		n.known[e.Name()] = e.Revision()
	}
}

func (n *register) Changed(prev, next *watch.Entry) {
	if n.fail != nil {
		n.fail()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if next == nil {
		delete(n.known, prev.Name())
		return
	}
	n.known[next.Name()] = next.Revision()
}

func (n *register) list() map[string]storage.Revision {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.known)
}

// observe has an observer told about widgets until the test ends.
func observe(t *testing.T, d *watch.Dispatcher, n *register) *watch.Observation {
	o, err := d.Observe("widgets", n)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { o.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	synctest.Wait()
	return o
}

// Whoever waits for a revision finds that each observer has been told of it.
func TestObserversKnowOfAChangeBeforeItIsPublished(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _ := newObserved(t)
		w.put(widget{Namespace: "a", Name: "before"})
		first, second := &register{}, &register{}
		early := observe(t, w.dispatcher, first)
		require.ErrorContains(t, early.Err(), "not been loaded")
		var err error
		w.cache, err = w.dispatcher.Add(t.Context(), config("widgets"))
		require.NoError(t, err)
		require.NoError(t, early.Err())
		late := observe(t, w.dispatcher, second)
		require.NoError(t, late.Err())
		for i := range 20 {
			rev := w.put(widget{Namespace: "a", Name: fmt.Sprint("n", i%7)})
			require.NoError(t, w.cache.WaitFor(t.Context(), rev))
			require.Equal(t, rev, first.list()[fmt.Sprint("n", i%7)])
			require.Equal(t, first.list(), second.list())
		}
		rev := w.remove("a", "n3")
		require.NoError(t, w.cache.WaitFor(t.Context(), rev))
		require.NotContains(t, first.list(), "n3")
		require.Contains(t, first.list(), "before")
		require.Equal(t, 1, first.fills)

		w.dispatcher.Remove("widgets")
		require.ErrorIs(t, early.Err(), watch.ErrGone)
		_, err = w.dispatcher.Add(t.Context(), config("widgets"))
		require.NoError(t, err)
		require.NoError(t, early.Err())
		require.Equal(t, 2, first.fills)
	})
}

// An observer that panics is behind from then on, until it has been told everything anew.
func TestAnObserverThatPanicsIsToldEverythingAnew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _ := newObserved(t)
		var err error
		w.cache, err = w.dispatcher.Add(t.Context(), config("widgets"))
		require.NoError(t, err)
		n, sound := &register{}, &register{}
		o := observe(t, w.dispatcher, n)
		observe(t, w.dispatcher, sound)
		panics := 3
		n.fail = func() {
			if panics--; panics >= 0 {
				panic("boom")
			}
		}
		rev := w.put(widget{Namespace: "a", Name: "n1"})
		require.NoError(t, w.cache.WaitFor(t.Context(), rev), "the server goes on")
		require.ErrorContains(t, o.Err(), "boom")
		require.Equal(t, rev, sound.list()["n1"], "so do the others")
		rev = w.put(widget{Namespace: "a", Name: "n2"})
		require.NoError(t, w.cache.WaitFor(t.Context(), rev))
		require.Error(t, o.Err())
		time.Sleep(time.Second)
		require.NoError(t, o.Err())
		require.Equal(t, sound.list(), n.list(), "no change is lost")
	})
}

// An observer that blocks holds up one write for a short while. Err says that it is behind before that write is answered,
// and no longer when it has caught up.
func TestAnObserverThatBlocksHoldsNobodyUpForLong(t *testing.T) {
	for _, changes := range []int{10, 5000} {
		bubble(t, func(t *testing.T) {
			w, _ := newObserved(t)
			var err error
			w.cache, err = w.dispatcher.Add(t.Context(), config("widgets"))
			require.NoError(t, err)
			n := &register{}
			o := observe(t, w.dispatcher, n)
			release := make(chan struct{})
			n.fail = func() { <-release }
			began := time.Now()
			rev := w.put(widget{Namespace: "a", Name: "n0"})
			require.NoError(t, w.cache.WaitFor(t.Context(), rev))
			require.Equal(t, 2*time.Second, time.Since(began))
			require.Error(t, o.Err())
			for i := range changes {
				rev = w.put(widget{Namespace: "a", Name: fmt.Sprint("n", i%3), Size: i})
			}
			require.NoError(t, w.cache.WaitFor(t.Context(), rev))
			require.Equal(t, 2*time.Second, time.Since(began), "the others do not wait")
			require.Error(t, o.Err())
			close(release)
			synctest.Wait()
			require.NoError(t, o.Err())
			require.Len(t, n.list(), 3)
			require.Equal(t, rev, n.list()[fmt.Sprint("n", (changes-1)%3)])
		})
	}
}

// What is told to a fork is what the fork shows.
func TestObserversOfAForkAreToldWhatItTookOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _ := newObserved(t)
		var err error
		w.cache, err = w.dispatcher.Add(t.Context(), config("widgets"))
		require.NoError(t, err)
		rev := w.put(widget{Namespace: "a", Name: "n1"})
		require.NoError(t, w.cache.WaitFor(t.Context(), rev))
		f, _, err := w.dispatcher.Fork(watch.ForkRequest{
			Store: func(storage.Revision) (*storage.Store, error) { return w.store, nil }, Configs: []watch.CacheConfig{config("widgets")},
		})
		require.NoError(t, err)
		n := &register{}
		o := observe(t, f, n)
		require.NoError(t, o.Err())
		require.Equal(t, map[string]storage.Revision{"n1": rev}, n.list())
	})
}

func TestObservationsEndWithTheDispatcher(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := storage.New(memory.New())
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		w := &world{t: t, dispatcher: watch.NewDispatcher(store)}
		stop := w.start(w.dispatcher)
		_, err := w.dispatcher.Add(t.Context(), config("widgets"))
		require.NoError(t, err)
		o := observe(t, w.dispatcher, &register{})
		stop()
		require.ErrorIs(t, o.Err(), watch.ErrEnded)
		_, err = w.dispatcher.Observe("widgets", &register{})
		require.ErrorIs(t, err, watch.ErrEnded)
	})
}
