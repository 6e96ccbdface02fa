package watch_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

func TestWATCH_21_SelectorEdges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.watch(watch.Filter{Labels: labels(t, "app=x")}, 0)
		x, y := map[string]string{"app": "x"}, map[string]string{"app": "y"}

		w.put(widget{Namespace: "a", Name: "n", Labels: y})
		r := w.put(widget{Namespace: "a", Name: "n", Labels: x, Size: 1})
		require.Equal(t, []string{line(meta.Added, "a/n", r)}, next(t, c), "begins to match")
		r = w.put(widget{Namespace: "a", Name: "n", Labels: x, Size: 2})
		require.Equal(t, []string{line(meta.Modified, "a/n", r)}, next(t, c))
		r = w.put(widget{Namespace: "a", Name: "n", Labels: y, Size: 3})
		events, err := c.Next(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, []string{line(meta.Deleted, "a/n", r)}, lines(events), "stops matching")
		require.Contains(t, string(events[0].AppendFrame(nil)), `"size":2`, "the last state that matched")
		require.Contains(t, string(events[0].AppendFrame(nil)), fmt.Sprintf(`"resourceVersion":"%s"`, r), "WATCH-26")
		w.remove("a", "n")
		nothing(t, c)
		r = w.put(widget{Namespace: "a", Name: "n", Labels: x})
		require.Equal(t, []string{line(meta.Added, "a/n", r)}, next(t, c))
		r = w.remove("a", "n")
		require.Equal(t, []string{line(meta.Deleted, "a/n", r)}, next(t, c))
	})
}

func TestOneNextReturnsWhatFits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.watch(watch.Filter{}, 0)
		var want []string
		for i := range 100 {
			want = append(want, line(meta.Added, fmt.Sprintf("a/n%d", i), w.put(widget{Namespace: "a", Name: fmt.Sprint("n", i)})))
		}
		w.settle()
		require.Equal(t, want[:32], next(t, c))
		buf := make([]watch.Event, 0, 10)
		events, err := c.Next(t.Context(), buf)
		require.NoError(t, err)
		require.Equal(t, want[32:42], lines(events))
		require.Equal(t, events[9].Revision, c.Progress(), "what was returned and no more")
		events, err = c.Next(t.Context(), events)
		require.NoError(t, err)
		require.Equal(t, want[42:52], lines(events))
	})
}

func TestNextEndsWithItsContextAndGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.watch(watch.Filter{}, 0)
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		events, err := c.Next(ctx, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Nil(t, events, "waiting takes no array")
		require.Equal(t, time.Minute, time.Since(begin))
		events, err = c.Next(ctx, make([]watch.Event, 1, 7))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, events)
		require.Equal(t, 7, cap(events), "the caller keeps its array")
		r := w.put(widget{Namespace: "a", Name: "n"})
		w.settle()
		_, err = c.Next(ctx, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded, "a bookmark that is due comes before more events")
		require.Less(t, c.Progress(), r)
		require.Equal(t, []string{line(meta.Added, "a/n", r)}, next(t, c))
	})
}

func TestWATCH_22_ABookmarkMovesWithForeignWrites(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.watch(watch.Filter{Namespace: "a"}, 0)
		nothing(t, c)
		for range 5 {
			r := w.foreign(3)
			w.put(widget{Namespace: "b", Name: "n"})
			w.settle()
			require.Equal(t, r+1, c.Progress())
		}
		again := w.watch(watch.Filter{Namespace: "a"}, c.Progress())
		r := w.put(widget{Namespace: "a", Name: "n"})
		require.Equal(t, []string{line(meta.Added, "a/n", r)}, next(t, again), "WATCH-24")
		require.Equal(t, []string{line(meta.Added, "a/n", r)}, next(t, c))
	})
}

// A watch may begin above what the cache has seen: nothing at or below its beginning is shown.
func TestWatchBeginsAboveTheHead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		head := w.cache.Revision()
		c := w.watch(watch.Filter{}, head+2)
		nothing(t, c)
		for i := range 2 {
			w.put(widget{Namespace: "a", Name: fmt.Sprint("early", i)})
		}
		nothing(t, c)
		r := w.put(widget{Namespace: "a", Name: "n"})
		require.Equal(t, head+3, r)
		require.Equal(t, []string{line(meta.Added, "a/n", r)}, next(t, c))
	})
}

