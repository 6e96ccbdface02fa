package apply

import (
	"slices"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
)

// quickCreate is the fast path for a create: the writer owns every field, but for those of a blank
// object. It returns ok == false if the object contains anything unusual; the caller then takes the slow
// path. Both paths give the same entries, byte for byte.
func (f *Fields) quickCreate(r Request, v *version) (list []any, ok bool) {
	if reach := v.reach[r.Subresource]; reach != nil {
		if len(reach.Only) > 0 {
			return nil, false
		}
		for _, p := range slices.Concat(reach.Except, reach.Unowned) {
			if now, there := tree.Lookup(r.New, p[:1]...); there && !json.Equal(now, in(v.blank, p[0])) {
				return nil, false
			}
		}
	}
	w := quickOwner{leaf: map[string]any{}}
	fields, ok := w.object(v.root.object, r.New, v.blank)
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

// none stands for what a blank object does not have.
type none struct{}

// in returns what a blank object has in a field.
func in(blank map[string]any, name string) any {
	if v, ok := blank[name]; ok {
		return v
	}
	return none{}
}

// object handles a whole object. apiVersion and kind never have an owner.
func (w *quickOwner) object(m *mapNode, tree, blank map[string]any) (map[string]any, bool) {
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
			fields, ok = w.metadata(child, v)
		default:
			fields, ok = w.value(child, v, in(blank, name))
		}
		if !ok {
			return nil, false
		}
		if fields != nil {
			out["f:"+name] = fields
		}
	}
	return out, true
}

// metadata returns nil if there is none but that of the system.
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
		fields, ok := w.value(child, v, none{})
		if !ok {
			return nil, false
		}
		out["f:"+name] = fields
	}
	if len(out) == 0 {
		return nil, true
	}
	return out, true
}

// value returns the fields of one value: the element itself and, unless it is atomic, everything
// below it. It returns nil if a blank object has the same value.
func (w *quickOwner) value(n *node, v, blank any) (map[string]any, bool) {
	_, added := blank.(none)
	switch v := v.(type) {
	case nil:
		return nil, false
	case map[string]any:
		switch {
		case n.object == nil:
			return nil, false
		case added && (n.object.atomic || len(v) == 0):
			return w.leaf, true
		case n.object.atomic || len(v) == 0:
			return w.unlike(v, blank)
		}
		had, isMap := blank.(map[string]any)
		return w.members(n.object, v, had, added || blank != nil && !isMap)
	case []any:
		switch {
		case n.list == nil:
			return nil, false
		case added && (n.list.atomic || len(v) == 0):
			return w.leaf, true
		case n.list.atomic || len(v) == 0:
			return w.unlike(v, blank)
		}
		if had, _ := blank.([]any); len(had) > 0 {
			return nil, false
		}
		return w.items(n.list, v, added)
	}
	if !n.scalar {
		return nil, false
	}
	if added {
		return w.leaf, true
	}
	return w.unlike(v, blank)
}

// unlike returns the fields of a value that stays whole, where a blank object has another. That an
// empty map or list takes the place of nothing, or of items, is left to the slow path.
func (w *quickOwner) unlike(v, blank any) (map[string]any, bool) {
	switch v := v.(type) {
	case map[string]any:
		if had, _ := blank.(map[string]any); len(v) == 0 && (had == nil || len(had) > 0) {
			return nil, false
		}
	case []any:
		if had, _ := blank.([]any); len(v) == 0 && (had == nil || len(had) > 0) {
			return nil, false
		}
	}
	if json.Equal(v, blank) {
		return nil, true
	}
	return w.leaf, true
}

// members returns the fields of a map; added says that a blank object has none.
func (w *quickOwner) members(m *mapNode, tree, blank map[string]any, added bool) (map[string]any, bool) {
	out := make(map[string]any, len(tree)+1)
	if added {
		out["."] = w.leaf
	}
	for name, v := range tree {
		child, _ := m.field(name)
		fields, ok := w.value(child, v, in(blank, name))
		if !ok {
			return nil, false
		}
		if fields != nil {
			out["f:"+name] = fields
		}
	}
	if len(out) == 0 {
		return nil, true
	}
	return out, true
}

// items encodes the ownership of a keyed list or a set. Duplicates and keys with several spellings
// are left to the slow path. added says that a blank object does not have the list.
func (w *quickOwner) items(l *listNode, list []any, added bool) (map[string]any, bool) {
	out := make(map[string]any, len(list)+1)
	if added {
		out["."] = w.leaf
	}
	for _, item := range list {
		if !l.isPlain(item) {
			return nil, false
		}
		fields, ok := w.value(l.items, item, none{})
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
