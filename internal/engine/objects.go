package engine

import (
	"reflect"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

var _ registry.Objects = (*Engine)(nil)

// typeIndex maps Go types to the resources of one set.
type typeIndex struct {
	set *Set
	of  map[reflect.Type][]meta.GroupVersionResource
}

// ResourcesOf returns the resources whose objects have a Go type, including those that clients
// cannot ask for.
func (e *Engine) ResourcesOf(t reflect.Type) []meta.GroupVersionResource {
	set, index := e.set.Load(), e.types.Load()
	if index == nil || index.set != set {
		index = &typeIndex{set: set, of: map[reflect.Type][]meta.GroupVersionResource{}}
		for name, served := range set.named.all() {
			if t := served.Resource.Type; t != nil {
				index.of[t] = append(index.of[t], name)
			}
		}
		e.types.Store(index)
	}
	return index.of[t]
}