func TestCloseEndsNext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.watch(watch.Filter{}, 0)
		ended := make(chan error, 1)
		go func() {
			_, err := c.Next(t.Context(), nil)
			ended <- err
		}()
		synctest.Wait()
		c.Close()
		require.ErrorIs(t, <-ended, watch.ErrEnded)
		c.Close()
		_, err := c.Next(t.Context(), nil)
		require.ErrorIs(t, err, watch.ErrEnded)
		w.put(widget{Namespace: "a", Name: "n"})
		w.settle()
	})
}

func TestWLIST_03_InitialEventsThenTheMarkThenChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		var want []string
		for i := range 5 {
			want = append(want, line(meta.Added, fmt.Sprintf("a/n%d", i), w.put(widget{Namespace: "a", Name: fmt.Sprint("n", i)})))
		}
		w.put(widget{Namespace: "b", Name: "other"})
		w.settle()
		s := w.cache.Snapshot()
		r := w.put(widget{Namespace: "a", Name: "n9"})
		w.settle()
		c, err := w.cache.WatchFromSnapshot(s, watch.Filter{Namespace: "a"})
		require.NoError(t, err)
		defer c.Close()
		require.Zero(t, c.Progress())
		var got []string
		for range 4 {
			events, err := c.Next(t.Context(), make([]watch.Event, 0, 2))
			require.NoError(t, err)
			got = append(got, lines(events)...)
		}
		require.Equal(t, append(want, line(meta.Bookmark, "", s.Revision())), got)
		require.Equal(t, s.Revision(), c.Progress())
		require.Equal(t, []string{line(meta.Added, "a/n9", r)}, next(t, c))
	})
}

func TestInitialEventsOfNothingAreTheMark(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.put(widget{Namespace: "b", Name: "n"})
		w.settle()
		c, err := w.cache.WatchFromSnapshot(w.cache.Snapshot(), watch.Filter{Namespace: "a"})
		require.NoError(t, err)
		defer c.Close()
		require.Equal(t, []string{line(meta.Bookmark, "", w.cache.Revision())}, next(t, c))
		nothing(t, c)
	})
}

// A snapshot that is read from the store serves as a beginning as well, and says when it cannot.
func TestInitialEventsFromTheStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.backend.play(trick{pageLimit: 2})
		var first storage.Revision
		for i := range 7 {
			first = w.put(widget{Namespace: "a", Name: fmt.Sprint("n", i)})
		}
		last := w.remove("a", "n3")
		w.settle()
		s, err := w.cache.SnapshotAt(t.Context(), first)
		require.NoError(t, err)
		require.True(t, s.Stored())
		c, err := w.cache.WatchFromSnapshot(s, watch.Filter{})
		require.NoError(t, err)
		defer c.Close()
		require.Len(t, next(t, c), 7)
		require.Equal(t, []string{line(meta.Bookmark, "", first)}, next(t, c))
		require.Equal(t, []string{line(meta.Deleted, "a/n3", last)}, next(t, c))

		c, err = w.cache.WatchFromSnapshot(s, watch.Filter{})
		require.NoError(t, err)
		defer c.Close()
		events, err := c.Next(t.Context(), make([]watch.Event, 0, 3))
		require.NoError(t, err)
		require.Len(t, events, 3)
		w.compact(last)
		_, err = c.Next(t.Context(), events)
		require.ErrorIs(t, err, storage.ErrCompacted)
	})
}

func TestWatchFromSnapshotOfAnotherKind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		other, err := w.dispatcher.Add(t.Context(), config("gizmos"))
		require.NoError(t, err)
		_, err = w.cache.WatchFromSnapshot(other.Snapshot(), watch.Filter{})
		require.ErrorContains(t, err, "gizmos")
		w.cache.Pin(other.Snapshot())
	})
}

// The log of a kind holds far more changes than any buffer or batch. A slow reader and one that comes
// late get every one of them, deletions included.
func TestALongLogLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		begin := w.cache.Revision()
		slow := w.watch(watch.Filter{}, 0)
		var want []string
		for i := range 3000 {
			name := fmt.Sprint("n", i)
			want = append(want, line(meta.Added, "a/"+name, w.put(widget{Namespace: "a", Name: name})))
			if i%2 == 0 {
				want = append(want, line(meta.Deleted, "a/"+name, w.remove("a", name)))
			}
			if i%100 == 0 {
				w.settle()
			}
		}
		w.settle()
		require.Equal(t, want, take(t, slow, len(want)))
		require.Equal(t, want, take(t, w.watch(watch.Filter{}, begin), len(want)))
	})
}
