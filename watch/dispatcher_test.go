package watch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
	"github.com/kindwright/kindwright/watch/watchtest"
)

func TestConfigIsChecked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		_, err := w.dispatcher.Add(t.Context(), watch.CacheConfig{Decode: decode})
		require.ErrorContains(t, err, "StorageName")
		_, err = w.dispatcher.Add(t.Context(), watch.CacheConfig{StorageName: "x"})
		require.ErrorContains(t, err, "Decode of x")
		_, err = w.dispatcher.Add(t.Context(), config("widgets"))
		require.ErrorContains(t, err, `"widgets" is in use`)
		synctest.Wait()
		require.Error(t, w.dispatcher.Run(t.Context()), "a second Run")
	})
}

func TestAddBeforeRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		under := &backend{Backend: memory.New()}
		store := storage.New(under)
		defer func() { require.NoError(t, store.Close()) }()
		put := func(o widget) storage.Revision {
			key := storage.ObjectKey("widgets", o.Namespace, o.Name)
			r, err := store.Commit(t.Context(), []storage.Op{storage.Put(key, o.encode(), storage.Any)})
			require.NoError(t, err)
			return r
		}
		first := put(widget{Namespace: "a", Name: "n0"})
		d := watch.NewDispatcher(store)
		require.ErrorContains(t, d.Ready(), "not started")
		c, err := d.Add(t.Context(), config("widgets"))
		require.NoError(t, err)
		require.Equal(t, first, c.Revision())
		require.NoError(t, c.WaitFor(t.Context(), first), "what was listed is here")
		require.Equal(t, []string{"a/n0"}, names(c.Snapshot(), "", ""))
		gizmo := storage.ObjectKey("gizmos", "a", "g")
		_, err = store.Commit(t.Context(), []storage.Op{storage.Put(gizmo, widget{Namespace: "a", Name: "g"}.encode(), storage.Any)})
		require.NoError(t, err)
		second := put(widget{Namespace: "a", Name: "n1"})
		late, err := d.Add(t.Context(), config("gizmos"))
		require.NoError(t, err)
		require.Equal(t, second, late.Revision())
		cursor, err := c.Watch(t.Context(), watch.WatchRequest{})
		require.NoError(t, err)
		// What a list holds already comes by again, for the kinds that were listed before: that is
		// no news.
		under.play(trick{hold: func() { require.Equal(t, second, late.Revision()) }})

		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		require.Equal(t, []string{line(meta.Added, "a/n1", second)}, next(t, cursor))
		require.NoError(t, c.Fresh(t.Context()))
		require.NoError(t, d.Ready())
		require.Equal(t, second, d.Published())
		require.Equal(t, []string{"a/g"}, names(late.Snapshot(), "", ""))

		cancel()
		require.NoError(t, <-ended)
		require.ErrorIs(t, d.Ready(), watch.ErrEnded)
		_, err = cursor.Next(t.Context(), nil)
		require.ErrorIs(t, err, watch.ErrEnded)
		<-c.Done()
		require.ErrorIs(t, c.Err(), watch.ErrEnded)
		_, err = c.Watch(t.Context(), watch.WatchRequest{})
		require.ErrorIs(t, err, watch.ErrEnded)
		_, err = c.SnapshotAt(t.Context(), 0)
		require.ErrorIs(t, err, watch.ErrEnded)
		third := put(widget{Namespace: "a", Name: "n2"})
		require.ErrorIs(t, c.WaitFor(t.Context(), third), watch.ErrEnded)
		require.Equal(t, second, c.Snapshot().Revision(), "what has ended does not claim to know more")
		require.Equal(t, []string{"a/n0", "a/n1"}, names(c.Snapshot(), "", ""))
		_, err = d.Add(t.Context(), config("more"))
		require.ErrorIs(t, err, watch.ErrEnded)
		require.Error(t, d.Run(t.Context()))
	})
}

// A kind is added while it is being written to, and its list takes many pages with commits between
// them: nothing is lost, nothing comes twice.
func TestAddWhileWritten(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) { addWhileWritten(t, seed) })
		})
	}
}

