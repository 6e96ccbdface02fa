package watch_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
)

// The rules of design section 11 that this package answers for, each with the case that the design
// names.

func TestRule04_AnIdleKindNeverExpires(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.put(widget{Namespace: "a", Name: "n"})
		w.settle()
		parked := w.watch(watch.Filter{}, 0)
		nothing(t, parked)

		last := w.foreign(100_000)
		w.settle()
		w.compact(last)
		s := w.cache.Snapshot()
		require.Equal(t, last, s.Revision(), "a list is as new as the store")
		require.Equal(t, last, parked.Progress(), "and so is a bookmark")
		for _, after := range []storage.Revision{s.Revision(), parked.Progress()} {
			c := w.watch(watch.Filter{}, after)
			nothing(t, c)
			defer c.Close()
			defer func() { require.Len(t, next(t, c), 1) }()
		}
		w.put(widget{Namespace: "a", Name: "n1"})
		require.Len(t, next(t, parked), 1)
	})
}

// Whoever is told a revision, by a list, a bookmark or a wait, finds it in every cache.
func TestRule04_PublishedMeansApplied(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		other, err := w.dispatcher.Add(t.Context(), config("gizmos"))
		require.NoError(t, err)
		kinds := []struct {
			name  string
			cache *watch.Cache
		}{{"widgets", w.cache}, {"gizmos", other}}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for i := range 300 {
				var ops []storage.Op
				for _, k := range kinds {
					o := widget{Namespace: "a", Name: "n", Size: i}
					ops = append(ops, storage.Put(storage.ObjectKey(k.name, "a", "n"), o.encode(), storage.Any))
				}
				revision, err := w.store.Commit(t.Context(), ops)
				assert.NoError(t, err)
				assert.NoError(t, kinds[i%2].cache.WaitFor(t.Context(), revision))
				for _, k := range kinds {
					e, ok := k.cache.Get(storage.ObjectKey(k.name, "a", "n"))
					assert.True(t, ok)
					assert.Equal(t, revision, e.Revision())
					assert.GreaterOrEqual(t, k.cache.Snapshot().Revision(), revision)
				}
			}
		}()
		cursor, err := other.Watch(t.Context(), watch.WatchRequest{Filter: watch.Filter{Name: "never"}})
		require.NoError(t, err)
		defer cursor.Close()
		for {
			published := w.dispatcher.Published()
			s, progress := other.Snapshot(), cursor.Progress()
			require.GreaterOrEqual(t, s.Revision(), published)
			for e := range s.Ascend("", "") {
				require.LessOrEqual(t, e.Revision(), s.Revision())
			}
			if e, ok := other.Get(storage.ObjectKey("gizmos", "a", "n")); ok {
				require.GreaterOrEqual(t, e.Revision(), progress-1)
			}
			select {
			case <-ended:
				return
			case <-time.After(time.Microsecond):
			}
		}
	})
}

// A commit to two kinds is acknowledged when both have it, whichever is asked.
func TestRule04_AcknowledgedMeansPublishedWhole(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		gate := make(chan struct{})
		slow := config("zslow")
		slow.Decode = func(r storage.Record) (*watch.Entry, error) {
			<-gate
			return decode(r)
		}
		_, err := w.dispatcher.Add(t.Context(), slow)
		require.NoError(t, err)
		var ops []storage.Op
		for _, kind := range []string{"widgets", "zslow"} {
			ops = append(ops, storage.Put(storage.ObjectKey(kind, "a", "n"), widget{Namespace: "a", Name: "n"}.encode(), storage.Any))
		}
		revision, err := w.store.Commit(t.Context(), ops)
		require.NoError(t, err)
		synctest.Wait()
		acknowledged := make(chan error, 1)
		go func() { acknowledged <- w.cache.WaitFor(t.Context(), revision) }()
		synctest.Wait()
		require.Equal(t, 1, w.cache.Len())
		require.Equal(t, revision-1, w.dispatcher.Published())
		require.Empty(t, acknowledged)
		close(gate)
		require.NoError(t, <-acknowledged)
		require.Equal(t, revision, w.dispatcher.Published())
	})
}

