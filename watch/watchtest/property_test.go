package watchtest_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/random"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
	"github.com/kindwright/kindwright/watch/watchtest"
)

// story is a random history beside what one watcher must be told of it, worked out from the
// watcher's side: it has a set of objects, and an event is a change to that set.
type story struct {
	history   watchtest.History
	filter    func(*watch.Entry) bool
	last      storage.Revision
	revisions []storage.Revision // of what concerns the watcher
	told      []watch.Event
	states    []map[string]*watch.Entry // what the watcher has before each of told, and at last
}

func drawStory(t *random.T) *story {
	s := &story{last: 100}
	namespace, app := random.SampledFrom([]string{"", "a", "a-b"}).Draw(t, "namespace"), random.SampledFrom([]string{"", "x"}).Draw(t, "app")
	s.filter = func(e *watch.Entry) bool {
		f := e.Facts()
		value, _ := f.Labels.Get("app")
		return (namespace == "" || f.Namespace == namespace) && (app == "" || value == app)
	}
	live, has := map[string]*watch.Entry{}, map[string]*watch.Entry{}
	var commits []watchtest.Commit
	for range random.Range(1, 60).Draw(t, "commits") {
		s.last += storage.Revision(random.Range(1, 3).Draw(t, "gap"))
		in, name := random.SampledFrom([]string{"a", "a-b"}).Draw(t, "in"), random.SampledFrom([]string{"m", "n", "o"}).Draw(t, "name")
		next := labelled(in, name, s.last, random.SampledFrom([]string{"", "x", "y"}).Draw(t, "label"))
		key := next.Key()
		if live[key] != nil && random.Range(0, 2).Draw(t, "delete") == 0 {
			next = nil
		}
		commits = append(commits, watchtest.Commit{Revision: s.last, Key: key, Next: next})
		live[key] = next
		s.tell(has, key, next)
	}
	s.states = append(s.states, copied(has))
	for _, i := range random.Permutation(indices(len(commits))).Draw(t, "order") {
		s.history.Add(commits[i])
	}
	return s
}

// tell adds the event of a commit, if it is one for the watcher.
func (s *story) tell(has map[string]*watch.Entry, key string, next *watch.Entry) {
	if next != nil && !s.filter(next) {
		next = nil
	}
	event := watch.Event{Type: meta.Modified, Entry: next, Revision: s.last}
	switch {
	case next == nil && has[key] == nil:
		return
	case next == nil:
		event.Type, event.Entry = meta.Deleted, has[key]
	case has[key] == nil:
		event.Type = meta.Added
	}
	s.states, s.told, s.revisions = append(s.states, copied(has)), append(s.told, event), append(s.revisions, s.last)
	if delete(has, key); next != nil {
		has[key] = next
	}
}

