package kube

import (
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/watch"
)

// namespaceIndex has the objects of a kind by their namespaces, as Go structs. Most namespaces have none of
// a kind that plugins go by, so that is known without reading anything.
type namespaceIndex[T any] struct {
	mu sync.RWMutex
	in map[string][]indexed[T]
}

// indexed is an object in an index. Readers share it, and do not change it.
type indexed[T any] struct {
	name   string
	object *T
}

var _ watch.Observer = (*namespaceIndex[struct{}])(nil)

// of returns the objects of a namespace in the order of their names.
func (x *namespaceIndex[T]) of(namespace string) []indexed[T] {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.in[namespace]
}

// Filled implements watch.Observer.
func (x *namespaceIndex[T]) Filled(_ string, entries iter.Seq[*watch.Entry]) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.in = map[string][]indexed[T]{}
	for e := range entries {
		x.put(e)
	}
}

// Changed implements watch.Observer.
func (x *namespaceIndex[T]) Changed(prev, next *watch.Entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if next != nil {
		x.put(next)
		return
	}
	x.drop(prev.Namespace(), prev.Name())
}

// put takes an object in. The lists of an index are replaced and never changed, for readers keep them.
func (x *namespaceIndex[T]) put(e *watch.Entry) {
	namespace, name := e.Namespace(), e.Name()
	object := new(T)
	if err := json.Unmarshal(e.AppendJSON(nil), object); err != nil {
		x.drop(namespace, name) // its kind has checked it, so this does not happen
		return
	}
	if x.in == nil {
		x.in = map[string][]indexed[T]{}
	}
	all := slices.Clone(x.in[namespace])
	i, has := slices.BinarySearchFunc(all, name, byName[T])
	if has {
		all[i].object = object
	} else {
		all = slices.Insert(all, i, indexed[T]{name, object})
	}
	x.in[namespace] = all
}

func (x *namespaceIndex[T]) drop(namespace, name string) {
	all := x.in[namespace]
	i, has := slices.BinarySearchFunc(all, name, byName[T])
	switch {
	case !has:
	case len(all) == 1:
		delete(x.in, namespace)
	default:
		x.in[namespace] = slices.Delete(slices.Clone(all), i, i+1)
	}
}

func byName[T any](one indexed[T], name string) int { return strings.Compare(one.name, name) }