func addWhileWritten(t *testing.T, seed uint64) {
	w := newWorldOver(t, memory.New(memory.WithFirstRevision(990)))
	for i := range 40 {
		w.put(widget{Namespace: "a", Name: fmt.Sprint("n", i)})
	}
	w.dispatcher.Remove("widgets")
	// Pages of three objects, a millisecond apart; in the odd seeds the watch breaks and the store
	// is compacted under both the list and the watch.
	disturb := trick{pageLimit: 3, pause: func() { time.Sleep(time.Millisecond) }}
	random := rand.New(rand.NewPCG(seed, 1))
	if seed%2 == 1 {
		disturb.cut = everyNth(15)
	}
	w.backend.play(disturb)
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := range 120 {
			time.Sleep(time.Duration(random.IntN(600)) * time.Microsecond)
			name := fmt.Sprint("n", random.IntN(60))
			if random.IntN(3) == 0 {
				w.remove("a", name)
			} else {
				w.put(widget{Namespace: "a", Name: name, Size: i})
			}
			if seed%2 == 1 && i%25 == 24 {
				revision, err := w.store.Revision(t.Context())
				require.NoError(t, err)
				require.NoError(t, w.store.Compact(t.Context(), revision))
			}
		}
	})
	time.Sleep(5 * time.Millisecond)
	before, err := w.store.Revision(t.Context())
	require.NoError(t, err)
	w.cache, err = w.dispatcher.Add(t.Context(), config("widgets"))
	require.NoError(t, err)
	if seed%2 == 0 {
		w.checkFrom(before)
	}
	r := &watchtest.Recording{Match: func(*watch.Entry) bool { return true }, Initial: true}
	cursor := w.fromSnapshot(r)
	defer func() { cursor.Close() }()
	writing.Wait()
	w.settle()
	final := w.cache.Revision()
	for cursor.Progress() < final {
		events, err := cursor.Next(t.Context(), nil)
		if errors.Is(err, storage.ErrCompacted) {
			require.NoError(t, w.history.Check(r, 0))
			cursor.Close()
			r = &watchtest.Recording{Match: r.Match, Initial: true}
			cursor = w.fromSnapshot(r)
			continue
		}
		require.NoError(t, err)
		r.Events(events...)
	}
	require.NoError(t, w.history.Check(r, final))
	live := 0
	for key, e := range w.now {
		got, ok := w.cache.Get(key)
		require.Equal(t, e != nil, ok, key)
		if ok {
			live++
			require.Equal(t, e.Revision(), got.Revision(), key)
		}
	}
	require.Equal(t, live, w.cache.Len())
	require.Equal(t, live, w.cache.Snapshot().Len(""))
}

// checkFrom watches from a revision to the present and checks that nothing was missed.
func (w *world) checkFrom(after storage.Revision) {
	w.settle()
	final := w.cache.Revision()
	r := &watchtest.Recording{Match: func(*watch.Entry) bool { return true }, From: after}
	cursor := w.watch(watch.Filter{}, after)
	for cursor.Progress() < final {
		events, err := cursor.Next(w.t.Context(), nil)
		require.NoError(w.t, err)
		r.Events(events...)
	}
	w.mu.Lock() // what is committed is also noted
	defer w.mu.Unlock()
	require.NoError(w.t, w.history.Check(r, final))
}

func (w *world) fromSnapshot(r *watchtest.Recording) *watch.Cursor {
	s := w.cache.Snapshot()
	r.From = s.Revision()
	c, err := w.cache.WatchFromSnapshot(s, watch.Filter{})
	require.NoError(w.t, err)
	return c
}

// adding begins an Add in the background and stops it at its list's second page. It returns what
// lets it go on and what waits for its end.
func (w *world) adding() (release func(), added func() (*watch.Cache, error)) {
	gate, done := make(chan struct{}), make(chan struct{})
	var cache *watch.Cache
	var err error
	w.dispatcher.Remove("widgets")
	pages := 0
	w.backend.play(trick{pageLimit: 2, rest: func() {
		if pages++; pages == 2 {
			<-gate
		}
	}})
	go func() {
		defer close(done)
		cache, err = w.dispatcher.Add(w.t.Context(), config("widgets"))
	}()
	synctest.Wait()
	return func() { close(gate) }, func() (*watch.Cache, error) {
		<-done
		return cache, err
	}
}

