package watchtest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
	"github.com/kindwright/kindwright/watch/watchtest"
)

func object(name string, revision storage.Revision) *watch.Entry {
	body := watch.Body{Prefix: []byte(fmt.Sprintf(`{"metadata":{"name":%q,`, name)), Suffix: []byte(`"uid":"u"}}`)}
	return watch.NewEntry(storage.ObjectKey("boats", "ns", name), revision, body, watch.Facts{Namespace: "ns", Name: name})
}

// happened is: a at 1, b at 2, a again at 5, b gone at 7, c at 9.
func happened() *watchtest.History {
	var h watchtest.History
	a1, b2, a5 := object("a", 1), object("b", 2), object("a", 5)
	h.Add(watchtest.Commit{Revision: 7, Prev: b2})
	h.Add(watchtest.Commit{Revision: 1, Next: a1})
	h.Add(watchtest.Commit{Revision: 2, Next: b2})
	h.Add(watchtest.Commit{Revision: 9, Next: object("c", 9)})
	h.Add(watchtest.Commit{Revision: 5, Prev: a1, Next: a5})
	return &h
}

func event(typ meta.EventType, name string, state, revision storage.Revision) watch.Event {
	return watch.Event{Type: typ, Entry: object(name, state), Revision: revision}
}

func everything(*watch.Entry) bool { return true }

func TestCheckAcceptsWhatHappened(t *testing.T) {
	h := happened()
	r := &watchtest.Recording{Match: everything, From: 2}
	require.NoError(t, h.Check(r, 4))
	require.ErrorContains(t, h.Check(r, 5), "ends without MODIFIED /r/boats/ns/a/ at 5")
	r.Bookmark(4)
	r.Events(event(meta.Modified, "a", 5, 5))
	r.Bookmark(6)
	r.Bookmark(6)
	r.Events(event(meta.Deleted, "b", 2, 7), event(meta.Added, "c", 9, 9))
	r.Bookmark(100)
	require.NoError(t, h.Check(r, 100))

	onlyB := &watchtest.Recording{Match: func(e *watch.Entry) bool { return e.Facts().Name == "b" }, From: 2}
	onlyB.Events(event(meta.Deleted, "b", 2, 7))
	require.NoError(t, h.Check(onlyB, 100))
}

func TestCheckRefusesWhatDidNotHappen(t *testing.T) {
	for want, record := range map[string]func(*watchtest.Recording){
		"step 0: got DELETED /r/boats/ns/b/ at 7, want MODIFIED": func(r *watchtest.Recording) {
			r.Events(event(meta.Deleted, "b", 2, 7))
		},
		"step 0: got ADDED /r/boats/ns/a/ at 5, want MODIFIED": func(r *watchtest.Recording) {
			r.Events(event(meta.Added, "a", 5, 5))
		},
		"step 1: got MODIFIED /r/boats/ns/a/ at 5, want DELETED": func(r *watchtest.Recording) {
			r.Events(event(meta.Modified, "a", 5, 5), event(meta.Modified, "a", 5, 5))
		},
		"at 5 shows": func(r *watchtest.Recording) {
			wrong := watch.NewEntry(object("a", 5).Key(), 5, watch.Body{}, watch.Facts{})
			r.Events(watch.Event{Type: meta.Modified, Entry: wrong, Revision: 5})
		},
		"step 0: bookmark 5 is ahead of MODIFIED": func(r *watchtest.Recording) { r.Bookmark(5) },
		"step 1: bookmark 4 after 5 was told": func(r *watchtest.Recording) {
			r.Events(event(meta.Modified, "a", 5, 5))
			r.Bookmark(4)
		},
		"step 0: bookmark 1 after 2 was told": func(r *watchtest.Recording) { r.Bookmark(1) },
		"but nothing more happened": func(r *watchtest.Recording) {
			r.Events(event(meta.Modified, "a", 5, 5), event(meta.Deleted, "b", 2, 7), event(meta.Added, "c", 9, 9))
			r.Events(event(meta.Deleted, "c", 9, 11))
		},
		"ends without ADDED": func(r *watchtest.Recording) {
			r.Events(event(meta.Modified, "a", 5, 5), event(meta.Deleted, "b", 2, 7))
		},
	} {
		r := &watchtest.Recording{Match: everything, From: 2}
		record(r)
		require.ErrorContains(t, happened().Check(r, 100), want)
	}
}

func TestCheckOfInitialEvents(t *testing.T) {
	mark := watch.Event{Type: meta.Bookmark, Revision: 6}
	a, b := event(meta.Added, "a", 5, 5), event(meta.Added, "b", 2, 2)
	check := func(upTo storage.Revision, events ...watch.Event) error {
		r := &watchtest.Recording{Match: everything, From: 6, Initial: true}
		r.Events(events...)
		return happened().Check(r, upTo)
	}
	require.NoError(t, check(6, a, b, mark))
	require.NoError(t, check(0, a), "as far as it goes")
	require.NoError(t, check(9, a, b, mark, event(meta.Deleted, "b", 2, 7), event(meta.Added, "c", 9, 9)))
	require.ErrorContains(t, check(6, a, b), "without the end mark")
	require.ErrorContains(t, check(6, a, mark), "end mark after 1 initial events, without ADDED /r/boats/ns/b/ at 2")
	require.ErrorContains(t, check(6, b, a, mark), "initial event 0")
	require.ErrorContains(t, check(6, a, b, b, mark), "there is nothing more")
	require.ErrorContains(t, check(6, event(meta.Added, "a", 1, 1), b, mark), "initial event 0")
	require.ErrorContains(t, check(7, a, b, mark), "ends without DELETED")
	require.ErrorContains(t, check(6, a, b, watch.Event{Type: meta.Bookmark, Revision: 7}), "bookmark 7 among the initial events")

	early := &watchtest.Recording{Match: everything, From: 6, Initial: true}
	early.Events(a)
	early.Bookmark(6)
	require.ErrorContains(t, happened().Check(early, 0), "bookmark 6 among the initial events")
}

func TestDamageShows(t *testing.T) {
	r := &watchtest.Recording{Match: everything, From: 2}
	r.Events(event(meta.Modified, "a", 5, 5), event(meta.Deleted, "b", 2, 7), event(meta.Added, "c", 9, 9))
	r.Bookmark(9)
	require.NoError(t, happened().Check(r, 9))
	for i := range r.Len() - 1 {
		require.False(t, r.IsBookmark(i))
		require.Error(t, happened().Check(r.Without(i), 9))
		require.Error(t, happened().Check(r.Swapped(i), 9))
	}
	require.True(t, r.IsBookmark(3))
	require.NoError(t, happened().Check(r.Without(3), 9), "a bookmark need not be sent (WATCH-23)")
	require.NoError(t, happened().Check(r, 9), "copies are copies")
}
