package apply

import (
	"maps"
	"slices"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
)

// quick is the fast path for an apply with the same fields as last time. The result is then the
// live object, possibly with other values. It walks the configuration once, in parallel with the
// object and the manager's entry. It returns ok == false at the first difference: an added or
// missing field, a reordered item, a changed value that another manager also owns, an entry in
// another version, or anything unusual. The caller then takes the slow path.
//
// Both paths must give the same result, byte for byte.
func (a *application) quick() (out map[string]any, ok bool) {
	entries, _ := entriesOf(a.request.Live)
	heads := make([]entry, len(entries))
	w := quickWalk{version: a.version}
	own := -1
	for i, item := range entries {
		tree, _ := item.(map[string]any)
		e, err := readHead(tree)
		fields, _ := tree["fieldsV1"].(map[string]any)
		switch {
		case err != nil || fields == nil || a.fields.versions[e.apiVersion] == nil:
			return nil, false
		case !e.same(a.by):
			w.fixed = w.fixed || e.apiVersion != a.by.apiVersion
			w.others = append(w.others, fields)
		case own >= 0 || e.apiVersion != a.by.apiVersion:
			return nil, false
		default:
			own = i
		}
		heads[i] = e
	}
	if own < 0 || a.request.Manager == kubectl && tree.Text(a.live, "metadata", "annotations", lastApplied) != "" {
		return nil, false // the annotation may need an update
	}
	owned, _ := heads[own].tree["fieldsV1"].(map[string]any)
	out, ok = w.object(a.config, a.live, owned)
	if !ok {
		return nil, false
	}
	if w.changes == 0 {
		return a.request.Live, true
	}
	return withEntries(out, restamped(heads, own, a.request.Time)), true
}

// restamped returns the entries with a new time for one of them. It modifies heads but not the
// trees in them.
func restamped(heads []entry, own int, t meta.Time) []any {
	heads[own].time = t
	heads[own].tree = maps.Clone(heads[own].tree)
	if heads[own].tree["time"] = heads[own].stamp(); t.IsZero() {
		delete(heads[own].tree, "time")
	}
	slices.SortFunc(heads, entry.compare)
	list := make([]any, len(heads))
	for i, e := range heads {
		list[i] = e.tree
	}
	return list
}

// quickWalk walks a configuration in parallel with the live object and the manager's entry. Its
// methods return the value after the merge, whether the entry contains the element or something
// below it (mark), and whether the fast path still applies (ok).
type quickWalk struct {
	version *version
	reach   *reach           // of the endpoint; updates only
	others  []map[string]any // the fields of other owners
	// fixed forbids changed values, because other entries would then need a conversion.
	fixed   bool
	changes int
	steps   []quickStep // the path to the current place
	name    []byte
}

// A quickStep is one path element. Its FieldsV1 name is only built if another owner's entry must be
// searched.
type quickStep struct {
	field string    // not nil if the step leads to item
	list  *listNode // the step is to item, if there is a list
	item  any
}

// object walks a whole object. apiVersion and kind never have an owner.
func (w *quickWalk) object(config, live, owned map[string]any) (map[string]any, bool) {
	out, marks := live, 0
	for name, v := range config {
		there, ok := live[name]
		if !ok {
			return nil, false
		}
		child, named := w.version.root.object.field(name)
		value, mark := there, false
		switch name {
		case "apiVersion", "kind":
			ok = json.Equal(v, there)
		case "metadata":
			value, mark, ok = w.metadata(child, v, there, owned["f:metadata"])
		default:
			value, mark, ok = w.field(child, name, v, there, owned, !named)
		}
		if !ok {
			return nil, false
		}
		out = put(out, live, name, value, there)
		if mark {
			marks++
		}
	}
	return out, marks == len(owned)
}

// put sets a value in out. It clones live before the first change and returns out unchanged if the
// value is the stored one.
func put(out, live map[string]any, name string, value, there any) map[string]any {
	if identical(value, there) {
		return out
	}
	if sameMap(out, live) {
		out = maps.Clone(live)
	}
	out[name] = value
	return out
}

// identical reports whether the walk left a value unchanged. A changed map or list is always a new
// one, so comparing addresses is sufficient. Scalars are compared by value.
func identical(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && sameMap(a, b)
	case []any:
		b, ok := b.([]any)
		return ok && len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
	}
	return scalar(b) && a == b
}

// field walks one field.
func (w *quickWalk) field(n *node, name string, config, live any, owned map[string]any, member bool) (out any, mark, ok bool) {
	w.steps = append(w.steps, quickStep{field: name})
	entry, has := owned["f:"+name]
	out, mark, ok = w.value(n, config, live, entry, member)
	w.steps = w.steps[:len(w.steps)-1]
	return out, mark, ok && mark == has
}