// The list is newer than what the dispatcher has seen: what it sees later is older than what is
// known already.
func TestAddWhileTheWatchLags(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.put(widget{Namespace: "a", Name: "n"})
		gate := make(chan struct{})
		w.settle()
		w.dispatcher.Remove("widgets")
		// The dispatcher notes one state and is held before the next; the list finds the next.
		noted, held := make(chan struct{}), make(chan struct{})
		batches, pages := 0, 0
		w.backend.play(trick{
			pause: func() {
				if pages++; pages == 1 {
					close(noted)
					<-held
				}
			},
			hold: func() {
				if batches++; batches == 2 {
					<-gate
				}
			},
		})
		added := make(chan *watch.Cache)
		go func() {
			c, err := w.dispatcher.Add(t.Context(), config("widgets"))
			assert.NoError(t, err)
			added <- c
		}()
		<-noted
		w.put(widget{Namespace: "a", Name: "n", Size: 1})
		synctest.Wait()
		last := w.put(widget{Namespace: "a", Name: "n", Size: 2})
		synctest.Wait()
		close(held)
		c := <-added
		require.Equal(t, last, c.Revision())
		e, ok := c.Get(storage.ObjectKey("widgets", "a", "n"))
		require.True(t, ok)
		require.Equal(t, last, e.Revision())
		cursor, err := c.Watch(t.Context(), watch.WatchRequest{})
		require.NoError(t, err)
		defer cursor.Close()
		close(gate)
		nothing(t, cursor)
		require.Equal(t, last, c.Revision())
	})
}

func TestAddMeetsABrokenRecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 5 {
			w.put(widget{Namespace: "a", Name: fmt.Sprint("n", i)})
		}
		release, added := w.adding()
		key := storage.ObjectKey("widgets", "a", "n0")
		_, err := w.store.Commit(t.Context(), []storage.Op{storage.Put(key, []byte("broken"), storage.Any)})
		require.NoError(t, err)
		synctest.Wait()
		release()
		_, err = added()
		require.ErrorIs(t, err, errBroken)
		w.put(widget{Namespace: "a", Name: "n0"})
		_, err = w.dispatcher.Add(t.Context(), config("widgets"))
		require.NoError(t, err)
	})
}

// Changes above a finished list were lost before the kind was live: it is listed again.
func TestAddWhileHistoryIsLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 3 {
			w.put(widget{Namespace: "a", Name: fmt.Sprint("n", i)})
		}
		w.settle()
		release, added := w.adding() // two pages: the second is read and not yet looked at
		gate := make(chan struct{})
		batches := 0
		w.backend.play(trick{hold: func() {
			if batches++; batches == 1 {
				<-gate
			}
		}})
		w.foreign(1)
		synctest.Wait()
		last := w.put(widget{Namespace: "a", Name: "lost"})
		w.compact(last)
		close(gate)
		synctest.Wait()
		time.Sleep(time.Minute)
		require.Equal(t, last, w.dispatcher.Published())
		release()
		c, err := added()
		require.NoError(t, err)
		require.Equal(t, []string{"a/lost", "a/n0", "a/n1", "a/n2"}, names(c.Snapshot(), "", ""))
	})
}

// Run begins while a list is under way that is older than what it begins after.
func TestRunBeginsWhileAdding(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 3 {
			w.put(widget{Namespace: "a", Name: fmt.Sprint("n", i)})
		}
		w.settle()
		w.dispatcher.Remove("widgets")
		w.dispatcher = watch.NewDispatcher(w.store)
		release, added := w.adding()
		w.put(widget{Namespace: "a", Name: "between"})
		w.start(w.dispatcher)
		synctest.Wait()
		release()
		c, err := added()
		require.NoError(t, err)
		require.Equal(t, []string{"a/between", "a/n0", "a/n1", "a/n2"}, names(c.Snapshot(), "", ""))
	})
}

// Backends promise every batch once; a dispatcher that gets one twice takes no harm.
func TestABatchThatComesTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.backend.play(trick{twice: true})
		c := w.watch(watch.Filter{}, 0)
		var want []string
		for i := range 5 {
			want = append(want, line(meta.Added, fmt.Sprint("a/n", i), w.put(widget{Namespace: "a", Name: fmt.Sprint("n", i)})))
		}
		require.Equal(t, want, take(t, c, 5))
		nothing(t, c)
	})
}

func TestRemoveEndsAKind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.put(widget{Namespace: "a", Name: "n"})
		w.settle()
		c := w.watch(watch.Filter{}, 0)
		ended := make(chan error, 1)
		go func() {
			_, err := c.Next(t.Context(), nil)
			ended <- err
		}()
		synctest.Wait()
		w.dispatcher.Remove("widgets")
		w.dispatcher.Remove("widgets")
		w.dispatcher.Remove("never added")
		require.ErrorIs(t, <-ended, watch.ErrGone)
		require.ErrorIs(t, w.cache.Err(), watch.ErrGone)
		require.NoError(t, w.dispatcher.Ready(), "a kind that was removed is not missed")
		old := w.cache
		r := w.put(widget{Namespace: "a", Name: "n1"})
		require.ErrorIs(t, old.WaitFor(t.Context(), r), watch.ErrGone)
		require.Equal(t, 1, old.Len())

		var err error
		w.cache, err = w.dispatcher.Add(t.Context(), config("widgets"))
		require.NoError(t, err)
		require.Equal(t, []string{"a/n", "a/n1"}, names(w.cache.Snapshot(), "", ""))
	})
}

