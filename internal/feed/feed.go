package feed

import (
	"iter"
	"sync"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/watch"
)

// Feed observes the objects of one kind. Its functions run with the lock held. It implements
// [watch.Observer].
type Feed[T any] struct {
	Lock    sync.Locker // of the index; several feeds may share it
	Put     func(*T)
	Drop    func(name string)
	Known   func() []string // the names of what was put and not dropped
	Publish func()          // after each change
}

var _ watch.Observer = (*Feed[struct{}])(nil)

// Filled replaces all objects of the kind.
func (f *Feed[T]) Filled(_ string, entries iter.Seq[*watch.Entry]) {
	f.Lock.Lock()
	defer f.Lock.Unlock()
	present := map[string]bool{}
	for e := range entries {
		present[e.Name()] = true
		f.take(e)
	}
	for _, name := range f.Known() {
		if !present[name] {
			f.Drop(name)
		}
	}
	f.Publish()
}

// Changed puts or drops one object.
func (f *Feed[T]) Changed(prev, next *watch.Entry) {
	f.Lock.Lock()
	defer f.Lock.Unlock()
	if next != nil {
		f.take(next)
	} else {
		f.Drop(prev.Name())
	}
	f.Publish()
}

// take reads an entry. One that cannot be read counts as deleted.
func (f *Feed[T]) take(e *watch.Entry) {
	var object T
	if err := json.Unmarshal(e.AppendJSON(nil), &object); err != nil {
		f.Drop(e.Name())
		return
	}
	f.Put(&object)
}
