package apply

import (
	"maps"
	"slices"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
)

// Request is one write to one object. Its trees are in the version of the request. They are not
// modified.
type Request struct {
	Live map[string]any // the stored object; nil for a create
	New  map[string]any // for Update the object to store, for Apply the applied configuration

	Manager     string // the field manager; "" means "unknown"
	APIVersion  string // of the request; must be a version of the kind
	Subresource string // the subresource written to; "" for the object itself
	Time        meta.Time
	Force       bool // Apply only: take over fields of other managers
}

// owner returns the owner of the fields that the request writes.
func (r Request) owner(operation string) owner {
	o := owner{manager: r.Manager, operation: operation, apiVersion: r.APIVersion, subresource: r.Subresource}
	if o.manager == "" {
		o.manager = "unknown"
	}
	return o
}

// entriesOf returns an object's managedFields and whether the field is present.
func entriesOf(object map[string]any) ([]any, bool) {
	v, ok := tree.Lookup(object, "metadata", "managedFields")
	list, _ := v.([]any)
	return list, ok
}

// bare returns an object without managedFields.
func bare(object map[string]any) map[string]any {
	return tree.Without(object, "metadata", "managedFields")
}

// live returns the stored object without managedFields, or a new one with blank in it.
func (r Request) live(blank map[string]any) map[string]any {
	if r.Live != nil {
		return bare(r.Live)
	}
	return newLike(r.New, blank)
}

// newLike returns an object that has nothing but blank, and apiVersion and kind of another one.
func newLike(other, blank map[string]any) map[string]any {
	object := make(map[string]any, len(blank)+2)
	maps.Copy(object, blank)
	for _, name := range []string{"apiVersion", "kind"} {
		if v, ok := other[name]; ok {
			object[name] = v
		}
	}
	return object
}

// withEntries returns an object with the given managedFields, or without the field if there are no
// entries.
func withEntries(object map[string]any, list []any) map[string]any {
	if len(list) == 0 {
		return bare(object)
	}
	return tree.With(object, list, "metadata", "managedFields")
}

// isReset reports whether managedFields sent by a client request a reset of ownership.
func (f *Fields) isReset(list []any, present bool) bool {
	switch len(list) {
	case 0:
		return f.resetByEmptyList && present && list != nil
	case 1:
		entry, ok := list[0].(map[string]any)
		for _, v := range entry {
			ok = ok && (v == nil || v == "")
		}
		return ok
	}
	return false
}

// EqualButTimes reports whether two objects are equal except for the times in their managedFields, and
// the order of these, which follows from the times. A write that would store only new times must not
// change the object.
//
// Source: SSA-28, design rule 8.
func EqualButTimes(a, b map[string]any) bool {
	listA, _ := entriesOf(a)
	listB, _ := entriesOf(b)
	if !slices.EqualFunc(listA, listB, sameEntry) && !sameInOtherOrder(listA, listB) {
		return false
	}
	metadataA, okA := a["metadata"].(map[string]any)
	metadataB, okB := b["metadata"].(map[string]any)
	return okA == okB && equalBut("managedFields", metadataA, metadataB) && equalBut("metadata", a, b)
}

// sameInOtherOrder looks entries up by their owner, which no two of an object share: a client can send
// thousands.
func sameInOtherOrder(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	rest := make(map[[4]string][]any, len(b))
	for _, entry := range b {
		o := ownerTexts(entry)
		rest[o] = append(rest[o], entry)
	}
	for _, entry := range a {
		o := ownerTexts(entry)
		at := slices.IndexFunc(rest[o], func(other any) bool { return sameEntry(entry, other) })
		if at < 0 {
			return false
		}
		rest[o] = slices.Delete(rest[o], at, at+1)
	}
	return true
}

// ownerTexts is what tells an entry of managedFields from the others.
func ownerTexts(entry any) (texts [4]string) {
	fields, _ := entry.(map[string]any)
	for i, name := range [...]string{"manager", "operation", "apiVersion", "subresource"} {
		texts[i], _ = fields[name].(string)
	}
	return texts
}

// sameEntry compares two entries of managedFields but for their times.
func sameEntry(a, b any) bool {
	entryA, okA := a.(map[string]any)
	entryB, okB := b.(map[string]any)
	return okA && okB && equalBut("time", entryA, entryB)
}

// equalBut compares two maps and ignores one field.
func equalBut(name string, a, b map[string]any) bool {
	n, m := len(a), len(b)
	if _, ok := a[name]; ok {
		n--
	}
	if _, ok := b[name]; ok {
		m--
	}
	if n != m {
		return false
	}
	for k, v := range a {
		if k == name {
			continue
		}
		if other, ok := b[k]; !ok || !json.Equal(v, other) {
			return false
		}
	}
	return true
}

// Check returns an error if an object's managedFields are unreadable. Update ignores unreadable
// entries from clients. If an admission plugin made the entries unreadable, the caller should
// restore the previous ones and add a warning.
//
// Source: SSA-29.
func Check(tree map[string]any) error {
	list, _ := entriesOf(tree)
	_, err := readManagers(list)
	return err
}
