package watch_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
)

// forgetful is a backend whose watch leaves out changes, or shows a change that did not happen.
type forgetful struct {
	storage.Backend
	change atomic.Pointer[func([]storage.Change) []storage.Change]
}

func (f *forgetful) Watch(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		for batch, err := range f.Backend.Watch(ctx, prefix, after) {
			if change := f.change.Load(); change != nil {
				batch.Changes = (*change)(slices.Clone(batch.Changes))
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}

func (f *forgetful) lie(change func([]storage.Change) []storage.Change) { f.change.Store(&change) }

// A live view that has missed a change, or was told of one that did not happen, is found out and
// listed again. Its watchers are told to begin anew, and nobody else is.
func TestAViewThatDiffersFromTheStoreIsListedAgain(t *testing.T) {
	drop := func(name string) func([]storage.Change) []storage.Change {
		return func(changes []storage.Change) []storage.Change {
			return slices.DeleteFunc(changes, func(c storage.Change) bool { return c.Key == storage.ObjectKey("widgets", "a", name) })
		}
	}
	for name, c := range map[string]struct {
		lie           func([]storage.Change) []storage.Change
		write         func(*world) storage.Revision
		at            string // which object
		shown, stored bool
	}{
		"a creation is dropped": {drop("new"), func(w *world) storage.Revision { return w.put(widget{Namespace: "a", Name: "new"}) }, "new", false, true},
		"a change is dropped":   {drop("old"), func(w *world) storage.Revision { return w.put(widget{Namespace: "a", Name: "old", Size: 2}) }, "old", true, true},
		"a deletion is dropped": {drop("old"), func(w *world) storage.Revision { return w.remove("a", "old") }, "old", true, false},
		"a deletion is made up": {func(changes []storage.Change) []storage.Change {
			for i := range changes {
				changes[i].Deleted = true
			}
			return changes
		}, func(w *world) storage.Revision { return w.put(widget{Namespace: "a", Name: "old", Size: 2}) }, "old", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				under := &forgetful{Backend: memory.New(memory.WithFirstRevision(100))}
				w := newWorldOver(t, under)
				gadgets, err := w.dispatcher.Add(t.Context(), watch.CacheConfig{StorageName: "gadgets", Decode: func(r storage.Record) (*watch.Entry, error) {
					return watch.NewEntry(r.Key, r.Revision, watch.Body{}, watch.Facts{}), nil
				}})
				require.NoError(t, err)
				for _, n := range []string{"old", "other", "zebra"} {
					w.put(widget{Namespace: "a", Name: n})
				}
				w.foreign(5)
				w.settle()
				found, err := w.dispatcher.Verify(t.Context())
				require.NoError(t, err)
				require.Empty(t, found)
				watcher := w.watch(watch.Filter{}, w.cache.Revision())
				other, err := gadgets.Watch(t.Context(), watch.WatchRequest{After: gadgets.Revision()})
				require.NoError(t, err)
				defer other.Close()

				under.lie(c.lie)
				key := storage.ObjectKey("widgets", "a", c.at)
				before, _ := w.cache.Get(key)
				revision := c.write(w)
				w.settle()
				under.change.Store(nil)
				found, err = w.dispatcher.Verify(t.Context())
				require.NoError(t, err)
				want := watch.Difference{StorageName: "widgets", Key: key}
				if c.shown {
					want.Shown = before.Revision()
				}
				if c.stored {
					want.Stored = revision
				}
				require.Equal(t, []watch.Difference{want}, found)
				synctest.Wait()

				if name != "a deletion is made up" { // of that it was told
					_, err = watcher.Next(t.Context(), nil)
					require.ErrorIs(t, err, storage.ErrCompacted, "it begins anew")
				}
				entry, ok := w.cache.Get(key)
				require.Equal(t, c.stored, ok)
				if ok {
					require.Equal(t, revision, entry.Revision())
				}
				w.foreign(1)
				require.Len(t, next(t, other), 1, "the watch of another kind goes on")
				again := w.watch(watch.Filter{}, w.cache.Revision())
				last := w.put(widget{Namespace: "a", Name: "other", Size: 3})
				require.Equal(t, []string{line(meta.Modified, "a/other", last)}, next(t, again))
				found, err = w.dispatcher.Verify(t.Context())
				require.NoError(t, err)
				require.Empty(t, found)
				require.Equal(t, uint64(1), w.cache.Statistics().Divergences)
				require.Equal(t, uint64(3), w.cache.Statistics().Comparisons)
				require.Zero(t, gadgets.Statistics().Divergences)
				require.NoError(t, w.dispatcher.Ready())
			})
		})
	}
}

// While many write and compact, the views never differ, and nobody is told to begin anew.
func TestVerifyBesideWriters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 1200 { // three pages
			w.put(widget{Namespace: "a", Name: string(rune('a'+i%26)) + strings.Repeat("x", i/26)})
		}
		watcher := w.watch(watch.Filter{}, w.cache.Revision())
		writing := make(chan struct{})
		go func() {
			defer close(writing)
			for i := range 300 {
				last := w.put(widget{Namespace: "a", Name: "n", Size: i})
				if i%10 == 0 {
					w.remove("a", "n")
					w.settle() // or the view would lose history itself
					w.compact(last)
				}
			}
		}()
		for range 50 {
			found, err := w.dispatcher.Verify(t.Context())
			require.NoError(t, err)
			require.Empty(t, found)
		}
		<-writing
		require.NotEmpty(t, next(t, watcher))
		before := w.cache.Statistics().Comparisons
		for range 3 {
			_, err := w.dispatcher.Verify(t.Context())
			require.NoError(t, err)
		}
		require.LessOrEqual(t, w.cache.Statistics().Comparisons, before+1, "a store that did not change is not read")
	})
}

// An object that cannot be read is no difference, and its record is known.
func TestVerifyKnowsWhatCannotBeRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.put(widget{Namespace: "a", Name: "n"})
		_, err := w.store.Commit(t.Context(), []storage.Op{storage.Put(storage.ObjectKey("widgets", "a", "broken"), []byte("?"), storage.Any)})
		require.NoError(t, err)
		w.settle()
		found, err := w.dispatcher.Verify(t.Context())
		require.NoError(t, err)
		require.Empty(t, found)
		require.Equal(t, 1, w.cache.Statistics().Unreadable)
	})
}
