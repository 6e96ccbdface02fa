package apply

import (
	"reflect"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v4/schema"
	"sigs.k8s.io/structured-merge-diff/v4/typed"
	"sigs.k8s.io/structured-merge-diff/v4/value"
)

// node is a type of the merge schema in a form that is cheap to walk in parallel with a tree.
type node struct {
	scalar bool
	list   *listNode // nil if lists are not allowed
	object *mapNode  // nil if objects are not allowed
}

// listNode describes a list: atomic, keyed, or a set if it has no keys.
type listNode struct {
	atomic bool
	keys   []key // sorted; empty for a set
	items  *node
}

// key is one key of a keyed list.
type key struct {
	name  string
	value any // the default, used if an item lacks the key
}

// mapNode describes an object or a map.
type mapNode struct {
	atomic bool
	fields map[string]*node
	rest   *node // for fields that the schema does not name
}

// field returns the type of a field and whether the schema names the field.
func (m *mapNode) field(name string) (*node, bool) {
	if n, ok := m.fields[name]; ok {
		return n, true
	}
	return m.rest, false
}

// key returns the value of the i-th key of a list item.
func (l *listNode) key(item map[string]any, i int) any {
	if v, ok := item[l.keys[i].name]; ok {
		return v
	}
	return l.keys[i].value
}

// compile converts a merge type to nodes.
func compile(t typed.ParseableType) *node {
	c := compiler{schema: t.Schema, done: map[string]*node{}}
	return c.node(t.TypeRef)
}

// compiler converts the types of a merge schema. Each named type is compiled once, which also ends
// the recursion of types that contain themselves.
type compiler struct {
	schema *schema.Schema
	done   map[string]*node
}

func (c *compiler) node(ref schema.TypeRef) *node {
	if ref.NamedType != nil {
		if n, ok := c.done[*ref.NamedType]; ok {
			return n
		}
	}
	atom, _ := c.schema.Resolve(ref)
	n := &node{scalar: atom.Scalar != nil}
	if ref.NamedType != nil {
		c.done[*ref.NamedType] = n
	}
	if l := atom.List; l != nil {
		n.list = &listNode{atomic: l.ElementRelationship == schema.Atomic, items: c.node(l.ElementType)}
		n.list.keys = c.keys(l)
	}
	if m := atom.Map; m != nil {
		n.object = &mapNode{
			atomic: m.ElementRelationship == schema.Atomic,
			fields: make(map[string]*node, len(m.Fields)),
			rest:   c.node(m.ElementType),
		}
		for _, f := range m.Fields {
			n.object.fields[f.Name] = c.node(f.Type)
		}
	}
	return n
}

// keys returns the keys of a list, sorted by name. FieldsV1 writes them in this order, so the fast
// paths can compare names as text.
func (c *compiler) keys(l *schema.List) (out []key) {
	items, _ := c.schema.Resolve(l.ElementType)
	for _, name := range slices.Sorted(slices.Values(l.Keys)) {
		k := key{name: name}
		if items.Map != nil {
			field, _ := items.Map.FindField(name)
			k.value = field.Default
		}
		out = append(out, k)
	}
	return out
}

const (
	// maxSquares limits the cost of tracking the maps and lists of an object. structured-merge-diff
	// keeps members sorted by shifting those behind an insertion, so its cost is the square of
	// their number. The limit applies to the sum of these squares. One map of 10,000 fields reaches
	// it, and so do a hundred maps of 1,000.
	maxSquares = 10_000 * 10_000

	// maxShares limits the number of entries multiplied by the number of values of an object: every
	// change is compared with every entry.
	maxShares = 5_000_000
)

// effort estimates the cost of tracking an object.
type effort struct{ squares, values int }

// trackable reports whether the owners of objects of this type can be computed at acceptable cost.
func (n *node) trackable(entries int, objects ...map[string]any) bool {
	var e effort
	for _, o := range objects {
		e.add(n, o)
	}
	return e.squares <= maxSquares && e.values*entries <= maxShares
}

// add counts a value and everything in it. It stops soon after exceeding the limit.
func (e *effort) add(n *node, v any) {
	e.values++
	switch v := v.(type) {
	case map[string]any:
		if n.object == nil || n.object.atomic {
			return
		}
		e.squares += len(v) * len(v)
		for name, item := range v {
			if e.squares > maxSquares {
				return
			}
			child, _ := n.object.field(name)
			e.add(child, item)
		}
	case []any:
		if n.list == nil || n.list.atomic {
			return
		}
		e.squares += len(v) * len(v)
		for _, item := range v {
			if e.squares > maxSquares {
				return
			}
			e.add(n.list.items, item)
		}
	}
}

// tidy returns a copy of a value without nulls. A null becomes an empty map or list if owned
// contains its place, and is removed otherwise.
func (n *node) tidy(v any, owned *fieldpath.Set) any {
	switch v := v.(type) {
	case map[string]any:
		if n.object == nil || n.object.atomic {
			return v
		}
		out := make(map[string]any, len(v))
		for name, item := range v {
			e := fieldpath.PathElement{FieldName: &name}
			child, _ := n.object.field(name)
			if item == nil && owned.Members.Has(e) {
				item = child.empty()
			}
			if item != nil {
				out[name] = child.tidy(item, below(owned, e))
			}
		}
		return out
	case []any:
		if n.list == nil || n.list.atomic || len(n.list.keys) == 0 {
			return v
		}
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = n.list.items.tidy(item, below(owned, n.list.element(item)))
		}
		return out
	}
	return v
}

// empty returns an empty map or list, or nil if the type allows neither.
func (n *node) empty() any {
	switch {
	case n.object != nil:
		return map[string]any{}
	case n.list != nil:
		return []any{}
	}
	return nil
}

// element returns the path element of an item of a keyed list.
func (l *listNode) element(item any) fieldpath.PathElement {
	object, _ := item.(map[string]any)
	fields := make(value.FieldList, len(l.keys))
	for i := range l.keys {
		fields[i] = value.Field{Name: l.keys[i].name, Value: value.NewValueInterface(l.key(object, i))}
	}
	return fieldpath.PathElement{Key: &fields}
}

// below returns the subset below a path element.
func below(s *fieldpath.Set, e fieldpath.PathElement) *fieldpath.Set {
	if child, ok := s.Children.Get(e); ok {
		return child
	}
	return &fieldpath.Set{}
}

// sameMap reports whether a and b are the same map, not merely equal.
func sameMap(a, b map[string]any) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}