func TestRule10_EdgesAcross999And1000(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, logBytes := range []int{0, 1} {
			w := newWorldOver(t, memory.New(memory.WithFirstRevision(997)), func(c *watch.CacheConfig) { c.LogBytes = logBytes })
			selected := w.watch(watch.Filter{Labels: labels(t, "app=x")}, 0)
			all := w.watch(watch.Filter{}, 0)
			x := map[string]string{"app": "x"}
			w.put(widget{Name: "n", Size: 1})               // 998
			w.put(widget{Name: "n", Size: 2, Labels: x})    // 999
			w.put(widget{Name: "n", Size: 3})               // 1000
			w.put(widget{Name: "m", Size: 9, Labels: x})    // 1001
			require.EqualValues(t, 1002, w.remove("", "m")) //
			frame := func(typ, labels string, name string, size int, revision string) string {
				return fmt.Sprintf(`{"type":"%s","object":{"metadata":{%s"name":"%s","resourceVersion":"%s","uid":"uid-of-%s"},"spec":{"color":"","size":%d}}}`+"\n",
					typ, labels, name, revision, name, size)
			}
			appX := `"labels":{"app":"x"},`
			require.Equal(t, []string{
				frame("ADDED", appX, "n", 2, "999"),
				frame("DELETED", appX, "n", 2, "1000"),
				frame("ADDED", appX, "m", 9, "1001"),
				frame("DELETED", appX, "m", 9, "1002"),
			}, frames(t, selected, 4))
			require.Equal(t, []string{
				frame("ADDED", "", "n", 1, "998"),
				frame("MODIFIED", appX, "n", 2, "999"),
				frame("MODIFIED", "", "n", 3, "1000"),
				frame("ADDED", appX, "m", 9, "1001"),
				frame("DELETED", appX, "m", 9, "1002"),
			}, frames(t, all, 5))
		}
	})
}

// frames collects n frames.
func frames(t *testing.T, c *watch.Cursor, n int) []string {
	t.Helper()
	var out []string
	for len(out) < n {
		events, err := c.Next(t.Context(), nil)
		require.NoError(t, err)
		for _, e := range events {
			out = append(out, string(e.AppendFrame(nil)))
		}
	}
	return out
}

// tiny is a log of about a hundred small changes.
func tiny(c *watch.CacheConfig) { c.LogBytes = 100 * 1000 }

func TestRule12_AParkedWatcherIsNeverOvertaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, tiny)
		mine := watch.Filter{Namespace: "a", Name: "mine"}
		byName, byField, byLabel := w.watch(mine, 0), w.watch(watch.Filter{Fields: fields(t, "spec.color=red")}, 0),
			w.watch(watch.Filter{Labels: labels(t, "app=x")}, 0)
		parked := []*watch.Cursor{byName, byField, byLabel}
		for _, c := range parked {
			nothing(t, c)
		}
		watches := w.backend.watches.Load()
		var last storage.Revision
		for i := range 1000 {
			for j := range 100 {
				last = w.put(widget{Namespace: "a", Name: fmt.Sprint("n", j), Color: "blue", Size: i})
			}
			w.settle()
		}
		w.compact(last)
		for _, c := range parked {
			require.Equal(t, last, c.Progress())
		}
		r := w.put(widget{Namespace: "a", Name: "mine", Color: "red", Labels: map[string]string{"app": "x"}})
		for _, c := range parked {
			require.Equal(t, []string{line(meta.Added, "a/mine", r)}, next(t, c))
		}
		require.Equal(t, watches, w.backend.watches.Load(), "nobody needed the store's history")
	})
}

// A watcher of a value is woken by the object that leaves it as well as by the one that arrives.
func TestRule12_BothSidesOfAChangeWake(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		red, blue := w.watch(watch.Filter{Fields: fields(t, "spec.color=red")}, 0), w.watch(watch.Filter{Fields: fields(t, "spec.color=blue")}, 0)
		w.put(widget{Namespace: "a", Name: "n", Color: "red"})
		require.Len(t, next(t, red), 1)
		nothing(t, red)
		nothing(t, blue)
		r := w.put(widget{Namespace: "a", Name: "n", Color: "blue"})
		require.Equal(t, []string{line(meta.Deleted, "a/n", r)}, next(t, red))
		require.Equal(t, []string{line(meta.Added, "a/n", r)}, next(t, blue))
	})
}