func copied(m map[string]*watch.Entry) map[string]*watch.Entry {
	out := map[string]*watch.Entry{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// record is the right recording of a watch that begins before the event of a given index.
func (s *story) record(t *random.T, first int) *watchtest.Recording {
	from := storage.Revision(100)
	if first > 0 {
		from = s.revisions[first-1]
	}
	r := &watchtest.Recording{Match: s.filter, From: from}
	r.Initial = random.Bool().Draw(t, "initial")
	r.Unmarked = random.Bool().Draw(t, "unmarked")
	if r.Initial {
		for _, key := range slices.Sorted(keys(s.states[first])) {
			e := s.states[first][key]
			r.Events(watch.Event{Type: meta.Added, Entry: e, Revision: e.Revision()})
		}
		if !r.Unmarked {
			r.Events(watch.Event{Type: meta.Bookmark, Revision: from})
		}
	}
	for i := first; i < len(s.told); i++ {
		r.Events(s.told[i])
		if (!r.Initial || !r.Unmarked) && random.Range(0, 3).Draw(t, "bookmark") == 0 {
			next := s.last + 5
			if i+1 < len(s.told) {
				next = s.revisions[i+1] - 1
			}
			r.Bookmark(storage.Revision(random.Range(uint64(s.revisions[i]), uint64(next)).Draw(t, "at")))
		}
	}
	return r
}

func keys(m map[string]*watch.Entry) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// A right recording passes, and every way of spoiling it is found.
func TestEveryFaultIsFound(t *testing.T) {
	random.Check(t, func(t *random.T) {
		s := drawStory(t)
		r := s.record(t, random.Range(0, len(s.told)).Draw(t, "first"))
		require.NoError(t, s.history.Check(r, s.last))
		for name, fault := range faults() {
			for i := range r.Len() {
				wrong := r.Altered(func(steps []watchtest.Event) []watchtest.Event { return fault(steps, i) })
				if wrong.Len() == 0 && r.Len() == 0 || same(r, wrong) {
					continue // it does not apply here
				}
				require.Error(t, s.history.Check(wrong, s.last), "%s at step %d", name, i)
			}
		}
	})
}

func same(a, b *watchtest.Recording) bool {
	var x, y string
	a.Altered(func(steps []watchtest.Event) []watchtest.Event { x = fmt.Sprintf("%+v", steps); return steps })
	b.Altered(func(steps []watchtest.Event) []watchtest.Event { y = fmt.Sprintf("%+v", steps); return steps })
	return x == y
}

// faults are the ways a server could be wrong about step i. One that does not apply leaves the
// steps as they are.
func faults() map[string]func(steps []watchtest.Event, i int) []watchtest.Event {
	type steps = []watchtest.Event
	objects := func(change func(e *watchtest.Event)) func(steps, int) steps {
		return func(s steps, i int) steps {
			if s[i].Type != meta.Bookmark {
				change(&s[i])
			}
			return s
		}
	}
	foreign := func(namespace, name string) func(steps, int) steps {
		return func(s steps, i int) steps {
			e := labelled(namespace, name, s[i].Revision, "z")
			return slices.Insert(s, i, watchtest.Event{
				Type: meta.Modified, Namespace: namespace, Name: name, Revision: s[i].Revision, Object: e.AppendJSON(nil),
			})
		}
	}
	return map[string]func(steps, int) steps{
		"an event is dropped": func(s steps, i int) steps {
			if s[i].Type == meta.Bookmark && !s[i].End {
				return s
			}
			return slices.Delete(s, i, i+1)
		},
		"an event comes twice": func(s steps, i int) steps {
			if s[i].Type == meta.Bookmark && !s[i].End {
				return s
			}
			return slices.Insert(s, i, s[i])
		},
		"two events change places": func(s steps, i int) steps {
			if i+1 < len(s) && (s[i].Type != meta.Bookmark || s[i+1].Type != meta.Bookmark || s[i].End) {
				s[i], s[i+1] = s[i+1], s[i]
			}
			return s
		},
		"the type is wrong": objects(func(e *watchtest.Event) {
			e.Type = map[meta.EventType]meta.EventType{meta.Added: meta.Modified, meta.Modified: meta.Added, meta.Deleted: meta.Modified}[e.Type]
		}),
		"the content is wrong":        objects(func(e *watchtest.Event) { e.Object = []byte(`{"metadata":{}}`) }),
		"the content is not JSON":     objects(func(e *watchtest.Event) { e.Object = e.Object[1:] }),
		"the version is too small":    objects(func(e *watchtest.Event) { e.Revision-- }),
		"the version is too large":    objects(func(e *watchtest.Event) { e.Revision++ }),
		"the name is another's":       objects(func(e *watchtest.Event) { e.Name += "x" }),
		"the namespace is another's":  objects(func(e *watchtest.Event) { e.Namespace += "x" }),
		"an object of elsewhere":      foreign("elsewhere", "m"),
		"an object that is not asked": foreign("a", "unasked"),
		"a bookmark is ahead": func(s steps, i int) steps {
			if s[i].Type == meta.Bookmark {
				return s
			}
			return slices.Insert(s, i, watchtest.Event{Type: meta.Bookmark, Revision: s[i].Revision})
		},
		"a bookmark goes back": func(s steps, i int) steps {
			return slices.Insert(s, i+1, watchtest.Event{Type: meta.Bookmark, Revision: s[i].Revision - 1})
		},
		"a second mark": func(s steps, i int) steps {
			return slices.Insert(s, i+1, watchtest.Event{Type: meta.Bookmark, Revision: s[i].Revision, End: true})
		},
	}
}
