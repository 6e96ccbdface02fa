package apply

import "github.com/kindwright/kindwright/internal/tree"

// quickCreate is the fast path for a create: the writer owns every field. It returns ok == false if
// the object contains anything unusual; the caller then takes the slow path. Both paths give the
// same entries, byte for byte.
func (f *Fields) quickCreate(r Request, v *version) (list []any, ok bool) {
	if reach := v.reach[r.Subresource]; reach != nil {
		if len(reach.Only) > 0 {
			return nil, false
		}
		for _, p := range reach.Except {
			if _, there := tree.Lookup(r.New, p[:1]...); there {
				return nil, false
			}
		}
	}
	w := quickOwner{leaf: map[string]any{}}
	fields, ok := w.object(v.root.object, r.New)
	if !ok || !v.root.trackable(0, r.New) {
		return nil, false
	}
	if len(fields) == 0 {
		return nil, true
	}
	return []any{entry{owner: r.owner(opUpdate), time: r.Time}.writeFields(fields)}, true
}

// quickOwner encodes the ownership of complete values as FieldsV1.
type quickOwner struct {
	leaf map[string]any // shared by all leaves, since trees are never modified
	name []byte
}

// object handles a whole object. apiVersion and kind never have an owner.
func (w *quickOwner) object(m *mapNode, tree map[string]any) (map[string]any, bool) {
	if m == nil || m.atomic {
		return nil, false
	}
	out := make(map[string]any, len(tree))
	for name, v := range tree {
		child, _ := m.field(name)
		var fields map[string]any
		var ok bool
		switch name {
		case "apiVersion", "kind":
			continue
		case "metadata":
			if fields, ok = w.metadata(child, v); ok && len(fields) == 0 {
				continue
			}
		default:
			fields, ok = w.value(child, v)
		}
		if !ok {
			return nil, false
		}
		out["f:"+name] = fields
	}
	return out, true
}

func (w *quickOwner) metadata(n *node, v any) (map[string]any, bool) {
	tree, ok := v.(map[string]any)
	if !ok || n.object == nil || n.object.atomic {
		return nil, false
	}
	out := make(map[string]any, len(tree))
	for name, v := range tree {
		if isSystemField(name) {
			continue
		}
		child, _ := n.object.field(name)
		fields, ok := w.value(child, v)
		if !ok {
			return nil, false
		}
		out["f:"+name] = fields
	}
	return out, true
}

// value returns the fields of one value: the element itself and, unless it is atomic, everything
// below it.
func (w *quickOwner) value(n *node, v any) (map[string]any, bool) {
	switch v := v.(type) {
	case nil:
		return nil, false
	case map[string]any:
		switch {
		case n.object == nil:
			return nil, false
		case n.object.atomic || len(v) == 0:
			return w.leaf, true
		}
		return w.members(n.object, v)
	case []any:
		switch {
		case n.list == nil:
			return nil, false
		case n.list.atomic || len(v) == 0:
			return w.leaf, true
		}
		return w.items(n.list, v)
	}
	return w.leaf, n.scalar
}

func (w *quickOwner) members(m *mapNode, tree map[string]any) (map[string]any, bool) {
	out := make(map[string]any, len(tree)+1)
	out["."] = w.leaf
	for name, v := range tree {
		child, _ := m.field(name)
		fields, ok := w.value(child, v)
		if !ok {
			return nil, false
		}
		out["f:"+name] = fields
	}
	return out, true
}

// items encodes the ownership of a keyed list or a set. Duplicates and keys with several spellings
// are left to the slow path.
func (w *quickOwner) items(l *listNode, list []any) (map[string]any, bool) {
	out := make(map[string]any, len(list)+1)
	out["."] = w.leaf
	for _, item := range list {
		if !l.isPlain(item) {
			return nil, false
		}
		fields, ok := w.value(l.items, item)
		if !ok {
			return nil, false
		}
		w.name = l.appendName(w.name[:0], item)
		if _, twice := out[string(w.name)]; twice {
			return nil, false
		}
		out[string(w.name)] = fields
	}
	return out, true
}

// isPlain reports whether an item is identified by strings, integers and booleans. These have only
// one spelling, so equal items have equal names.
func (l *listNode) isPlain(item any) bool {
	plain := func(v any) bool {
		switch v.(type) {
		case string, int64, bool:
			return true
		}
		return false
	}
	if len(l.keys) == 0 {
		return plain(item)
	}
	object, ok := item.(map[string]any)
	for i := range l.keys {
		if !ok || !plain(l.key(object, i)) {
			return false
		}
	}
	return true
}