// metadata walks the metadata. It differs from other objects in having fields that never have an
// owner.
func (w *quickWalk) metadata(n *node, config, live, owned any) (out any, mark, ok bool) {
	c, okConfig := config.(map[string]any)
	l, okLive := live.(map[string]any)
	if !okConfig || !okLive || n.object == nil || n.object.atomic {
		return nil, false, false
	}
	w.steps = append(w.steps, quickStep{field: "metadata"})
	defer func() { w.steps = w.steps[:len(w.steps)-1] }()
	o, has := owned.(map[string]any)
	result, marks := l, 0
	for name, v := range c {
		there, ok := l[name]
		if !ok {
			return nil, false, false
		}
		if isSystemField(name) {
			if !json.Equal(v, there) {
				return nil, false, false
			}
			continue
		}
		child, named := n.object.field(name)
		value, mark, ok := w.field(child, name, v, there, o, !named)
		if !ok {
			return nil, false, false
		}
		result = put(result, l, name, value, there)
		if mark {
			marks++
		}
	}
	return result, has, marks == len(o) && has == (marks > 0)
}

// isSystemField reports whether a metadata field never has an owner.
func isSystemField(name string) bool { return meta.MetadataRulesOf(name)&meta.NeverOwned != 0 }

// value walks one value. If member is set, the element itself is owned in addition to what is below
// it. This is the case for list items and for fields that the schema does not name.
func (w *quickWalk) value(n *node, config, live, owned any, member bool) (out any, mark, ok bool) {
	switch c := config.(type) {
	case nil:
		return nil, false, false
	case map[string]any:
		l, isMap := live.(map[string]any)
		switch {
		case !isMap || n.object == nil:
			return nil, false, false
		case n.object.atomic:
			return w.leaf(config, live, owned)
		}
		return w.fields(n.object, c, l, owned, member || len(c) == 0)
	case []any:
		l, isList := live.([]any)
		switch {
		case !isList || n.list == nil:
			return nil, false, false
		case n.list.atomic:
			return w.leaf(config, live, owned)
		}
		return w.items(n.list, c, l, owned, member)
	}
	if !n.scalar || live == nil || !scalar(live) {
		return nil, false, false
	}
	return w.leaf(config, live, owned)
}

// leaf handles a value that is owned as a whole. It may change unless another manager owns it too.
func (w *quickWalk) leaf(config, live, owned any) (out any, mark, ok bool) {
	if o, isMap := owned.(map[string]any); !isMap || len(o) > 0 {
		return nil, false, false
	}
	if json.Equal(config, live) {
		return live, true, true
	}
	if w.fixed || slices.ContainsFunc(w.others, w.has) {
		return nil, false, false
	}
	w.changes++
	return config, true, true
}

// has reports whether an entry contains the current place.
func (w *quickWalk) has(fields map[string]any) bool {
	for _, s := range w.steps {
		var below any
		if s.list == nil {
			below = fields["f:"+s.field]
		} else {
			w.name = s.list.appendName(w.name[:0], s.item)
			below = fields[string(w.name)]
		}
		var ok bool
		if fields, ok = below.(map[string]any); !ok {
			return false
		}
	}
	return true
}

// complete reports whether the entry contains exactly this element and marks elements below it.
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

// fields walks the members of an object or a map.
func (w *quickWalk) fields(m *mapNode, config, live map[string]any, owned any, member bool) (out any, mark, ok bool) {
	o, _ := owned.(map[string]any)
	result, marks := live, 0
	for name, v := range config {
		there, ok := live[name]
		if !ok {
			return nil, false, false
		}
		child, named := m.field(name)
		value, mark, ok := w.field(child, name, v, there, o, !named)
		if !ok {
			return nil, false, false
		}
		result = put(result, live, name, value, there)
		if mark {
			marks++
		}
	}
	mark, ok = complete(owned, marks, member)
	return result, mark, ok
}

// maxCompared is the length up to which list items are compared pairwise.
const maxCompared = 64

// items walks a keyed list or a set. The items of the configuration must be in stored order, since
// reordering is a change.
func (w *quickWalk) items(l *listNode, config, live []any, owned any, member bool) (out any, mark, ok bool) {
	if len(live) > maxCompared || !l.distinct(live) {
		return nil, false, false
	}
	o, _ := owned.(map[string]any)
	result, next := live, 0
	for _, item := range config {
		for next < len(live) && !l.same(item, live[next]) {
			next++
		}
		if next == len(live) {
			return nil, false, false
		}
		w.name = l.appendName(w.name[:0], item)
		entry, has := o[string(w.name)]
		if !has {
			return nil, false, false
		}
		w.steps = append(w.steps, quickStep{list: l, item: item})
		value, _, ok := w.value(l.items, item, live[next], entry, true)
		w.steps = w.steps[:len(w.steps)-1]
		if !ok {
			return nil, false, false
		}
		if !identical(value, live[next]) {
			if identical(result, live) {
				result = slices.Clone(live)
			}
			result[next] = value
		}
		next++
	}
	mark, ok = complete(owned, len(config), member)
	return result, mark, ok
}

// same reports whether two items have the same keys or, in a set, the same value. Null and items
// without a key are never the same as another item.
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

// distinct reports whether no two items are the same. Merging lists with duplicates has special
// rules, which the fast paths leave to the slow path.
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

// appendName writes the path element of an item in the syntax of FieldsV1.
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
