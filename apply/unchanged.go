package apply

import (
	"github.com/kindwright/kindwright/internal/json"
)

// changesNothing tells, without asking structured-merge-diff, whether the configuration is what its manager applied last
// time and what the object holds already. It goes once through the configuration, beside the object and the entry of the
// manager, and gives up at the first difference or at anything unusual; then the long way decides. It never says yes where
// that would change a byte.
func (a *application) changesNothing() bool {
	owned := a.lastOwned()
	if owned == nil {
		return false
	}
	if a.request.Manager == kubectl && text(a.live, "metadata", "annotations", lastApplied) != "" {
		return false // the annotation may have to follow
	}
	w := unchangedWalk{version: a.version}
	return w.object(a.config, a.live, owned)
}

// lastOwned returns what the entry of the manager says it owns. It is nil if there is no such entry in the version of the
// request, and if anything about the entries is to be put right.
func (a *application) lastOwned() map[string]any {
	entries, _ := entriesOf(a.request.Live)
	if !a.fields.served(entries) {
		return nil
	}
	var owned map[string]any
	for _, item := range entries {
		tree, _ := item.(map[string]any)
		version, _ := tree["apiVersion"].(string)
		if tree["operation"] != opApply || tree["manager"] != a.by.manager || text(tree, "subresource") != a.by.subresource {
			continue
		}
		if owned != nil || version != a.by.apiVersion || tree["fieldsType"] != fieldsV1 {
			return nil
		}
		if owned, _ = tree["fieldsV1"].(map[string]any); owned == nil {
			return nil
		}
	}
	return owned
}

// unchangedWalk goes through a configuration. Its methods tell whether all is well and whether the value leaves a mark in
// the entry of its owner: an element that is owned, or that leads to one.
type unchangedWalk struct {
	version *version
	name    []byte
}

// object compares whole objects, whose identity nobody owns.
func (w *unchangedWalk) object(config, live, owned map[string]any) bool {
	marks := 0
	for name, v := range config {
		there, ok := live[name]
		if !ok {
			return false
		}
		child, _ := w.version.root.object.field(name)
		mark := false
		switch name {
		case "apiVersion", "kind":
			ok = json.Equal(v, there)
		case "metadata":
			mark, ok = w.metadata(child, v, there, owned["f:metadata"])
		default:
			entry, has := owned["f:"+name]
			mark, ok = w.value(child, v, there, entry, !w.named(name))
			ok = ok && mark == has
		}
		if !ok {
			return false
		}
		if mark {
			marks++
		}
	}
	return marks == len(owned)
}

func (w *unchangedWalk) named(name string) bool {
	_, ok := w.version.root.object.field(name)
	return ok
}

// metadata is like any field, but for those in it that nobody owns.
func (w *unchangedWalk) metadata(n *node, config, live, owned any) (mark, ok bool) {
	c, okConfig := config.(map[string]any)
	l, okLive := live.(map[string]any)
	if !okConfig || !okLive || n.object == nil || n.object.atomic {
		return false, false
	}
	o, has := owned.(map[string]any)
	marks := 0
	for name, v := range c {
		there, ok := l[name]
		if !ok {
			return false, false
		}
		if isSystemField(name) {
			if !json.Equal(v, there) {
				return false, false
			}
			continue
		}
		child, named := n.object.field(name)
		entry, has := o["f:"+name]
		mark, ok := w.value(child, v, there, entry, !named)
		if !ok || mark != has {
			return false, false
		}
		if mark {
			marks++
		}
	}
	return has, marks == len(o) && has == (marks > 0)
}

// isSystemField tells whether a field of the metadata is nobody's.
func isSystemField(name string) bool {
	switch name {
	case "name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "selfLink", "generation", "managedFields":
		return true
	}
	return false
}