func TestRemoveWhileAdding(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.backend.play(trick{pause: func() { time.Sleep(time.Second) }})
		added := make(chan error, 1)
		go func() {
			_, err := w.dispatcher.Add(t.Context(), config("gizmos"))
			added <- err
		}()
		synctest.Wait()
		w.dispatcher.Remove("gizmos")
		require.ErrorIs(t, <-added, watch.ErrGone)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := w.dispatcher.Add(ctx, config("gizmos"))
		require.ErrorIs(t, err, context.Canceled)
		_, err = w.dispatcher.Add(t.Context(), config("gizmos"))
		require.NoError(t, err, "a failed Add leaves nothing behind")
	})
}

// A broken watch is begun again after the last complete revision.
func TestABrokenWatchGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.watch(watch.Filter{}, 0)
		w.backend.play(trick{cut: everyNth(3)})
		var want, got []string
		for i := range 30 {
			want = append(want, line(meta.Added, fmt.Sprint("a/n", i), w.put(widget{Namespace: "a", Name: fmt.Sprint("n", i)})))
			w.settle()
		}
		for len(got) < len(want) {
			got = append(got, next(t, c)...)
		}
		require.Equal(t, want, got)
		require.GreaterOrEqual(t, w.backend.cuts.Load(), int64(10))
	})
}

func TestReadyWhileTheStoreIsAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		require.NoError(t, w.dispatcher.Ready())
		w.backend.play(trick{cut: func() bool { return true }})
		w.foreign(3)
		synctest.Wait()
		require.ErrorIs(t, w.dispatcher.Ready(), errCut)
		time.Sleep(time.Hour)
		require.ErrorIs(t, w.dispatcher.Ready(), errCut)
		require.Less(t, w.backend.cuts.Load(), int64(4000), "about one a second")
		var catchingUp []error
		w.backend.play(trick{hold: func() { catchingUp = append(catchingUp, w.dispatcher.Ready()) }})
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, err := range catchingUp[:3] {
			require.ErrorIs(t, err, errCut, "not ready before it has caught up")
		}
		require.NoError(t, w.dispatcher.Ready())
	})
}

func TestRunEndsWithAClosedStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := storage.New(memory.New())
		d := watch.NewDispatcher(store)
		ended := make(chan error, 1)
		go func() { ended <- d.Run(t.Context()) }()
		synctest.Wait()
		require.NoError(t, store.Close())
		require.ErrorIs(t, <-ended, storage.ErrClosed)
	})
}

// History that is gone before it was seen: everything is listed afresh, watches end with 410,
// nothing is wrong after.
func TestLostHistoryIsListedAfresh(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		other, err := w.dispatcher.Add(t.Context(), config("gizmos"))
		require.NoError(t, err)
		for i := range 5 {
			w.put(widget{Namespace: "a", Name: fmt.Sprint("n", i)})
		}
		w.settle()
		c := w.watch(watch.Filter{Name: "never"}, 0)
		old, err := w.cache.WatchFromSnapshot(w.cache.Snapshot(), watch.Filter{})
		require.NoError(t, err)
		defer old.Close()
		before := w.cache.Snapshot()

		// The dispatcher is held in its watch while the store moves on and forgets.
		release := make(chan struct{})
		w.backend.play(trick{hold: func() { <-release }})
		w.put(widget{Namespace: "a", Name: "held"})
		synctest.Wait()
		w.remove("a", "n0")
		last := w.put(widget{Namespace: "a", Name: "n1", Size: 7})
		w.compact(last)
		synctest.Wait()
		w.backend.play(trick{})
		close(release)

		require.NoError(t, w.cache.WaitFor(t.Context(), last))
		require.Equal(t, []string{"a/held", "a/n1", "a/n2", "a/n3", "a/n4"}, names(w.cache.Snapshot(), "", ""))
		require.Equal(t, []string{"a/n0", "a/n1", "a/n2", "a/n3", "a/n4"}, names(before, "", ""))
		_, err = c.Next(t.Context(), nil)
		require.ErrorIs(t, err, storage.ErrCompacted)
		_, err = old.Next(t.Context(), nil)
		require.ErrorIs(t, err, storage.ErrCompacted)
		require.NoError(t, other.Fresh(t.Context()))
		require.NoError(t, w.dispatcher.Ready())

		c = w.watch(watch.Filter{}, last)
		r := w.put(widget{Namespace: "a", Name: "n1", Size: 8})
		require.Equal(t, []string{line(meta.Modified, "a/n1", r)}, next(t, c))
		c = w.watch(watch.Filter{}, before.Revision())
		_, err = c.Next(t.Context(), nil)
		require.ErrorIs(t, err, storage.ErrCompacted)
	})
}

