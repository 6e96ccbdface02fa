package watch_test

import (
	"fmt"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
)

// notebook is an observer that keeps what it is told.
type notebook struct {
	lines []string
	seen  func(key string) // called before anything else, when set
}

func (n *notebook) Filled(prefix string, entries iter.Seq[*watch.Entry]) {
	line := "filled " + prefix
	for e := range entries {
		line += fmt.Sprint(" ", e.Name())
	}
	n.lines = append(n.lines, line)
}

func (n *notebook) Changed(prev, next *watch.Entry) {
	n.lines = append(n.lines, revisions(prev)+"→"+revisions(next))
	if n.seen != nil {
		n.seen(either(prev, next).Key())
	}
}

func revisions(e *watch.Entry) string {
	if e == nil {
		return ""
	}
	return fmt.Sprint(e.Name(), "@", e.Revision())
}

func either(a, b *watch.Entry) *watch.Entry {
	if a == nil {
		return b
	}
	return a
}

func (n *notebook) take() []string {
	out := n.lines
	n.lines = nil
	return out
}

// newObserved starts a world whose dispatcher tells an observer.
func newObserved(t *testing.T) (*world, *notebook) {
	w := &world{t: t, backend: &backend{Backend: memory.New(memory.WithFirstRevision(100))}, now: make(map[string]*watch.Entry)}
	w.store = storage.New(w.backend)
	seen := &notebook{}
	w.dispatcher = watch.NewDispatcher(w.store, watch.WithObserver(seen))
	t.Cleanup(func() { require.NoError(t, w.store.Close()) })
	w.start(w.dispatcher)
	synctest.Wait()
	return w, seen
}

func TestTheObserverOfADispatcherMayPanic(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, seen := newObserved(t)
		var err error
		w.cache, err = w.dispatcher.Add(t.Context(), config("widgets"))
		require.NoError(t, err)
		w.put(widget{Namespace: "a", Name: "n1"})
		synctest.Wait()
		seen.take()
		seen.seen = func(string) { panic("a bug") }
		two := w.put(widget{Namespace: "a", Name: "n2"})
		synctest.Wait()
		require.Equal(t, []string{fmt.Sprint("→n2@", two), "filled /r/widgets/ n1 n2"}, seen.take())
		seen.seen = nil
		three := w.put(widget{Namespace: "a", Name: "n3"})
		synctest.Wait()
		require.Equal(t, []string{fmt.Sprint("→n3@", three)}, seen.take())
	})
}

func TestAnObserverSeesWhatTheCachesShow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, seen := newObserved(t)
		w.put(widget{Namespace: "a", Name: "n0"}) // before the kind is there
		var err error
		w.cache, err = w.dispatcher.Add(t.Context(), config("widgets"))
		require.NoError(t, err)
		require.Equal(t, []string{"filled /r/widgets/ n0"}, seen.take())

		one := w.put(widget{Namespace: "a", Name: "n1"})
		two := w.put(widget{Namespace: "a", Name: "n1", Size: 2})
		w.remove("a", "n1")
		w.foreign(3)
		w.settle()
		require.Equal(t, []string{
			fmt.Sprint("→n1@", one), fmt.Sprint("n1@", one, "→n1@", two), fmt.Sprint("n1@", two, "→"),
		}, seen.take())

		// Nobody sees an entry of which the observer has not been told.
		told := make(chan struct{})
		release := make(chan struct{})
		seen.seen = func(string) { close(told); <-release }
		key := storage.ObjectKey("widgets", "a", "late")
		w.put(widget{Namespace: "a", Name: "late"})
		<-told
		found := make(chan bool)
		go func() { _, ok := w.cache.Get(key); found <- ok }()
		close(release)
		require.True(t, <-found, "who asked meanwhile waited for the observer")
		seen.seen = nil
		w.settle()
		seen.take()

		// Lost history is a listing.
		hold := make(chan struct{})
		w.backend.play(trick{hold: func() { <-hold }})
		w.put(widget{Namespace: "a", Name: "held"})
		synctest.Wait()
		w.remove("a", "n0")
		w.compact(w.put(widget{Namespace: "a", Name: "n9"}))
		synctest.Wait()
		w.backend.play(trick{})
		close(hold)
		w.settle()
		require.Equal(t, "filled /r/widgets/ held late n9", seen.lines[len(seen.lines)-1])
	})
}

func TestRule23_CompleteWaitsForEveryKind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, _ := newObserved(t)
		var err error
		w.cache, err = w.dispatcher.Add(t.Context(), config("widgets"))
		require.NoError(t, err)
		at := w.put(widget{Namespace: "a", Name: "n"})
		w.settle()
		require.NoError(t, w.dispatcher.Complete(at))
		require.ErrorContains(t, w.dispatcher.Complete(at+1), "not published")

		// A kind that is being loaded may have objects that nobody has seen.
		release, done := make(chan struct{}), make(chan error)
		w.backend.play(trick{pause: func() { <-release }})
		go func() { _, err := w.dispatcher.Add(t.Context(), config("gizmos")); done <- err }()
		synctest.Wait()
		require.ErrorContains(t, w.dispatcher.Complete(at), "gizmos is being loaded")
		close(release)
		require.NoError(t, <-done)
		require.NoError(t, w.dispatcher.Complete(at))

		w.dispatcher.Remove("gizmos")
		require.NoError(t, w.dispatcher.Complete(at))
	})
}