// Commits that do not concern a watcher do not wake it.
func TestRule12_ForeignWritesWakeNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.watch(watch.Filter{Namespace: "a", Name: "mine"}, 0)
		ended := make(chan []watch.Event)
		go func() {
			events, err := c.Next(t.Context(), nil)
			assert.NoError(t, err)
			ended <- events
		}()
		for i := range 100 {
			w.put(widget{Namespace: "b", Name: "mine", Size: i})
			w.put(widget{Namespace: "a", Name: "other", Size: i})
		}
		w.settle()
		synctest.Wait()
		require.Empty(t, ended)
		r := w.put(widget{Namespace: "a", Name: "mine"})
		require.Equal(t, []string{line(meta.Added, "a/mine", r)}, lines(<-ended))
	})
}

// Only the loss of the position that a commit gave it can end a watcher: while the store still has
// it, it goes on.
func TestRule12_AStoredPositionThatIsTrimmed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(c *watch.CacheConfig) { c.LogBytes = 1 })
		lucky, unlucky := w.watch(watch.Filter{Name: "mine"}, 0), w.watch(watch.Filter{Name: "mine"}, 0)
		nothing(t, lucky)
		nothing(t, unlucky)
		before := w.put(widget{Namespace: "a", Name: "other"})
		first := w.put(widget{Namespace: "a", Name: "mine"})
		for i := range 50 {
			w.put(widget{Namespace: "a", Name: "other", Size: i})
		}
		second := w.remove("a", "mine")
		w.settle()
		require.Equal(t, first-1, lucky.Progress())
		w.compact(before) // the position is just above
		require.Equal(t, []string{line(meta.Added, "a/mine", first), line(meta.Deleted, "a/mine", second)}, take(t, lucky, 2))
		nothing(t, lucky)
		require.Equal(t, second, lucky.Progress())
		w.compact(first)
		_, err := unlucky.Next(t.Context(), nil)
		require.ErrorIs(t, err, storage.ErrCompacted)
		r := w.put(widget{Namespace: "a", Name: "mine"})
		require.Equal(t, []string{line(meta.Added, "a/mine", r)}, next(t, lucky))
	})
}

// The log in memory is bounded and forgotten by a restart; a watch resumes four minutes back all
// the same, and its first event is an edge, which needs the state before it.
func TestRule13_ResumeFromHistoryOverARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(c *watch.CacheConfig) { c.LogBytes = 1 << 20 })
		retain, stop := context.WithCancel(t.Context())
		kept := make(chan error, 1)
		go func() { kept <- w.store.Retain(retain, 5*time.Minute, 10*time.Second) }()
		defer func() {
			stop()
			require.NoError(t, <-kept)
		}()
		x := map[string]string{"app": "x"}
		w.put(widget{Namespace: "a", Name: "edge", Labels: x, Size: 1})
		time.Sleep(10 * time.Minute)
		w.settle()
		c := w.watch(watch.Filter{Labels: labels(t, "app=x")}, 0)
		nothing(t, c)
		from := c.Progress()
		c.Close()
		left := w.put(widget{Namespace: "a", Name: "edge", Size: 2})
		for i := range 240 {
			for j := range 20 {
				w.put(widget{Namespace: "a", Name: fmt.Sprint("n", j), Size: i})
			}
			time.Sleep(time.Second)
		}
		back := w.put(widget{Namespace: "a", Name: "edge", Labels: x, Size: 3})
		w.settle()
		want := []string{line(meta.Deleted, "a/edge", left), line(meta.Added, "a/edge", back)}
		require.Equal(t, want, take(t, w.watch(watch.Filter{Labels: labels(t, "app=x")}, from), 2))

		// The restart: another dispatcher over the same store.
		again := watch.NewDispatcher(w.store)
		cache, err := again.Add(t.Context(), config("widgets"))
		require.NoError(t, err)
		w.start(again)
		resumed, err := cache.Watch(t.Context(), watch.WatchRequest{Filter: watch.Filter{Labels: labels(t, "app=x")}, After: from})
		require.NoError(t, err)
		defer resumed.Close()
		require.Equal(t, want, take(t, resumed, 2))
		nothing(t, resumed)
		require.Equal(t, back, resumed.Progress())
		r := w.put(widget{Namespace: "a", Name: "edge", Size: 4})
		require.Equal(t, []string{line(meta.Deleted, "a/edge", r)}, next(t, resumed))

		// A watcher that nothing has concerned since finds its way into the new log, too.
		idle, err := cache.Watch(t.Context(), watch.WatchRequest{Filter: watch.Filter{Namespace: "nobody"}, After: from})
		require.NoError(t, err)
		defer idle.Close()
		nothing(t, idle)
		require.Equal(t, r, idle.Progress())
	})
}

