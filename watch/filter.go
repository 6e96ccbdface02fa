package watch

import (
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
)

// The fields that every kind can be selected by.
const (
	fieldName      = "metadata.name"
	fieldNamespace = "metadata.namespace"
)

// Filter says which objects of a kind are asked for. All its parts must hold; the zero Filter asks
// for everything.
type Filter struct {
	Namespace string // "" is every namespace
	Name      string // "" is every name
	Labels    meta.Selector
	Fields    meta.FieldSelector // over metadata.name, metadata.namespace and the kind's declared fields
}

// Matches reports whether the filter asks for e. A requirement on a field that the kind did not
// declare is judged as the selector judges an absent field. It allocates nothing.
func (f Filter) Matches(e *Entry) bool { return f.matches(e) }

func (f *Filter) matches(e *Entry) bool {
	if f.Namespace != "" && f.Namespace != e.namespace {
		return false
	}
	if f.Name != "" && f.Name != e.name {
		return false
	}
	return (f.Labels.Empty() || f.Labels.Matches((*entryLabels)(e))) &&
		(f.Fields.Empty() || f.Fields.Matches((*entryFields)(e)))
}

// KeyPrefix returns the longest storage key prefix below which everything lies that the filter can
// match: the resource's, the namespace's, or the key of the one object.
func (f Filter) KeyPrefix(storageName string) string {
	namespace, name := f.pinned()
	switch {
	case namespace == "":
		return storage.ResourcePrefix(storageName)
	case name == "":
		return storage.NamespacePrefix(storageName, namespace)
	}
	return storage.ObjectKey(storageName, namespace, name)
}

// Whole reports whether every object below KeyPrefix matches, so that a walk need not look at each.
func (f Filter) Whole() bool { return f.Name == "" && f.Labels.Empty() && f.Fields.Empty() }

// pinned returns the namespace and the name that the filter insists on, whichever part of it says
// so.
func (f *Filter) pinned() (namespace, name string) {
	namespace, name = f.Namespace, f.Name
	if namespace == "" {
		namespace, _ = f.Fields.Exact(fieldNamespace)
	}
	if name == "" {
		name, _ = f.Fields.Exact(fieldName)
	}
	return namespace, name
}

// change is one commit's effect on one object: what it was (nil when created) and what it is (nil
// when deleted).
type change struct {
	revision   storage.Revision
	prev, next *Entry
	at         int64 // when it was committed, Unix nanoseconds
}

// touches reports whether a watcher with this filter hears of the change.
func (f *Filter) touches(c *change) bool {
	return c.prev != nil && f.matches(c.prev) || c.next != nil && f.matches(c.next)
}

// event turns a change into what a watcher with this filter is told; ok is false when that is
// nothing. Whether an object was created or deleted does not matter, only whether it matched before
// and matches now.
func (f *Filter) event(c *change) (event Event, ok bool) {
	before := c.prev != nil && f.matches(c.prev)
	now := c.next != nil && f.matches(c.next)
	switch {
	case before && now:
		return Event{Type: meta.Modified, Entry: c.next, Revision: c.revision}, true
	case now:
		return Event{Type: meta.Added, Entry: c.next, Revision: c.revision}, true
	case before:
		return Event{Type: meta.Deleted, Entry: c.prev, Revision: c.revision}, true
	}
	return Event{}, false
}
