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
	return labelled("ns", name, revision, "")
}

// labelled is an object with a label "app", unless that is empty.
func labelled(namespace, name string, revision storage.Revision, app string) *watch.Entry {
	facts := watch.Facts{Namespace: namespace, Name: name}
	labels := ""
	if app != "" {
		facts.Labels = meta.LabelSet{{Key: "app", Value: app}}
		labels = fmt.Sprintf(`"labels":{"app":%q},`, app)
	}
	body := watch.Body{
		Prefix: []byte(fmt.Sprintf(`{"metadata":{%s"name":%q,"namespace":%q,`, labels, name, namespace)),
		Suffix: []byte(`"uid":"u"}}`),
	}
	return watch.NewEntry(storage.ObjectKey("boats", namespace, name), revision, body, facts)
}

// happened is: a at 1, b at 2, a again at 5, b gone at 7, c at 9.
func happened() *watchtest.History {
	var h watchtest.History
	add := func(revision storage.Revision, name string, next *watch.Entry) {
		h.Add(watchtest.Commit{Revision: revision, Key: storage.ObjectKey("boats", "ns", name), Next: next})
	}
	add(7, "b", nil)
	add(1, "a", object("a", 1))
	add(2, "b", object("b", 2))
	add(9, "c", object("c", 9))
	add(5, "a", object("a", 5))
	return &h
}

func event(typ meta.EventType, name string, state, revision storage.Revision) watch.Event {
	return watch.Event{Type: typ, Entry: object(name, state), Revision: revision}
}

func everything(*watch.Entry) bool { return true }

func TestCheckAcceptsWhatHappened(t *testing.T) {
	h := happened()
	require.Equal(t, 5, h.Len())
	r := &watchtest.Recording{Match: everything, From: 2}
	require.NoError(t, h.Check(r, 4))
	require.ErrorContains(t, h.Check(r, 5), "ends without MODIFIED ns/a at 5")
	r.Bookmark(4)
	r.Events(event(meta.Modified, "a", 5, 5))
	r.Bookmark(6)
	r.Bookmark(6)
	r.Events(event(meta.Deleted, "b", 2, 7), event(meta.Added, "c", 9, 9))
	r.Bookmark(100)
	require.NoError(t, h.Check(r, 100))

	isB := func(e *watch.Entry) bool { return e.Name() == "b" }
	onlyB := &watchtest.Recording{Match: isB, From: 2}
	onlyB.Events(event(meta.Deleted, "b", 2, 7))
	require.NoError(t, h.Check(onlyB, 100))
	require.EqualValues(t, 7, h.Last(isB, 100))
	require.EqualValues(t, 2, h.Last(isB, 6))
	require.Zero(t, h.Last(isB, 1))
}

