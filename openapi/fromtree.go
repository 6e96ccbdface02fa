package openapi

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// FromTree reads the structural schema of an object kind, in the form that custom resource
// definitions use (openAPIV3Schema). The metadata field gets [ObjectMeta]. The fields apiVersion
// and kind are added if they are missing.
//
// FromTree accepts what kube-apiserver accepts, and reports the same problems otherwise, each with
// its position in the schema, such as "properties[spec].properties[size].pattern". It ignores
// keywords that custom resource definitions do not have.
//
// Schemas below allOf, anyOf, oneOf and not add conditions to fields that the structure describes.
// They cannot have types or defaults. On metadata, only conditions on name and generateName are
// allowed.
//
// Schemas with more than 100,000 nodes, 100 levels or 1,000 branches are rejected before they
// consume resources, and so are patterns that are expensive to match.
//
// Source: CRD-07, security vector C5.
func FromTree(tree map[string]any) (*Schema, []status.FieldError) {
	return TreeReader{}.Read(tree)
}

// TreeReader reads schema documents as [FromTree] does, with regard to the definition that they are
// part of.
type TreeReader struct {
	// Position of the document in the definition, such as "spec.validation.openAPIV3Schema". The
	// positions of problems begin with it.
	Position string
	// Status: the kind has a status subresource. At the root, a schema then has a few keywords only.
	Status bool
	// Stored are rules that the document need not follow, because the stored definition breaks them.
	Stored Breach
}

// Read returns the schema of a document, or everything that is wrong with it.
func (t TreeReader) Read(tree map[string]any) (*Schema, []status.FieldError) {
	j := t.Judge(tree)
	if len(j.Problems) > 0 {
		return nil, j.Problems
	}
	return j.Schema, nil
}

// A Judgement is what is known of a schema document.
type Judgement struct {
	// Schema is nil if the structure of the document is not sound. A document with other problems has a
	// Schema, for those who look for more problems in it.
	Schema *Schema
	// Problems are everything that is wrong with the document.
	Problems []status.FieldError
	// Defaults: some of the problems are those of defaults.
	Defaults bool
}

// Judge is Read for those who look for more problems in a document that has some.
func (t TreeReader) Judge(tree map[string]any) Judgement {
	s, r := t.read(tree)
	j := Judgement{Schema: s, Problems: r.report(), Defaults: r.badDefaults}
	for i := range j.Problems {
		j.Problems[i].Field = t.absolute(j.Problems[i].Field)
	}
	return j
}

func (t TreeReader) read(tree map[string]any) (*Schema, *treeRules) {
	r := &treeRules{TreeReader: t, walk: walk{work: maxWork - maxDefaultWork}}
	reader := treeReader{}
	root := reader.node(tree)
	if len(reader.errs) > 0 {
		r.walk = reader.walk
		return nil, r
	}
	r.root(root)
	sound := false
	if root.unsupported == "" {
		before := len(r.errs)
		r.structural(root)
		sound = len(r.errs) == before
	}
	// Problems of defaults come before those of keywords. To know them takes the Schema, and to make
	// that changes the nodes.
	before := len(r.errs)
	r.document(root, position{}, true)
	sound = sound && !r.isFull() // what comes now would only be counted
	keywords := slices.Clone(r.errs[before:])
	r.errs = r.errs[:before]
	var s *Schema
	if sound {
		s = r.build(root)
	}
	if s != nil {
		built := len(r.errs)
		r.defaults(root, s, nil)
		r.badDefaults = len(r.errs) > built
	}
	r.errs = append(r.errs, keywords...)
	if len(r.errs) == 0 && root.unsupported != "" {
		r.fail(meta.CauseFieldValueInvalid, "", root.unsupported)
	}
	return s, r
}

// build makes the Schema of a document whose structure is sound, and reports what exceeds limits.
func (r *treeRules) build(root *node) *Schema {
	completeObject(root.schema)
	root.embed()
	s, problems := newFromDocument(root.schema, r.costs)
	for _, p := range problems {
		if len(r.errs) < maxErrors {
			r.errs = append(r.errs, p)
		}
	}
	return s
}

// rootKeywords may be at the root of a schema whose kind has a status subresource. They apply to the
// status alone as well, which is validated on its own.
var rootKeywords = []string{
	"Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum", "MaxLength", "MinLength",
	"Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items", "Properties", "ExternalDocs", "Example",
	"XPreserveUnknownFields", "XValidations",
}

// pointerKeywords are present even if their value is false or empty.
var pointerKeywords = []string{"additionalProperties", "default", "$ref", "x-kubernetes-list-type", "x-kubernetes-map-type"}

