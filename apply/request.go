package apply

import (
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
)

// Request is one write to one object. The trees are in the version of the request and are not changed.
type Request struct {
	Live map[string]any // what is stored, nil when the object is new
	New  map[string]any // Update: what is to be stored; Apply: the applied configuration

	Manager     string // who writes; "" counts as "unknown"
	APIVersion  string // in which the write came in, one of the versions of the kind
	Subresource string // through which it came in, "" for the object itself
	Time        meta.Time
	Force       bool // Apply: take over what others own
}

// owner is the owner of what the request writes.
func (r Request) owner(operation string) owner {
	o := owner{manager: r.Manager, operation: operation, apiVersion: r.APIVersion, subresource: r.Subresource}
	if o.manager == "" {
		o.manager = "unknown"
	}
	return o
}

// entriesOf returns the managedFields of an object, and whether it has the field.
func entriesOf(object map[string]any) ([]any, bool) {
	v, ok := tree.Lookup(object, "metadata", "managedFields")
	list, _ := v.([]any)
	return list, ok
}

// bare returns an object without its managedFields; what stands for one that does not exist is its kind alone.
func bare(object, instead map[string]any) map[string]any {
	if object == nil {
		object = map[string]any{}
		for _, name := range []string{"apiVersion", "kind"} {
			if v, ok := instead[name]; ok {
				object[name] = v
			}
		}
		return object
	}
	return tree.Without(object, "metadata", "managedFields")
}

// withEntries returns an object with managedFields, or without where nobody owns anything.
func withEntries(object map[string]any, list []any) map[string]any {
	if len(list) == 0 {
		return bare(object, nil)
	}
	return tree.With(object, list, "metadata", "managedFields")
}

// isReset tells whether an object's managedFields ask that ownership start anew.
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

// EqualButTimes tells whether two objects differ in nothing, or in no more than the times of their managedFields. A write
// that would store no more than that is no change: the object stays as it is (SSA-28, design rule 8).
func EqualButTimes(a, b map[string]any) bool {
	listA, _ := entriesOf(a)
	listB, _ := entriesOf(b)
	if len(listA) != len(listB) {
		return false
	}
	for i := range listA {
		entryA, okA := listA[i].(map[string]any)
		entryB, okB := listB[i].(map[string]any)
		if !okA || !okB || !equalBut("time", entryA, entryB) {
			return false
		}
	}
	metadataA, okA := a["metadata"].(map[string]any)
	metadataB, okB := b["metadata"].(map[string]any)
	return okA == okB && equalBut("managedFields", metadataA, metadataB) && equalBut("metadata", a, b)
}

// equalBut compares two maps except for one field.
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

// Check tells what is wrong with an object's managedFields, nil if they can be read. What a client sends and cannot be read
// is ignored by Update; what an admission plugin made unreadable should be put back, with a warning (SSA-29).
func Check(tree map[string]any) error {
	list, _ := entriesOf(tree)
	_, err := readManagers(list)
	return err
}
