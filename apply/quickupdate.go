package apply

import (
	"slices"

	"github.com/kindwright/kindwright/internal/json"
)

// quickUpdate is the fast path for an update that changes nothing, or only values that the writer
// alone already owns. In the second case only the time of the writer's entry changes. It walks both
// objects once, in parallel with that entry. It returns ok == false at the first difference: an
// added or missing field, an item that was added, removed or moved, or anything unusual. The caller
// then takes the slow path. Both paths give the same entries, byte for byte.
func (f *Fields) quickUpdate(r Request, v *version, stored []any) (list []any, ok bool) {
	by := r.owner(opUpdate)
	heads := make([]entry, len(stored))
	w := quickWalk{version: v, reach: v.reach[r.Subresource]}
	own := -1
	for i, item := range stored {
		tree, _ := item.(map[string]any)
		e, err := readHead(tree)
		fields, _ := tree["fieldsV1"].(map[string]any)
		switch {
		case err != nil || fields == nil:
			return nil, false
		case e.owner != by:
			w.fixed = w.fixed || e.apiVersion != by.apiVersion
			w.others = append(w.others, fields)
		case own >= 0:
			return nil, false
		default:
			own = i
		}
		heads[i] = e
	}
	var owned map[string]any
	if own >= 0 {
		owned, _ = heads[own].tree["fieldsV1"].(map[string]any)
	}
	switch {
	case !w.sameFields(v.root.object, r.New, r.Live, owned):
		return nil, false
	case w.changes == 0:
		return stored, true
	case len(stored) > maxUpdaters || !v.root.trackable(len(stored), r.New, r.Live):
		return nil, false
	}
	return restamped(heads, own, r.Time), true
}

// sameFields reports whether two whole objects have the same fields. Values may differ where the
// writer may change them.
func (w *quickWalk) sameFields(m *mapNode, body, live, owned map[string]any) bool {
	if m == nil || len(body) != len(live) {
		return false
	}
	for name, v := range body {
		there, ok := live[name]
		switch {
		case !ok:
			return false
		case name == "apiVersion" || name == "kind":
			ok = json.Equal(v, there)
		case name == "metadata":
			ok = w.sameMetadata(m.fields[name], v, there, owned["f:metadata"])
		default:
			child, _ := m.field(name)
			ok = w.sameField(child, name, v, there, owned["f:"+name])
		}
		if !ok {
			return false
		}
	}
	return true
}

// sameMetadata is sameFields for the metadata. It skips managedFields, which the caller has already
// compared.
func (w *quickWalk) sameMetadata(n *node, body, live, owned any) bool {
	b, okBody := body.(map[string]any)
	l, okLive := live.(map[string]any)
	if !okBody || !okLive || n == nil || n.object == nil || n.object.atomic {
		return false
	}
	w.steps = append(w.steps, quickStep{field: "metadata"})
	defer func() { w.steps = w.steps[:len(w.steps)-1] }()
	o, _ := owned.(map[string]any)
	for name := range l {
		if _, ok := b[name]; !ok && name != "managedFields" {
			return false
		}
	}
	for name, v := range b {
		there, ok := l[name]
		child, _ := n.object.field(name)
		switch {
		case name == "managedFields":
			ok = true
		case !ok:
		case isSystemField(name):
			ok = json.Equal(v, there)
		default:
			ok = w.sameField(child, name, v, there, o["f:"+name])
		}
		if !ok {
			return false
		}
	}
	return true
}

func (w *quickWalk) sameField(n *node, name string, body, live, owned any) bool {
	w.steps = append(w.steps, quickStep{field: name})
	ok := w.sameValue(n, body, live, owned)
	w.steps = w.steps[:len(w.steps)-1]
	return ok
}

// sameValue reports whether a value is equal or differs only where the writer may change it.
func (w *quickWalk) sameValue(n *node, body, live, owned any) bool {
	switch b := body.(type) {
	case nil:
		return live == nil
	case map[string]any:
		l, ok := live.(map[string]any)
		switch {
		case !ok:
			return false
		case sameMap(b, l):
			return true
		case n.object == nil:
			return json.Equal(b, l)
		case n.object.atomic:
			return w.sameLeaf(body, live, owned, len(b) > 0 && len(l) > 0)
		}
		return w.sameMembers(n.object, b, l, owned)
	case []any:
		l, ok := live.([]any)
		switch {
		case !ok:
			return false
		case n.list == nil:
			return json.Equal(b, l)
		case n.list.atomic:
			return w.sameLeaf(body, live, owned, len(b) > 0 && len(l) > 0)
		}
		return w.sameItems(n.list, b, l, owned)
	}
	return w.sameLeaf(body, live, owned, n.scalar && live != nil && scalar(live))
}

// sameLeaf handles a value that is owned as a whole. It may only differ if the writer is its sole
// owner.
func (w *quickWalk) sameLeaf(body, live, owned any, changeable bool) bool {
	if json.Equal(body, live) {
		return true
	}
	o, ok := owned.(map[string]any)
	if !changeable || w.fixed || !ok || len(o) > 0 || !w.reached() || slices.ContainsFunc(w.others, w.has) {
		return false
	}
	w.changes++
	return true
}

// reached reports whether the current place is within reach of the endpoint.
func (w *quickWalk) reached() bool {
	if w.reach == nil {
		return true
	}
	below := func(p Path) bool {
		for i, name := range p {
			if i >= len(w.steps) || w.steps[i].list != nil || w.steps[i].field != name {
				return false
			}
		}
		return true
	}
	return !slices.ContainsFunc(w.reach.Except, below) && !slices.ContainsFunc(w.reach.Unowned, below) && (len(w.reach.Only) == 0 || slices.ContainsFunc(w.reach.Only, below))
}

// sameMembers walks an object or a map. Members may not be added or removed, since that changes the
// entry's fields.
func (w *quickWalk) sameMembers(m *mapNode, body, live map[string]any, owned any) bool {
	if len(body) != len(live) {
		return false
	}
	o, _ := owned.(map[string]any)
	for name, v := range body {
		there, ok := live[name]
		child, _ := m.field(name)
		if !ok || !w.sameField(child, name, v, there, o["f:"+name]) {
			return false
		}
	}
	return true
}

// sameItems walks a keyed list or a set. All items must be at their previous index.
func (w *quickWalk) sameItems(l *listNode, body, live []any, owned any) bool {
	if len(body) != len(live) {
		return false
	}
	o, _ := owned.(map[string]any)
	before := w.changes
	for i, item := range body {
		if len(l.keys) == 0 {
			if !json.Equal(item, live[i]) {
				return false
			}
			continue
		}
		if !l.same(item, live[i]) {
			return false
		}
		w.name = l.appendName(w.name[:0], item)
		entry := o[string(w.name)]
		w.steps = append(w.steps, quickStep{list: l, item: item})
		ok := w.sameValue(l.items, item, live[i], entry)
		w.steps = w.steps[:len(w.steps)-1]
		if !ok {
			return false
		}
	}
	return w.changes == before || len(live) <= maxCompared && l.distinct(live)
}