// root checks the rules that are about the root alone.
func (r *treeRules) root(n *node) {
	first := n.says("id") || n.says("$schema") || n.given("$ref") // the order is that of Kubernetes' fields
	switch {
	case r.Status && !first && n.typ != "" && n.typ != "object":
		r.invalid("type", n.typ, `only "object" is allowed as the type at the root of the schema if the status subresource is enabled`)
	case r.Status && n.hasOtherThan(rootKeywords):
		r.fail(meta.CauseFieldValueInvalid, n.tree, "only ["+strings.Join(rootKeywords, " ")+"] fields are allowed at the root of the schema if the status subresource is enabled")
	}
	if n.schema.Nullable {
		r.forbidden("nullable", "nullable cannot be true at the root")
	}
}

// hasOtherThan reports whether a node has a keyword that a list does not have in the form of Go
// fields.
func (n *node) hasOtherThan(allowed []string) bool {
	for keyword, value := range n.tree {
		field := strings.ReplaceAll(strings.TrimPrefix(keyword, "x-kubernetes-"), "-", "")
		if field != keyword {
			field = "x" + field
		}
		stated := value != nil && (value != false && value != "" || slices.Contains(pointerKeywords, keyword))
		if stated && isKeyword(keyword) && !slices.ContainsFunc(allowed, func(name string) bool { return strings.EqualFold(name, field) }) {
			return true
		}
	}
	return false
}

// asObject replaces or adds the fields that every object has.
func asObject(s *Schema) {
	own := slices.Concat(typeMeta(), []Property{{"metadata", ObjectMeta()}})
	rest := slices.DeleteFunc(s.Properties, func(p Property) bool { return isObjectField(p.Name) })
	s.Properties = append(own, rest...)
	s.Required = slices.DeleteFunc(s.Required, isObjectField)
}

// completeObject is asObject for a document: its conditions on the fields, and the defaults in them,
// stay.
func completeObject(s *Schema) {
	given := map[string]*Schema{}
	for _, p := range s.Properties {
		given[p.Name] = p.Schema
	}
	if slices.ContainsFunc(s.Required, isObjectField) {
		w := s.notes()
		w.required = slices.Clone(s.Required)
		s.written = &w
	}
	asObject(s)
	for i, p := range s.Properties[:3] {
		if conditions := given[p.Name]; conditions != nil && conditions.restricts() {
			s.Properties[i].Schema = restricted(p.Schema, conditions)
			s.Properties[i].Schema.written = &written{instead: p.Schema}
		}
	}
}

// embed completes the embedded objects below a node.
func (n *node) embed() {
	if n.schema.EmbeddedObject {
		metadata := slices.Contains(n.schema.Required, "metadata")
		n.schema.ownVersion = !n.schema.lists("apiVersion")
		n.schema.ownKind = !n.schema.lists("kind")
		n.schema.ownMetadata = !n.schema.lists("metadata")
		completeObject(n.schema)
		if metadata {
			n.schema.Required = append(n.schema.Required, "metadata")
		}
	}
	for _, p := range n.properties {
		p.embed()
	}
	for _, child := range []*node{n.items, n.additional} {
		if child != nil {
			child.embed()
		}
	}
}

// lists reports whether a field is in Properties.
func (s *Schema) lists(name string) bool {
	return slices.ContainsFunc(s.Properties, func(p Property) bool { return p.Name == name })
}

// restricts reports whether a schema says more than its type and its description.
func (s *Schema) restricts() bool {
	return !reflect.DeepEqual(*s, Schema{Type: s.Type, Description: s.Description})
}

// restricted returns a schema for the values of base that follow the conditions of given as well,
// and have its defaults. Fields that base does not describe stay unknown.
func restricted(base, given *Schema) *Schema {
	out := *base
	out.ready, out.plain = nil, nil
	if base.Component != "" {
		out.base = cmp.Or(base.base, base)
	}
	out.DefaultValue = given.DefaultValue
	conditions := *given
	conditions.DefaultValue, conditions.Properties, conditions.Items, conditions.AdditionalProperties = nil, nil, nil, nil
	if conditions.restricts() || conditions.Type != base.Type {
		out.AllOf = append(slices.Clone(base.AllOf), &conditions)
	}
	out.Properties = slices.Clone(base.Properties)
	for _, p := range given.Properties {
		i := slices.IndexFunc(out.Properties, func(own Property) bool { return own.Name == p.Name })
		switch {
		case i >= 0:
			out.Properties[i].Schema = restricted(out.Properties[i].Schema, p.Schema)
		case base.AdditionalProperties != nil:
			out.Properties = append(out.Properties, Property{p.Name, restricted(base.AdditionalProperties, p.Schema)})
		case base.PreserveUnknown:
			out.Properties = append(out.Properties, p)
		}
	}
	if base.Items != nil && given.Items != nil {
		out.Items = restricted(base.Items, given.Items)
	}
	if base.AdditionalProperties != nil && given.AdditionalProperties != nil {
		out.AdditionalProperties = restricted(base.AdditionalProperties, given.AdditionalProperties)
	}
	return &out
}