// A record that cannot be decoded stops its kind where it was and no other.
// A record that cannot be read takes nothing but itself away.
func TestABrokenRecordIsLeftOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		other, err := w.dispatcher.Add(t.Context(), config("gizmos"))
		require.NoError(t, err)
		w.put(widget{Namespace: "a", Name: "n"})
		w.foreign(5)
		w.settle()
		c := w.watch(watch.Filter{Name: "never"}, 0)
		nothing(t, c)

		key := storage.ObjectKey("widgets", "a", "n")
		bad, err := w.store.Commit(t.Context(), []storage.Op{storage.Put(key, []byte("not JSON, and secret"), storage.Any)})
		require.NoError(t, err)
		require.NoError(t, w.cache.Fresh(t.Context()))
		require.NoError(t, w.cache.Err())
		require.NoError(t, w.dispatcher.Ready())
		_, ok := w.cache.Get(key)
		require.False(t, ok, "what was read before is not what is stored")
		one, ok := w.cache.Unreadable(key)
		require.True(t, ok)
		var failed *watch.DecodeError
		require.ErrorAs(t, one.Err, &failed)
		require.Equal(t, watch.DecodeError{StorageName: "widgets", Key: key, Revision: bad, Err: errBroken}, *failed)
		require.ErrorContains(t, one.Err, strconv.Quote(key))
		require.NotContains(t, one.Err.Error(), "secret")
		snap := w.cache.Snapshot()
		require.Equal(t, bad, snap.Revision())
		require.Equal(t, []watch.Unreadable{one}, snap.Unreadable(""))
		require.Empty(t, snap.Unreadable("/r/widgets/b/"))
		require.Len(t, slices.Collect(w.dispatcher.Unreadable()), 1)
		nothing(t, c)
		w.foreign(2)
		require.NoError(t, other.Fresh(t.Context()))

		all := w.watch(watch.Filter{}, bad)
		nothing(t, all)
		next := w.put(widget{Namespace: "a", Name: "n", Size: 2})
		require.Equal(t, line(meta.Modified, "a/n", next), take(t, all, 1)[0], "watches have not been told that it is gone")
		_, ok = w.cache.Unreadable(key)
		require.False(t, ok)
		require.Len(t, snap.Unreadable(""), 1, "a snapshot does not change")

		_, err = w.store.Commit(t.Context(), []storage.Op{storage.Put(key, []byte("bad"), storage.Any)})
		require.NoError(t, err)
		gone := w.remove("a", "n")
		require.Equal(t, line(meta.Deleted, "a/n", gone), take(t, all, 1)[0], "with its last state that could be read")
		require.NoError(t, w.cache.Fresh(t.Context()))
		require.Empty(t, slices.Collect(w.dispatcher.Unreadable()))
	})
}

func TestEntriesAreWhatTheCacheReliesOn(t *testing.T) {
	for name, wrong := range map[string]func(*watch.Entry) (*watch.Entry, error){
		"no entry": func(*watch.Entry) (*watch.Entry, error) { return nil, nil },
		"at revision": func(e *watch.Entry) (*watch.Entry, error) {
			return watch.NewEntry(e.Key(), 1, e.Body(), e.Facts()), nil
		},
		"/elsewhere/": func(e *watch.Entry) (*watch.Entry, error) {
			return watch.NewEntry("/elsewhere/", e.Revision(), e.Body(), e.Facts()), nil
		},
		"0 field values for 1": func(e *watch.Entry) (*watch.Entry, error) {
			return watch.NewEntry(e.Key(), e.Revision(), e.Body(), watch.Facts{}), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				w.put(widget{Namespace: "a", Name: "n"})
				w.dispatcher.Remove("widgets")
				cfg := config("widgets")
				cfg.Decode = func(r storage.Record) (*watch.Entry, error) {
					e, err := decode(r)
					require.NoError(t, err)
					return wrong(e)
				}
				_, err := w.dispatcher.Add(t.Context(), cfg)
				require.ErrorContains(t, err, name)
			})
		})
	}
}
