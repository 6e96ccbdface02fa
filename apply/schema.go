package apply

import (
	"slices"
	"strconv"

	"sigs.k8s.io/structured-merge-diff/v4/schema"

	"github.com/kindwright/kindwright/openapi"
)

// The names of types for values that the schema does not describe. structured-merge-diff treats the
// first two specially: it does not track schema changes inside them.
const (
	deducedName = "__untyped_deduced_" // maps merge by field, lists are atomic
	atomicName  = "__untyped_atomic_"  // everything is atomic
	rootName    = "0"
)

// rawExtension is the component of objects that only their readers understand. Kubernetes merges and owns them
// as a whole, although their documents do not say so.
const rawExtension = "io.k8s.apimachinery.pkg.runtime.RawExtension"

// mergeType adds the types of one version to an empty schema of structured-merge-diff, with the
// type rootName for the objects. The library builds indexes on first use and does not synchronise
// this for references that override how a type merges. So no reference overrides anything here, and
// the indexes are built before the schema is shared.
func mergeType(into *schema.Schema, root *openapi.Schema) {
	c := converter{done: map[*openapi.Schema]schema.TypeRef{}, schema: into}
	atom := c.atom(root)
	if atom.Map == nil {
		atom = schema.Atom{Map: &schema.Map{ElementType: named(deducedName)}}
	}
	c.schema.Types = append(c.schema.Types,
		schema.TypeDef{Name: rootName, Atom: atom},
		schema.TypeDef{Name: deducedName, Atom: open(deducedName, schema.Separable)},
		schema.TypeDef{Name: atomicName, Atom: open(atomicName, schema.Atomic)})
	c.warm()
}

// open returns the type of values that the schema does not describe.
func open(element string, maps schema.ElementRelationship) schema.Atom {
	untyped := schema.Untyped
	return schema.Atom{
		Scalar: &untyped,
		List:   &schema.List{ElementType: named(atomicName), ElementRelationship: schema.Atomic},
		Map:    &schema.Map{ElementType: named(element), ElementRelationship: maps},
	}
}

func named(name string) schema.TypeRef { return schema.TypeRef{NamedType: &name} }

// converter builds the merge schema of an object. Maps and lists become named types.
// structured-merge-diff compares types while it merges, and for named types it only compares the
// names.
type converter struct {
	schema *schema.Schema
	done   map[*openapi.Schema]schema.TypeRef
}

// ref returns the type of a schema. Schemas that differ only in their description share a type,
// which keeps the merge schema small.
func (c *converter) ref(s *openapi.Schema) schema.TypeRef {
	if s == nil {
		return named(deducedName)
	}
	s = s.Undocumented()
	if ref, ok := c.done[s]; ok {
		return ref
	}
	if isScalar(s) {
		ref := schema.TypeRef{Inlined: c.atom(s)}
		c.done[s] = ref
		return ref
	}
	at := len(c.schema.Types)
	ref := named(strconv.Itoa(at + 1))
	c.done[s] = ref // set first: the type may contain itself
	c.schema.Types = append(c.schema.Types, schema.TypeDef{Name: *ref.NamedType})
	c.schema.Types[at].Atom = c.atom(s)
	return ref
}

func isScalar(s *openapi.Schema) bool {
	return s.IntOrString || s.OrNumber || s.Type != openapi.Object && s.Type != openapi.Array && s.Type != ""
}

func (c *converter) atom(s *openapi.Schema) schema.Atom {
	scalar := schema.Untyped
	switch {
	case s.IntOrString, s.OrNumber:
		return schema.Atom{Scalar: &scalar}
	case s.Component == rawExtension:
		return open(atomicName, schema.Atomic)
	case s.Type == openapi.Object:
		return schema.Atom{Map: c.object(s)}
	case s.Type == openapi.Array:
		return schema.Atom{List: c.list(s)}
	case s.Type == "":
		return schema.Atom{Scalar: &scalar, List: c.list(s), Map: c.object(s)}
	case s.Type == openapi.Boolean:
		scalar = schema.Boolean
	case s.Type == openapi.String && (s.Format == "" || s.Format == "byte"):
		scalar = schema.String
	case s.Type == openapi.Integer || s.Type == openapi.Number:
		scalar = schema.Numeric
	}
	return schema.Atom{Scalar: &scalar}
}

// object describes a map. It accepts fields that the schema does not name, even if the schema
// forbids them. Requests are validated elsewhere, and an object that was stored under another
// schema must remain readable.
func (c *converter) object(s *openapi.Schema) *schema.Map {
	m := &schema.Map{ElementType: c.ref(s.AdditionalProperties)}
	switch s.MapType {
	case openapi.MapAtomic:
		m.ElementRelationship = schema.Atomic
	case openapi.MapGranular:
		m.ElementRelationship = schema.Separable
	}
	for _, p := range s.Properties {
		m.Fields = append(m.Fields, schema.StructField{Name: p.Name, Type: c.ref(p.Schema), Default: p.Schema.DefaultValue})
	}
	if s.EmbeddedObject {
		c.embed(s, m)
	}
	return m
}

// embed adds the fields of every object to an embedded object that does not describe them.
func (c *converter) embed(s *openapi.Schema, m *schema.Map) {
	text := schema.String
	for name, ref := range map[string]func() schema.TypeRef{
		"apiVersion": func() schema.TypeRef { return schema.TypeRef{Inlined: schema.Atom{Scalar: &text}} },
		"kind":       func() schema.TypeRef { return schema.TypeRef{Inlined: schema.Atom{Scalar: &text}} },
		"metadata":   func() schema.TypeRef { return c.ref(openapi.ObjectMeta()) },
	} {
		if _, ok := s.Property(name); !ok {
			m.Fields = append(m.Fields, schema.StructField{Name: name, Type: ref()})
		}
	}
}

// list describes a list. A list without a list type is atomic, unless it has the older patch tags
// of strategic merge patches.
func (c *converter) list(s *openapi.Schema) *schema.List {
	l := &schema.List{ElementType: named(atomicName), ElementRelationship: schema.Atomic}
	if s.Items != nil {
		l.ElementType = c.ref(s.Items)
	}
	merges := s.ListType == "" && slices.Contains([]string{"merge", "merge,retainKeys"}, s.PatchStrategy)
	switch {
	case s.ListType == openapi.ListMap:
		l.ElementRelationship, l.Keys = schema.Associative, slices.Clone(s.ListMapKeys)
	case merges && s.PatchMergeKey != "":
		l.ElementRelationship, l.Keys = schema.Associative, []string{s.PatchMergeKey}
	case (merges || s.ListType == openapi.ListSet) && scalarItems(s):
		l.ElementRelationship = schema.Associative
	}
	return l
}

// scalarItems reports whether the items can be members of a set. structured-merge-diff only
// supports sets of scalars.
func scalarItems(s *openapi.Schema) bool {
	return s.Items != nil && s.Items.Type != openapi.Object && s.Items.Type != openapi.Array &&
		(s.Items.Type != "" || s.Items.IntOrString)
}

// warm builds the indexes that the schema would otherwise build on first use. See mergeType.
func (c *converter) warm() {
	for _, t := range c.schema.Types {
		c.schema.FindNamedType(t.Name)
		if t.Map != nil {
			t.Map.FindField("")
		}
	}
}