// The same over a store that is closed and opened again.
func TestRule13_ResumeFromAReopenedStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "store.db")
		open := func() storage.Backend {
			db, err := bbolt.Open(path)
			require.NoError(t, err)
			return db
		}
		x := map[string]string{"app": "x"}
		before := newWorldOver(t, open())
		before.put(widget{Namespace: "a", Name: "edge", Labels: x})
		from := before.put(widget{Namespace: "a", Name: "other"})
		left := before.put(widget{Namespace: "a", Name: "edge"})
		back := before.put(widget{Namespace: "a", Name: "edge", Labels: x, Size: 2})
		gone := before.remove("a", "edge")
		before.settle()
		require.NoError(t, before.store.Close())

		after := newWorldOver(t, open())
		require.Equal(t, []string{"a/other"}, names(after.cache.Snapshot(), "", ""))
		c := after.watch(watch.Filter{Labels: labels(t, "app=x")}, from)
		require.Equal(t, []string{
			line(meta.Deleted, "a/edge", left),
			line(meta.Added, "a/edge", back),
			line(meta.Deleted, "a/edge", gone),
		}, take(t, c, 3))
		nothing(t, c)
		r := after.put(widget{Namespace: "a", Name: "new", Labels: x})
		require.Equal(t, []string{line(meta.Added, "a/new", r)}, next(t, c))
	})
}

func TestRule13_TheLogIsBoundedByAge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(c *watch.CacheConfig) { c.LogAge = time.Minute })
		from := w.cache.Revision()
		first := w.put(widget{Namespace: "a", Name: "n"})
		w.settle()
		require.Equal(t, []string{line(meta.Added, "a/n", first)}, next(t, w.watch(watch.Filter{}, from)))
		want := []string{line(meta.Added, "a/n", first)}
		for range 5 {
			want = append(want, line(meta.Modified, "a/n", w.put(widget{Namespace: "a", Name: "n"})))
		}
		w.settle()
		watches := w.backend.watches.Load()
		time.Sleep(2 * time.Minute)
		second := w.put(widget{Namespace: "a", Name: "n"})
		want = append(want, line(meta.Modified, "a/n", second))
		w.settle()
		histories := w.backend.histories.Load()
		require.Equal(t, want, take(t, w.watch(watch.Filter{}, from), len(want)))
		require.Equal(t, watches, w.backend.watches.Load())
		require.Equal(t, histories+1, w.backend.histories.Load(), "from history, in one go")
		w.compact(second)
		_, err := w.watch(watch.Filter{}, from).Next(t.Context(), nil)
		require.ErrorIs(t, err, storage.ErrCompacted, "WATCH-16")
	})
}