// value compares one value with what is stored and with the entry of its owner. An item of a list, and a field that the
// schema does not name, is a member of the entry itself, beside what is below it.
func (w *unchangedWalk) value(n *node, config, live, owned any, member bool) (mark, ok bool) {
	switch c := config.(type) {
	case nil:
		return false, false
	case map[string]any:
		if n.object == nil {
			return false, false
		}
		if n.object.atomic {
			return true, isLeaf(owned) && json.Equal(c, live)
		}
		l, isMap := live.(map[string]any)
		if !isMap {
			return false, false
		}
		return w.fields(n.object, c, l, owned, member || len(c) == 0)
	case []any:
		if n.list == nil {
			return false, false
		}
		if n.list.atomic {
			return true, isLeaf(owned) && json.Equal(c, live)
		}
		l, isList := live.([]any)
		if !isList {
			return false, false
		}
		return w.items(n.list, c, l, owned, member)
	}
	return true, n.scalar && isLeaf(owned) && json.Equal(config, live)
}

// isLeaf tells whether an element is owned with nothing below it.
func isLeaf(owned any) bool {
	o, ok := owned.(map[string]any)
	return ok && len(o) == 0
}

// complete tells whether an element with so many marks below it is all that the entry has there.
func complete(owned any, marks int, member bool) (mark, ok bool) {
	o, has := owned.(map[string]any)
	_, dot := o["."]
	if dot {
		marks++
	}
	switch {
	case !has:
		return false, marks == 0 && !member
	case marks == 0:
		return true, member && len(o) == 0
	}
	return true, dot == member && len(o) == marks
}

func (w *unchangedWalk) fields(m *mapNode, config, live map[string]any, owned any, member bool) (mark, ok bool) {
	o, _ := owned.(map[string]any)
	marks := 0
	for name, v := range config {
		there, ok := live[name]
		if !ok {
			return false, false
		}
		child, named := m.field(name)
		entry, has := o["f:"+name]
		mark, ok := w.value(child, v, there, entry, !named)
		if !ok || mark != has {
			return false, false
		}
		if mark {
			marks++
		}
	}
	return complete(owned, marks, member)
}

// maxCompared is how many items a list may have to be compared here, each with each.
const maxCompared = 64

// items compares the items of a keyed list or a set. Those of the configuration must come in the order in which they are
// stored: another order is a change.
func (w *unchangedWalk) items(l *listNode, config, live []any, owned any, member bool) (mark, ok bool) {
	if len(live) > maxCompared || !l.distinct(live) {
		return false, false
	}
	o, _ := owned.(map[string]any)
	next := 0
	for _, item := range config {
		for next < len(live) && !l.same(item, live[next]) {
			next++
		}
		if next == len(live) {
			return false, false
		}
		w.name = l.appendName(w.name[:0], item)
		entry, has := o[string(w.name)]
		if !has {
			return false, false
		}
		if _, ok := w.value(l.items, item, live[next], entry, true); !ok {
			return false, false
		}
		next++
	}
	return complete(owned, len(config), member)
}

// same tells whether two items are one by their keys, or by their value in a set. Null and items without a key are none.
func (l *listNode) same(a, b any) bool {
	if len(l.keys) == 0 {
		return a != nil && scalar(a) && json.Equal(a, b)
	}
	x, okX := a.(map[string]any)
	y, okY := b.(map[string]any)
	for i := range l.keys {
		v := l.key(x, i)
		if !okX || !okY || v == nil || !scalar(v) || !json.Equal(v, l.key(y, i)) {
			return false
		}
	}
	return true
}

func (l *listNode) distinct(items []any) bool {
	for i, a := range items {
		for _, b := range items[:i] {
			if l.same(a, b) {
				return false
			}
		}
	}
	return true
}

// appendName writes the element of an item as the entry has it.
func (l *listNode) appendName(dst []byte, item any) []byte {
	if len(l.keys) == 0 {
		return appendScalar(append(dst, "v:"...), item)
	}
	object, _ := item.(map[string]any)
	dst = append(dst, "k:{"...)
	for i, k := range l.keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, k.name)
		dst = appendScalar(append(dst, ':'), l.key(object, i))
	}
	return append(dst, '}')
}
