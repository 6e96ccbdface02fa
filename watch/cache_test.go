package watch_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

func names(s *watch.Snapshot, prefix, after string) []string {
	var out []string
	for e := range s.Ascend(prefix, after) {
		out = append(out, e.Namespace()+"/"+e.Name())
	}
	return out
}

func TestLIST_01_AListShowsWhatWasWrittenBefore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 50 {
			revision := w.put(widget{Namespace: "a", Name: "n", Size: i})
			require.NoError(t, w.cache.WaitFor(t.Context(), revision))
			s := w.cache.Snapshot()
			require.GreaterOrEqual(t, s.Revision(), revision)
			e, ok := w.cache.Get(storage.ObjectKey("widgets", "a", "n"))
			require.True(t, ok)
			require.Equal(t, revision, e.Revision())
		}
		_, ok := w.cache.Get(storage.ObjectKey("widgets", "a", "other"))
		require.False(t, ok)
		require.Equal(t, 1, w.cache.Len())
	})
}

func TestSnapshotWalksAndCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		for _, ns := range []string{"", "team", "team-a"} {
			for i := range 3 {
				w.put(widget{Namespace: ns, Name: fmt.Sprint("n", i)})
			}
		}
		w.settle()
		s := w.cache.Snapshot()
		team := watch.Filter{Namespace: "team"}.KeyPrefix("widgets")
		all := storage.ResourcePrefix("widgets")
		key := func(ns, name string) string { return storage.ObjectKey("widgets", ns, name) }

		require.Equal(t, []string{"/n0", "/n1", "/n2", "team-a/n0", "team-a/n1", "team-a/n2", "team/n0", "team/n1", "team/n2"}, names(s, "", ""))
		require.Equal(t, []string{"team/n0", "team/n1", "team/n2"}, names(s, team, ""), "rule 24")
		require.Equal(t, []string{"team/n2"}, names(s, team, key("team", "n1")))
		require.Equal(t, []string{"team/n2"}, names(s, team, key("team", "n11")), "a key that does not exist")
		require.Equal(t, []string{"team/n0", "team/n1", "team/n2"}, names(s, team, key("team-a", "n2")), "before the prefix")
		require.Empty(t, names(s, team, key("zebra", "n")), "beyond the prefix")
		require.Empty(t, names(s, "/r/widgetsets/", ""))

		require.Equal(t, 9, s.Len(""))
		require.Equal(t, 9, s.Len(all))
		require.Equal(t, 3, s.Len(team))
		require.Equal(t, 1, s.Count(team, key("team", "n1")))
		require.Equal(t, 3, s.Count(team, key("team-a", "n2")))
		require.Equal(t, 0, s.Count(team, key("zebra", "n")))
		require.Equal(t, 5, s.Count("", key("team-a", "n0")))
		require.NoError(t, s.Err())
	})
}

// A walk looks at its keys a few dozen at a time, so that the borders of a namespace fall anywhere
// among those.
func TestLIST_01_ANamespaceOfAnySizeIsListedWhole(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		prefix := watch.Filter{Namespace: "m"}.KeyPrefix("widgets")
		var want []string
		for i := range 70 {
			w.put(widget{Namespace: "a", Name: fmt.Sprintf("n%03d", i)})
			w.put(widget{Namespace: "z", Name: fmt.Sprintf("n%03d", i)})
			name := fmt.Sprintf("n%03d", i)
			w.put(widget{Namespace: "m", Name: name})
			want = append(want, "m/"+name)
			w.settle()
			s := w.cache.Snapshot()
			require.Equal(t, want, names(s, prefix, ""))
			require.Equal(t, want[i/2+1:], append(want[:0:0], names(s, prefix, storage.ObjectKey("widgets", "m", fmt.Sprintf("n%03d", i/2)))...))
			for e := range s.Ascend(prefix, "") {
				require.Equal(t, "n000", e.Name())
				break
			}
		}
	})
}

func TestSnapshotStaysAsItWas(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 200 {
			w.put(widget{Namespace: "a", Name: fmt.Sprintf("n%03d", i)})
		}
		w.settle()
		before := w.cache.Snapshot()
		want := names(before, "", "")
		same := w.cache.Snapshot()
		for i := range 200 {
			w.remove("a", fmt.Sprintf("n%03d", i))
			w.put(widget{Namespace: "a", Name: fmt.Sprintf("m%03d", i)})
		}
		w.settle()
		require.Equal(t, want, names(before, "", ""))
		require.Equal(t, want, names(same, "", ""))
		require.Len(t, names(w.cache.Snapshot(), "", ""), 200)
		require.NotEqual(t, want, names(w.cache.Snapshot(), "", ""))
	})
}