// An error of the store while history is read ends nothing: the cursor is where it was.
func TestRule13_HistoryGoesOnAfterAnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(c *watch.CacheConfig) { c.LogBytes = 1 })
		c := w.watch(watch.Filter{}, 0)
		var want, got []string
		for i := range 20 {
			want = append(want, line(meta.Added, fmt.Sprint("a/n", i), w.put(widget{Namespace: "a", Name: fmt.Sprint("n", i)})))
		}
		w.settle()
		var batches atomic.Int64
		w.backend.play(trick{cut: func() bool { return batches.Add(1)%5 < 2 }})
		cuts := 0
		for len(got) < len(want) {
			events, err := c.Next(t.Context(), nil)
			if err != nil {
				require.ErrorIs(t, err, errCut)
				require.Empty(t, events)
				cuts++
			}
			got = append(got, lines(events)...)
		}
		require.Equal(t, want, got)
		require.Positive(t, cuts)
	})
}

func TestRule14_InterleavedPagers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(c *watch.CacheConfig) { c.MaxPins = 1000; c.MaxPinNodes = 1 << 20 })
		for i := range 40 {
			w.put(widget{Namespace: "a", Name: fmt.Sprintf("n%02d", i)})
		}
		type pager struct {
			at         storage.Revision
			want, got  []string
			after      string
			fromMemory bool
		}
		var pagers []*pager
		page := func(p *pager, s *watch.Snapshot) {
			p.fromMemory = !s.Stored()
			n := 0
			for e := range s.Ascend("", p.after) {
				p.got, p.after = append(p.got, "a/"+e.Name()), e.Key()
				if n++; n == 13 {
					break
				}
			}
			require.NoError(t, s.Err())
		}
		for i := range 1000 {
			w.put(widget{Namespace: "a", Name: fmt.Sprintf("n%02d", i%40), Size: i})
			if i%3 == 0 {
				w.remove("a", fmt.Sprintf("n%02d", (i*7)%40))
			}
			w.settle()
			s := w.cache.Snapshot()
			p := &pager{at: s.Revision(), want: names(s, "", "")}
			page(p, s)
			w.cache.Pin(s)
			pagers = append(pagers, p)
		}
		lists := w.backend.lists.Load()
		for range 3 {
			for _, p := range pagers {
				s, err := w.cache.SnapshotAt(t.Context(), p.at)
				require.NoError(t, err)
				page(p, s)
				require.True(t, p.fromMemory)
			}
		}
		for _, p := range pagers {
			require.Equal(t, p.want, p.got)
		}
		require.Equal(t, lists, w.backend.lists.Load(), "no page was asked of the store")
	})
}

func TestRule14_PinsAreBounded(t *testing.T) {
	for _, bound := range []struct {
		name   string
		change func(*watch.CacheConfig)
	}{
		{"by count", func(c *watch.CacheConfig) { c.MaxPins = 3 }},
		{"by nodes", func(c *watch.CacheConfig) { c.MaxPinNodes = 6 }},
		{"by age", func(c *watch.CacheConfig) { c.LogAge = 3 * time.Second }},
		{"to none", func(c *watch.CacheConfig) { c.MaxPins = -1 }},
	} {
		t.Run(bound.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, bound.change)
				var at []storage.Revision
				for i := range 10 {
					w.put(widget{Namespace: "a", Name: fmt.Sprint("n", i)})
					w.settle()
					s := w.cache.Snapshot()
					w.cache.Pin(s)
					w.cache.Pin(w.cache.Snapshot())
					at = append(at, s.Revision())
					time.Sleep(time.Second)
				}
				pinned := 0
				for i, revision := range at {
					s, err := w.cache.SnapshotAt(t.Context(), revision)
					require.NoError(t, err)
					require.Len(t, names(s, "", ""), i+1, "exact, wherever it comes from")
					if !s.Stored() {
						pinned++
					} else {
						require.Zero(t, pinned, "the oldest go first")
					}
				}
				require.Less(t, pinned, 8)
				require.Positive(t, pinned, "the newest is current")
				require.False(t, w.cache.Pinned(at[0]))
				require.Equal(t, bound.name != "to none", w.cache.Pinned(at[9]), "being current is no pin")
				w.compact(at[9])
				_, err := w.cache.SnapshotAt(t.Context(), at[0])
				require.ErrorIs(t, err, storage.ErrCompacted)
			})
		})
	}
}

