package apply

import (
	"reflect"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v4/schema"
	"sigs.k8s.io/structured-merge-diff/v4/typed"
	"sigs.k8s.io/structured-merge-diff/v4/value"
)

// node is a type of the merge schema in a form that is quick to walk beside a tree.
type node struct {
	scalar bool
	list   *listNode // nil where no list is allowed
	object *mapNode  // nil where no object is allowed
}

type listNode struct {
	atomic bool
	keys   []key // sorted; none for a set
	items  *node
}

type key struct {
	name  string
	value any // what stands for the key where an item has none
}

type mapNode struct {
	atomic bool
	fields map[string]*node
	rest   *node // of fields that the schema does not name
}

// field returns the type of a field, and whether the schema names it.
func (m *mapNode) field(name string) (*node, bool) {
	if n, ok := m.fields[name]; ok {
		return n, true
	}
	return m.rest, false
}

// key returns what identifies an item of a keyed list, by the place of the key.
func (l *listNode) key(item map[string]any, i int) any {
	if v, ok := item[l.keys[i].name]; ok {
		return v
	}
	return l.keys[i].value
}

// compile makes the nodes of a merge type.
func compile(t typed.ParseableType) *node {
	c := compiler{schema: t.Schema, done: map[string]*node{}}
	return c.node(t.TypeRef)
}

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
	// maxSquares bounds what the maps and lists of an object may cost to track. structured-merge-diff keeps their members in
	// order by moving those behind, so that its cost grows with the square of their number: this is the sum of these squares,
	// which one map of 10,000 fields reaches, or a hundred of 1,000.
	maxSquares = 10_000 * 10_000

	// maxShares bounds the number of entries times that of the values in an object: the changes of an object are compared
	// with each entry.
	maxShares = 5_000_000
)

// effort is how much an object costs to track.
type effort struct{ squares, values int }

// trackable tells whether the ownership of objects of this type, in so many entries, can be worked out at a bounded cost.
func (n *node) trackable(entries int, objects ...map[string]any) bool {
	var e effort
	for _, o := range objects {
		e.add(n, o)
	}
	return e.squares <= maxSquares && e.values*entries <= maxShares
}

// add counts a value and what is in it, up to a little more than the bound.
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

// tidy returns a copy of a value in which each null is an empty map or list where owned says that somebody owns it, and is
// gone elsewhere.
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

// empty is the map or the list of a type without anything in it; nil for types that have neither.
func (n *node) empty() any {
	switch {
	case n.object != nil:
		return map[string]any{}
	case n.list != nil:
		return []any{}
	}
	return nil
}

// element is the step of a path to an item of a keyed list.
func (l *listNode) element(item any) fieldpath.PathElement {
	object, _ := item.(map[string]any)
	fields := make(value.FieldList, len(l.keys))
	for i := range l.keys {
		fields[i] = value.Field{Name: l.keys[i].name, Value: value.NewValueInterface(l.key(object, i))}
	}
	return fieldpath.PathElement{Key: &fields}
}

// below returns the part of a set below a step.
func below(s *fieldpath.Set, e fieldpath.PathElement) *fieldpath.Set {
	if child, ok := s.Children.Get(e); ok {
		return child
	}
	return &fieldpath.Set{}
}

// sameMap tells whether two maps are one.
func sameMap(a, b map[string]any) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}
