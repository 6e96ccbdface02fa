package watch

import (
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
)

// The fields that every kind supports in selectors.
const (
	fieldName      = "metadata.name"
	fieldNamespace = "metadata.namespace"
)

// Filter selects objects of a kind. All its parts must hold; the zero Filter selects everything.
type Filter struct {
	Namespace string // "" is every namespace
	Name      string // "" is every name
	Labels    meta.Selector
	Fields    meta.FieldSelector // over metadata.name, metadata.namespace and the kind's declared fields
	Shards    *meta.Shards       // nil is every object
}

// Matches reports whether the filter selects e. A field that the kind did not declare counts as
// absent. It does not allocate.
func (f Filter) Matches(e *Entry) bool { return f.matches(e) }

func (f *Filter) matches(e *Entry) bool {
	if f.Namespace != "" && f.Namespace != e.Namespace() {
		return false
	}
	if f.Name != "" && f.Name != e.Name() {
		return false
	}
	return (f.Shards == nil || f.Shards.Matches(e.UID(), e.Namespace())) &&
		(f.Labels.Empty() || f.Labels.Matches((*entryLabels)(e))) &&
		(f.Fields.Empty() || f.Fields.Matches((*entryFields)(e)))
}

// KeyPrefix returns the longest storage key prefix that covers everything the filter can match: the
// prefix of the resource or of the namespace, or the key of one object.
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

// Whole reports whether every object below KeyPrefix matches, so that a walk need not check each
// one.
func (f Filter) Whole() bool {
	return f.Name == "" && f.Shards == nil && f.Labels.Empty() && f.Fields.Empty()
}

// pinned returns the namespace and the name that the filter requires, by either its own fields or
// its selector.
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

// change is one commit's effect on one object: the previous state (nil if created) and the next
// (nil if deleted).
type change struct {
	revision   storage.Revision
	prev, next *Entry
	at         int64 // time of the commit in Unix nanoseconds
}

// touches reports whether a watcher with this filter sees the change.
func (f *Filter) touches(c *change) bool {
	return c.prev != nil && f.matches(c.prev) || c.next != nil && f.matches(c.next)
}

// event converts a change to the event for a watcher with this filter; ok is false if there is
// none. It depends only on whether the object matched before and matches now, not on whether it was
// created or deleted.
func (f *Filter) event(c *change) (event Event, ok bool) {
	before := c.prev != nil && f.matches(c.prev)
	now := c.next != nil && f.matches(c.next)
	switch {
	case before && now:
		return Event{Type: meta.Modified, Entry: c.next, Revision: c.revision, Before: c.prev}, true
	case now:
		return Event{Type: meta.Added, Entry: c.next, Revision: c.revision}, true
	case before:
		return Event{Type: meta.Deleted, Entry: c.prev, Revision: c.revision}, true
	}
	return Event{}, false
}
