package apply

import (
	"maps"
	"slices"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
)

// quick answers, without structured-merge-diff, an apply of the same fields as last time: what is merged then is the object
// with other values, or the object as it is. It goes once through the configuration, beside the object and the entry of the
// manager, and gives up (ok is false) at the first sign of anything else: a field more or less, items in another order, a
// changed value that another owner has too, entries in other versions, anything unusual. Then the long way decides. The
// answer is the one that the long way would give, to the byte.
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
		case e.id() != a.by.id():
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
		return nil, false // the annotation may have to follow
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

// restamped returns entries, one of which has another time.
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

// quickWalk goes through a configuration. Its methods return what the value is after the merge, whether it leaves a mark in
// the entry of its owner (an element that is owned, or that leads to one), and whether all is well.
type quickWalk struct {
	version *version
	reach   *reach           // of the endpoint, for updates
	others  []map[string]any // what other owners have
	fixed   bool             // values may not change: that needs a conversion
	changes int
	steps   []quickStep // to where the walk is
	name    []byte
}

// A quickStep is one step of a path. Its name is only made when it is asked for.
type quickStep struct {
	field string
	list  *listNode // the step is to item, if there is a list
	item  any
}

// object goes through whole objects, whose identity nobody owns.
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

// put returns out with another value, as a copy if out is still the stored map; out itself if the value is the stored one.
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

// identical tells of two values, one of which the walk returned for the other, whether it changed it. A changed map or list
// is always another one, and a changed scalar has another value.
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

// field goes on to a field.
func (w *quickWalk) field(n *node, name string, config, live any, owned map[string]any, member bool) (out any, mark, ok bool) {
	w.steps = append(w.steps, quickStep{field: name})
	entry, has := owned["f:"+name]
	out, mark, ok = w.value(n, config, live, entry, member)
	w.steps = w.steps[:len(w.steps)-1]
	return out, mark, ok && mark == has
}

// metadata is like any object, but for the fields in it that nobody owns.
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

// isSystemField tells whether a field of the metadata is nobody's.
func isSystemField(name string) bool { return meta.MetadataRulesOf(name)&meta.NeverOwned != 0 }

// value goes through one value. An item of a list, and a field that the schema does not name, is a member of the entry
// itself, beside what is below it.
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

// leaf is a value that is owned as one. It may change, unless another owner has it too.
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

// has tells whether an entry names the place where the walk is.
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

// maxCompared is how many items a list may have to be compared here, each with each.
const maxCompared = 64

// items goes through a keyed list or a set. The items of the configuration must come in the order in which they are
// stored: another order is a change.
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