func TestCheckRefusesWhatDidNotHappen(t *testing.T) {
	for want, record := range map[string]func(*watchtest.Recording){
		"step 0: got DELETED ns/b at 7, want MODIFIED": func(r *watchtest.Recording) {
			r.Events(event(meta.Deleted, "b", 2, 7))
		},
		"step 0: got ADDED ns/a at 5, want MODIFIED": func(r *watchtest.Recording) {
			r.Events(event(meta.Added, "a", 5, 5))
		},
		"step 1: MODIFIED ns/a at 5 after 5 was told": func(r *watchtest.Recording) {
			r.Events(event(meta.Modified, "a", 5, 5), event(meta.Modified, "a", 5, 5))
		},
		"at 5 shows": func(r *watchtest.Recording) {
			wrong := watch.NewEntry(object("a", 5).Key(), 5, watch.Body{Prefix: []byte(`{"metadata":{`), Suffix: []byte(`"uid":"v"}}`)},
				watch.Facts{Namespace: "ns", Name: "a"})
			r.Events(watch.Event{Type: meta.Modified, Entry: wrong, Revision: 5})
		},
		"step 0: BOOKMARK 5 is ahead of MODIFIED": func(r *watchtest.Recording) { r.Bookmark(5) },
		"step 1: BOOKMARK 4 after 5 was told": func(r *watchtest.Recording) {
			r.Events(event(meta.Modified, "a", 5, 5))
			r.Bookmark(4)
		},
		"step 0: BOOKMARK 1 after 2 was told": func(r *watchtest.Recording) { r.Bookmark(1) },
		"but nothing more happened": func(r *watchtest.Recording) {
			r.Events(event(meta.Modified, "a", 5, 5), event(meta.Deleted, "b", 2, 7), event(meta.Added, "c", 9, 9))
			r.Events(event(meta.Deleted, "c", 9, 11))
		},
		"ends without ADDED": func(r *watchtest.Recording) {
			r.Events(event(meta.Modified, "a", 5, 5), event(meta.Deleted, "b", 2, 7))
		},
		"BOOKMARK 2 marks the end of initial events, where there are none": func(r *watchtest.Recording) {
			r.Events(watch.Event{Type: meta.Bookmark, Revision: 2})
		},
		"to a client that did not ask for bookmarks": func(r *watchtest.Recording) {
			r.NoBookmarks = true
			r.Bookmark(2)
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
	require.ErrorContains(t, check(6, a, mark), "1 initial events, without ADDED ns/b at 2")
	require.ErrorContains(t, check(6, b, a, mark), "initial event 0")
	require.ErrorContains(t, check(6, a, b, b, mark), "there is nothing more")
	require.ErrorContains(t, check(6, event(meta.Added, "a", 1, 1), b, mark), "initial event 0")
	require.ErrorContains(t, check(7, a, b, mark), "ends without DELETED")
	require.ErrorContains(t, check(6, a, b, mark, mark), "marks the end of initial events, where there are none")
	require.ErrorContains(t, check(6, a, b, watch.Event{Type: meta.Bookmark, Revision: 7}), "BOOKMARK 7 among the initial events")

	early := &watchtest.Recording{Match: everything, From: 6, Initial: true}
	early.Events(a)
	early.Bookmark(6)
	require.ErrorContains(t, happened().Check(early, 0), "BOOKMARK 6 among the initial events")
}

// A client that asked for what is newest does not know at which revision it began; whatever it was,
// it must fit.
func TestCheckOfAnUnknownBeginning(t *testing.T) {
	a1, a, b, c := event(meta.Added, "a", 1, 1), event(meta.Added, "a", 5, 5), event(meta.Added, "b", 2, 2), event(meta.Added, "c", 9, 9)
	noB := event(meta.Deleted, "b", 2, 7)
	check := func(r watchtest.Recording, upTo storage.Revision, events ...watch.Event) error {
		r.Match = everything
		r.Events(events...)
		return happened().Check(&r, upTo)
	}
	t.Run("initial events without a mark", func(t *testing.T) {
		r := watchtest.Recording{From: 2, By: 7, Initial: true, Unmarked: true, NoBookmarks: true}
		require.NoError(t, check(r, 9, a1, b, event(meta.Modified, "a", 5, 5), noB, c), "at 2")
		require.NoError(t, check(r, 9, a, b, noB, c), "at 5")
		require.NoError(t, check(r, 9, a, c), "at 7")
		require.NoError(t, check(r, 0, a1), "broken off")
		require.Error(t, check(r, 9, a, b, c), "b is never gone")
		require.Error(t, check(r, 9, a, noB, c), "b never was")
		require.Error(t, check(r, 9, a1, noB, c), "a is never modified")
		require.Error(t, check(r, 9, a, b, noB), "c is missing")
		require.Error(t, check(r, 0, a, b, event(meta.Modified, "a", 5, 5), noB), "a twice")
		r.By = 6
		require.Error(t, check(r, 9, a, c), "at 7 is too late")
		r.From, r.By = 5, 6
		require.Error(t, check(r, 9, a1, b, event(meta.Modified, "a", 5, 5), noB, c), "at 2 is too early")
	})
	t.Run("initial events with a mark", func(t *testing.T) {
		r := watchtest.Recording{From: 2, By: 7, Initial: true}
		at := func(revision storage.Revision) watch.Event {
			return watch.Event{Type: meta.Bookmark, Revision: revision}
		}
		require.NoError(t, check(r, 9, a1, b, at(4), event(meta.Modified, "a", 5, 5), noB, c))
		require.NoError(t, check(r, 9, a, b, at(6), noB, c))
		require.NoError(t, check(r, 9, a, at(7), c))
		require.NoError(t, check(r, 0, a), "broken off")
		require.Error(t, check(r, 9, a, b, at(4), noB, c))
		require.Error(t, check(r, 9, a, at(8), c), "8 is above By")
		require.Error(t, check(r, 0, c), "c is too new")
	})
	t.Run("changes alone", func(t *testing.T) {
		r := watchtest.Recording{From: 2, By: 7}
		require.NoError(t, check(r, 9, event(meta.Modified, "a", 5, 5), noB, c))
		require.NoError(t, check(r, 9, noB, c))
		require.NoError(t, check(r, 9, c))
		require.Error(t, check(r, 9))
		require.Error(t, check(r, 9, event(meta.Modified, "a", 5, 5), c))
		r.By = 6
		require.Error(t, check(r, 9, c))
	})
}

func TestCheckOfTheEnd(t *testing.T) {
	h := happened()
	from := func(from storage.Revision) *watchtest.Recording {
		return &watchtest.Recording{Match: everything, From: from}
	}
	r := from(2)
	r.Expired(3)
	require.NoError(t, h.Check(r, 0))
	require.Zero(t, r.Told(), "it begins anew")
	r.Expired(2)
	require.ErrorContains(t, h.Check(r, 0), "410 after 2 was told, and no more than 2 was compacted")
	r = from(2)
	r.Events(event(meta.Modified, "a", 5, 5))
	r.Expired(6)
	require.NoError(t, h.Check(r, 0))
	r.Expired(5)
	require.ErrorContains(t, h.Check(r, 0), "410 after 5 was told")
	require.Error(t, h.Check(r, 9), "and it is not complete")

	r = from(20)
	r.TooLarge(19)
	require.NoError(t, h.Check(r, 0))
	r.TooLarge(20)
	require.ErrorContains(t, h.Check(r, 0), "504, although the store had reached 20")
	r = from(6)
	r.Events(event(meta.Deleted, "b", 2, 7))
	r.TooLarge(5)
	require.ErrorContains(t, h.Check(r, 0), "1 events before a 504")
}

func TestTold(t *testing.T) {
	r := &watchtest.Recording{From: 2}
	require.EqualValues(t, 2, r.Told())
	r.Events(event(meta.Modified, "a", 5, 5))
	require.EqualValues(t, 5, r.Told())
	r.Bookmark(6)
	require.EqualValues(t, 6, r.Told())

	r = &watchtest.Recording{From: 2, By: 4}
	require.Zero(t, r.Told(), "it may have begun at 4")
	r.Bookmark(3)
	require.EqualValues(t, 3, r.Told())

	r = &watchtest.Recording{From: 2, Initial: true}
	r.Events(event(meta.Added, "a", 1, 1))
	require.Zero(t, r.Told())
	r.Events(watch.Event{Type: meta.Bookmark, Revision: 2})
	require.EqualValues(t, 2, r.Told())

	r = &watchtest.Recording{From: 2, Initial: true, Unmarked: true}
	r.Events(event(meta.Added, "a", 1, 1))
	require.Zero(t, r.Told(), "nobody knows whether it is an initial event")
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

// What a watcher sees need not be the whole object.
func TestCheckOfAnotherShape(t *testing.T) {
	r := &watchtest.Recording{Match: everything, From: 7, Show: func(dst []byte, e *watch.Entry, revision storage.Revision) []byte {
		return fmt.Appendf(dst, `{"name":%q, "at":%d}`, e.Name(), revision)
	}}
	r.Tell(watchtest.Event{Type: meta.Added, Namespace: "ns", Name: "c", Revision: 9, Object: []byte(`{"at":9,"name":"c"}`)})
	require.NoError(t, happened().Check(r, 9))
	r.Show = nil
	require.ErrorContains(t, happened().Check(r, 9), `ADDED ns/c at 9 shows {"at":9,"name":"c"}, want {"metadata"`)
}

func TestWATCH_14_ParseLine(t *testing.T) {
	e, err := watchtest.ParseLine([]byte(`{"type":"MODIFIED","object":{"metadata":{"name":"n","namespace":"ns","resourceVersion":"17"}}}` + "\n"))
	require.NoError(t, err)
	require.Equal(t, "MODIFIED ns/n at 17", e.String())
	require.Equal(t, `{"metadata":{"name":"n","namespace":"ns","resourceVersion":"17"}}`, string(e.Object))
	e, err = watchtest.ParseLine([]byte(`{"object": {"kind":"K","apiVersion":"v","metadata":{"resourceVersion":"18"}}, "type": "BOOKMARK"}`))
	require.NoError(t, err)
	require.Equal(t, watchtest.Event{Type: meta.Bookmark, Revision: 18, Object: e.Object}, e)
	e, err = watchtest.ParseLine([]byte(`{"type":"BOOKMARK","object":{"kind":"K","apiVersion":"v","metadata":{"resourceVersion":"18","annotations":{"k8s.io/initial-events-end":"true"}}}}`))
	require.NoError(t, err)
	require.True(t, e.End)
	e, err = watchtest.ParseLine([]byte(`{"type":"ERROR","object":{"kind":"Status","code":410}}`))
	require.NoError(t, err)
	require.Equal(t, meta.Error, e.Type)

	for _, bad := range []string{
		``, `x`, `{}`, `[]`, `null`,
		`{"type":"ADDED"}`,
		`{"object":{"metadata":{"name":"n","resourceVersion":"17"}}}`,
		`{"type":"ADDED","object":{"metadata":{"name":"n","resourceVersion":"17"}}`,
		`{"type":"ADDED","object":{"metadata":{"name":"n","resourceVersion":"17"}}}}`,
		`{"type":"ADDED","object":{"metadata":{"name":"n","resourceVersion":"17"}},"more":{}}`,
		`{"type":"ADDED","object":{"metadata":{"name":"n","resourceVersion":"17"}}}{"type":"ADDED","object":{"metadata":{"name":"n","resourceVersion":"18"}}}`,
		`{"type":"ADDED","object":{"metadata":{"name":"n"}}}`,
		`{"type":"ADDED","object":{"metadata":{"name":"n","resourceVersion":"0"}}}`,
		`{"type":"ADDED","object":{"metadata":{"name":"n","resourceVersion":"x"}}}`,
		`{"type":"ADDED","object":{"metadata":{"resourceVersion":"17"}}}`,
		`{"type":"ADDED","object":17}`,
		`{"type":"added","object":{"metadata":{"name":"n","resourceVersion":"17"}}}`,
		`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"17"}}}`,
		`{"type":"BOOKMARK","object":{"kind":"K","apiVersion":"v","metadata":{"name":"n","resourceVersion":"17"}}}`,
		`{"type":"BOOKMARK","object":{"kind":"K","apiVersion":"v","metadata":{"resourceVersion":"17"},"spec":{}}}`,
	} {
		_, err := watchtest.ParseLine([]byte(bad))
		require.Error(t, err, bad)
	}
}