// What the cache has forgotten is not counted: that would mean to read all of it.
func TestACountOfTheDistantPastIsUnknown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(c *watch.CacheConfig) { c.LogBytes = 4000 })
		w.put(widget{Namespace: "a", Name: "first"})
		w.settle()
		then := w.cache.Revision()
		for i := range 200 {
			w.put(widget{Namespace: "a", Name: fmt.Sprintf("n%03d", i)})
		}
		w.settle()
		s, err := w.cache.SnapshotAt(t.Context(), then)
		require.NoError(t, err)
		require.Equal(t, -1, s.Count("", ""))
		require.Equal(t, []string{"a/first"}, names(s, "", ""))
	})
}

func TestLIST_29_SnapshotAtIsExact(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.backend.play(trick{pageLimit: 7})
		var revisions []storage.Revision
		var want [][]string
		for i := range 60 {
			if i%3 == 2 {
				w.remove("a", fmt.Sprintf("n%02d", i/2))
			}
			w.put(widget{Namespace: []string{"a", "b"}[i%2], Name: fmt.Sprintf("n%02d", i)})
			w.settle()
			s := w.cache.Snapshot()
			revisions, want = append(revisions, s.Revision()), append(want, names(s, "", ""))
		}
		for i, revision := range revisions {
			s, err := w.cache.SnapshotAt(t.Context(), revision)
			require.NoError(t, err)
			require.Equal(t, revision, s.Revision())
			require.Equal(t, want[i], names(s, "", ""))
			require.NoError(t, s.Err())
			inB := watch.Filter{Namespace: "b"}.KeyPrefix("widgets")
			for _, name := range names(s, inB, storage.ObjectKey("widgets", "b", "n07")) {
				require.Greater(t, name, "b/n07")
			}
			require.Equal(t, names(s, inB, ""), names(s, inB, storage.ObjectKey("widgets", "a", "n99")))
			require.Empty(t, names(s, inB, storage.ObjectKey("widgets", "c", "")))
			require.Empty(t, names(s, "/r/other/", ""))
			if i < len(revisions)-1 {
				require.True(t, s.Stored(), "an older revision is read from the store")
			}
			for _, prefix := range []string{"", inB, "/r/other/"} {
				for _, after := range []string{"", storage.ObjectKey("widgets", "a", "n30"), storage.ObjectKey("widgets", "b", "n07"), inB} {
					require.Equal(t, len(names(s, prefix, after)), s.Count(prefix, after), "and counted all the same: %q after %q", prefix, after)
				}
			}
		}

		s, err := w.cache.SnapshotAt(t.Context(), 0)
		require.NoError(t, err)
		require.Equal(t, w.cache.Revision(), s.Revision())

		_, err = w.cache.SnapshotAt(t.Context(), revisions[59]+1000)
		require.ErrorIs(t, err, storage.ErrFutureRevision)
		old, err := w.cache.SnapshotAt(t.Context(), revisions[0])
		require.NoError(t, err)
		require.Equal(t, 1, old.Count("", ""))
		w.compact(revisions[30])
		_, err = w.cache.SnapshotAt(t.Context(), revisions[29])
		require.ErrorIs(t, err, storage.ErrCompacted)
		require.Empty(t, names(old, "", ""))
		require.ErrorIs(t, old.Err(), storage.ErrCompacted, "a walk that ends early says so")
		s, err = w.cache.SnapshotAt(t.Context(), revisions[30])
		require.NoError(t, err)
		require.Equal(t, want[30], names(s, "", ""))
		for range s.Ascend("", "") {
			break
		}
		require.NoError(t, s.Err())
	})
}

// An idle kind is at every revision since its last change as it is now, so exact lists need neither
// pin nor store.
func TestSnapshotAtOfAnIdleKindIsInMemory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		at := w.put(widget{Namespace: "a", Name: "n"})
		w.foreign(20)
		w.settle()
		lists := w.backend.lists.Load()
		for revision := at; revision <= at+20; revision++ {
			s, err := w.cache.SnapshotAt(t.Context(), revision)
			require.NoError(t, err)
			require.Equal(t, revision, s.Revision())
			require.Equal(t, []string{"a/n"}, names(s, "", ""))
		}
		require.Equal(t, lists, w.backend.lists.Load())
	})
}

func TestWaitForEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		head := w.cache.Revision()
		require.NoError(t, w.cache.WaitFor(t.Context(), head))

		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		require.ErrorIs(t, w.cache.WaitFor(ctx, head+1), context.DeadlineExceeded, "WATCH-19, LIST-34")

		waited := make(chan error, 3)
		for i := range 3 {
			go func() { waited <- w.cache.WaitFor(t.Context(), head+storage.Revision(i)+1) }()
		}
		synctest.Wait()
		require.Empty(t, waited)
		w.foreign(1)
		require.NoError(t, <-waited)
		synctest.Wait()
		require.Empty(t, waited, "the others wait on")
		w.foreign(2)
		require.NoError(t, <-waited)
		require.NoError(t, <-waited)

		go func() { waited <- w.cache.WaitFor(t.Context(), head+1000) }()
		synctest.Wait()
		w.dispatcher.Remove("widgets")
		require.ErrorIs(t, <-waited, watch.ErrGone)
	})
}