// A slow reader of many initial events, who asks for bookmarks all the time while objects come and
// go.
func TestRule17_NothingButAddedBeforeTheMark(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(c *watch.CacheConfig) { c.LogBytes = 1 })
		for i := range 200 {
			w.put(widget{Namespace: "a", Name: fmt.Sprintf("n%03d", i)})
		}
		w.settle()
		s := w.cache.Snapshot()
		c, err := w.cache.WatchFromSnapshot(s, watch.Filter{})
		require.NoError(t, err)
		defer c.Close()
		seen := 0
		buf := make([]watch.Event, 0, 3)
		for marked := false; !marked; {
			w.remove("a", fmt.Sprintf("n%03d", seen))
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			events, err := c.Next(ctx, buf)
			cancel()
			require.NoError(t, err)
			for _, e := range events {
				require.False(t, marked)
				if e.Type == meta.Bookmark {
					require.Equal(t, s.Revision(), e.Revision)
					require.Equal(t, 200, seen)
					marked = true
					continue
				}
				require.Equal(t, meta.Added, e.Type)
				seen++
			}
			if !marked {
				require.Zero(t, c.Progress(), "no bookmark yet")
			}
			time.Sleep(5 * time.Millisecond)
		}
		require.Equal(t, s.Revision(), c.Progress())
		for range int(w.cache.Revision() - s.Revision()) {
			events, err := c.Next(t.Context(), make([]watch.Event, 0, 1))
			require.NoError(t, err)
			require.Equal(t, meta.Deleted, events[0].Type)
		}
	})
}

// If what follows the snapshot is gone before the initial events are out, the watch must not
// pretend otherwise.
func TestRule17_ExpiredInsteadOfTheMark(t *testing.T) {
	for _, history := range []string{"kept", "compacted"} {
		t.Run(history, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, func(c *watch.CacheConfig) { c.LogBytes = 1 })
				for i := range 10 {
					w.put(widget{Namespace: "a", Name: fmt.Sprint("n", i)})
				}
				w.settle()
				s := w.cache.Snapshot()
				c, err := w.cache.WatchFromSnapshot(s, watch.Filter{})
				require.NoError(t, err)
				defer c.Close()
				require.Len(t, next(t, c), 10)
				var last storage.Revision
				for i := range 10 {
					last = w.put(widget{Namespace: "a", Name: fmt.Sprint("n", i), Size: 1})
				}
				w.settle()
				if history == "kept" {
					w.compact(s.Revision())
					require.Equal(t, []string{line(meta.Bookmark, "", s.Revision())}, next(t, c))
					require.Len(t, take(t, c, 10), 10)
					return
				}
				w.compact(last)
				events, err := c.Next(t.Context(), nil)
				require.ErrorIs(t, err, storage.ErrCompacted)
				require.Empty(t, events)
			})
		})
	}
}

// Nothing of this package runs on its own: a day of idling with a thousand watchers takes no steps,
// and at the end of the bubble every goroutine has ended.
func TestRule19_AnIdleDay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		for i := range 1000 {
			c := w.watch(watch.Filter{Namespace: "a", Name: fmt.Sprint("n", i)}, 0)
			go func() {
				_, err := c.Next(ctx, nil)
				ended <- err
			}()
		}
		time.Sleep(24 * time.Hour)
		cancel()
		for range 1000 {
			require.ErrorIs(t, <-ended, context.Canceled)
		}
	})
}

// Errors name what they are about and keep the facts within reach.
func TestErrorsKeepTheirFacts(t *testing.T) {
	err := error(&watch.DecodeError{StorageName: "widgets", Key: "/r/widgets/a/n\x01/", Revision: 7, Err: errBroken})
	require.ErrorIs(t, err, errBroken)
	for _, fact := range []string{"widgets", `"/r/widgets/a/n\x01/"`, "7", errBroken.Error()} {
		require.Contains(t, err.Error(), fact)
	}
	require.NotErrorIs(t, watch.ErrGone, watch.ErrEnded)
}
