package openapi

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// usage is a schema as a document publishes it at one place: as a reference, in full, or as a
// reference with keywords beside it.
type usage struct {
	reference string  // name of the published schema; empty for none
	schema    *Schema // nil for a reference alone
	kinds     []meta.GroupVersionKind
}

// property returns the usage of a schema that describes a field or a branch.
func (p *publisher) property(s *Schema) usage {
	if instead := s.notes().instead; instead != nil {
		s = instead
	}
	if s.Component == "" {
		return usage{schema: s}
	}
	return usage{reference: p.component(s.Component, cmp.Or(s.base, s)), schema: s.beside()}
}

// item returns the usage of a schema that describes list items or map values. It prefers a plain
// reference: an item has no field of its own that could carry a description or tags.
func (p *publisher) item(s *Schema) usage {
	if s.Component != "" && s.DefaultValue == nil {
		return usage{reference: p.component(s.Component, cmp.Or(s.base, s))}
	}
	return p.property(s)
}

// beside returns what the tags of a field change or add relative to the component the field refers
// to, or nil if that is nothing. kubectl explain looks for the field's description there.
func (s *Schema) beside() *Schema {
	base, minimum, maximum, mapType := cmp.Or(s.base, s), s.MinProperties, s.MaxProperties, s.MapType
	if minimum == base.MinProperties {
		minimum = nil
	}
	if maximum == base.MaxProperties {
		maximum = nil
	}
	if mapType == base.MapType {
		mapType = ""
	}
	nullable := s.Nullable && !base.Nullable
	texts := s.Description != "" || mapType != "" || s.ListType != "" || s.PatchStrategy != "" || s.PatchMergeKey != ""
	if !texts && !nullable && s.DefaultValue == nil && minimum == nil && maximum == nil && len(s.ListMapKeys) == 0 {
		return nil
	}
	return &Schema{
		Description: s.Description, DefaultValue: s.DefaultValue, Nullable: nullable, MapType: mapType, MinProperties: minimum, MaxProperties: maximum,
		ListType: s.ListType, ListMapKeys: s.ListMapKeys, PatchStrategy: s.PatchStrategy, PatchMergeKey: s.PatchMergeKey,
	}
}

// publishedType returns the keyword type. It is empty for values of several types.
func (s *Schema) publishedType() Type {
	if !s.fromDocument && (s.IntOrString || s.OrNumber) {
		return ""
	}
	return s.Type
}

// publishedRequired returns the names of the required fields, sorted unless a document has listed
// them. Expected fields are published
// as required although Validate does not enforce them: generated clients rely on the list.
func (s *Schema) publishedRequired() []string {
	if s.fromDocument {
		return s.Required
	}
	names := slices.Concat(s.Required, s.Expected)
	slices.Sort(names)
	return names
}

// publishedProperties returns the properties, sorted by name.
func (s *Schema) publishedProperties() []Property {
	byName := func(a, b Property) int { return strings.Compare(a.Name, b.Name) }
	if slices.IsSortedFunc(s.Properties, byName) {
		return s.Properties
	}
	return slices.SortedFunc(slices.Values(s.Properties), byName)
}

// eachExtension calls add with the extensions, sorted by name, and their values as JSON. Most tell how the value merges in server-side apply and in strategic merge patches.
func (u usage) eachExtension(swagger bool, add func(name string, value []byte)) {
	s, yes := u.schema, []byte("true")
	text := func(name, value string) {
		if value != "" {
			add(name, json.AppendString(nil, value))
		}
	}
	if s.EmbeddedObject {
		add("x-kubernetes-embedded-resource", yes)
	}
	if len(u.kinds) > 0 {
		kinds := []byte{'['}
		for _, gvk := range u.kinds {
			kinds = append(appendGroupVersionKind(kinds, gvk), ',')
		}
		add(gvkKey, append(withoutComma(kinds), ']'))
	}
	if s.IntOrString {
		add("x-kubernetes-int-or-string", yes)
	}
	if len(s.ListMapKeys) > 0 {
		add("x-kubernetes-list-map-keys", appendTexts(nil, s.ListMapKeys))
	}
	text("x-kubernetes-list-type", string(s.ListType))
	text("x-kubernetes-map-type", string(s.MapType))
	text("x-kubernetes-patch-merge-key", s.PatchMergeKey)
	text("x-kubernetes-patch-strategy", s.PatchStrategy)
	if s.PreserveUnknown {
		add("x-kubernetes-preserve-unknown-fields", yes)
	}
	if selectable := s.notes().selectable; len(selectable) > 0 {
		add(selectableExtension, appendSelectable(nil, selectable))
	}
	if len(s.Rules) > 0 && (!swagger || s.fromDocument) {
		add("x-kubernetes-validations", appendRules(nil, s.Rules))
	}
}

// clashes reports whether the schema has branches and a union of types under the same keyword.
func (s *Schema) clashes() bool {
	return len(s.AnyOf) > 0 && s.union("anyOf") != "" || len(s.OneOf) > 0 && s.union("oneOf") != ""
}

// schemaWriter writes schemas as JSON of OpenAPI v3 or v2. Keywords are sorted by name, so the order
// of the calls below is the order of the document. Each member ends with a comma, which the end of
// the object removes.
type schemaWriter struct {
	*publisher
	dst     []byte
	swagger bool // v2
}

// usage writes a schema.
func (w *schemaWriter) usage(u usage) {
	switch s := u.schema; {
	case s == nil && w.swagger:
		w.dst = appendReference(w.dst, swaggerReferences, u.reference)
		return
	case s == nil:
		w.dst = appendReference(w.dst, documentReferences, u.reference)
		return
	}
	u.schema = u.shown(w.swagger)
	s, notes := u.schema, u.schema.notes()
	w.dst = append(w.dst, '{')
	var swagger swaggerOnly
	if w.swagger {
		swagger = w.swaggerOnly(u)
		if swagger.reference != "" {
			w.text("$ref", swaggerReferences+swagger.reference)
		}
	}
	switch {
	case notes.additional != nil:
		w.tree("additionalProperties", *notes.additional)
	case s.AdditionalProperties != nil:
		w.nested("additionalProperties", w.item(s.AdditionalProperties))
	}
	if !w.swagger {
		w.allOf(u)
		w.union("anyOf", s.AnyOf, s.union("anyOf"))
	}
	w.head(s)
	w.text("format", cmp.Or(swagger.format, s.Format))
	if s.Items != nil {
		w.nested("items", w.item(s.Items))
	}
	w.bounds(s)
	if !w.swagger {
		if s.Not != nil {
			w.nested("not", w.property(s.Not))
		}
		w.flag("nullable", s.Nullable)
		w.union("oneOf", s.OneOf, s.union("oneOf"))
	}
	w.text("pattern", s.Pattern)
	w.fields(s)
	w.text("title", notes.title)
	w.text("type", cmp.Or(swagger.typ, string(s.publishedType())))
	u.eachExtension(w.swagger, func(name string, value []byte) {
		w.key(name)
		w.dst = append(append(w.dst, value...), ',')
	})
	w.dst = append(withoutComma(w.dst), '}')
}

// head writes the keywords from default to externalDocs.
func (w *schemaWriter) head(s *Schema) {
	w.tree("default", s.DefaultValue)
	w.flag("deprecated", s.Deprecated && !w.swagger)
	w.text("description", s.Description)
	if len(s.Enum) > 0 {
		w.tree("enum", s.Enum)
	}
	w.tree("example", s.notes().example)
	w.flag("exclusiveMaximum", s.ExclusiveMaximum)
	w.flag("exclusiveMinimum", s.ExclusiveMinimum)
	w.tree("externalDocs", s.notes().externalDocs)
}

func (w *schemaWriter) bounds(s *Schema) {
	w.count("maxItems", s.MaxItems)
	w.count("maxLength", s.MaxLength)
	w.count("maxProperties", s.MaxProperties)
	w.tree("maximum", s.Maximum)
	w.count("minItems", s.MinItems)
	w.count("minLength", s.MinLength)
	w.count("minProperties", s.MinProperties)
	w.tree("minimum", s.Minimum)
	w.tree("multipleOf", s.MultipleOf)
}

func (w *schemaWriter) fields(s *Schema) {
	if len(s.Properties) > 0 {
		w.key("properties")
		w.dst = append(w.dst, '{')
		for _, p := range s.publishedProperties() {
			w.nested(p.Name, w.property(p.Schema))
		}
		w.dst = append(withoutComma(w.dst), "},"...)
	}
	if required := s.publishedRequired(); len(required) > 0 {
		w.key("required")
		w.dst = append(appendTexts(w.dst, required), ',')
	}
}

// union returns the value of a keyword that a schema of several types has, or "".
func (s *Schema) union(keyword string) string {
	switch {
	case s.fromDocument:
		return ""
	case s.IntOrString && keyword == "anyOf":
		return `[{"type":"integer"},{"type":"string"}]`
	case s.OrNumber && !s.IntOrString && keyword == "oneOf":
		return stringOrNumber
	}
	return ""
}

const stringOrNumber = `[{"type":"string"},{"type":"number"}]`

// union writes anyOf or oneOf: the branches of the schema, or the union of its types. If there are
// both, both must hold, and allOf holds them.
func (w *schemaWriter) union(keyword string, branches []*Schema, types string) {
	switch {
	case len(branches) > 0 && types == "":
		w.key(keyword)
		w.list(branches)
	case len(branches) == 0 && types != "":
		w.key(keyword)
		w.dst = append(append(w.dst, types...), ',')
	}
}

// allOf writes the branches that must all hold. OpenAPI v3 ignores keywords next to $ref, so a
// reference that has any is here too.
func (w *schemaWriter) allOf(u usage) {
	s := u.schema
	start := len(w.dst)
	w.key("allOf")
	empty := len(w.dst) + 1
	w.dst = append(w.dst, '[')
	if u.reference != "" {
		w.dst = append(appendReference(w.dst, documentReferences, u.reference), ',')
	}
	for _, c := range []struct {
		keyword  string
		branches []*Schema
	}{{"anyOf", s.AnyOf}, {"oneOf", s.OneOf}} {
		if types := s.union(c.keyword); types != "" && len(c.branches) > 0 {
			w.dst = append(append(append(append(w.dst, `{"`...), c.keyword...), `":`...), types...)
			w.dst = append(append(append(w.dst, `},{"`...), c.keyword...), `":`...)
			w.list(c.branches)
			w.dst = append(withoutComma(w.dst), "},"...)
		}
	}
	for _, branch := range s.AllOf {
		w.usage(w.property(branch))
		w.dst = append(w.dst, ',')
	}
	if len(w.dst) == empty {
		w.dst = w.dst[:start]
		return
	}
	w.dst = append(withoutComma(w.dst), "],"...)
}

func (w *schemaWriter) list(branches []*Schema) {
	w.dst = append(w.dst, '[')
	for _, branch := range branches {
		w.usage(w.property(branch))
		w.dst = append(w.dst, ',')
	}
	w.dst = append(withoutComma(w.dst), "],"...)
}

func (w *schemaWriter) key(name string) { w.dst = append(json.AppendString(w.dst, name), ':') }

func (w *schemaWriter) nested(name string, u usage) {
	w.key(name)
	w.usage(u)
	w.dst = append(w.dst, ',')
}

func (w *schemaWriter) text(name, value string) {
	if value != "" {
		w.key(name)
		w.dst = append(json.AppendString(w.dst, value), ',')
	}
}

func (w *schemaWriter) flag(name string, value bool) {
	if value {
		w.key(name)
		w.dst = append(w.dst, "true,"...)
	}
}

func (w *schemaWriter) count(name string, n *int64) {
	if n != nil {
		w.tree(name, *n)
	}
}

// tree writes a value of any type; nil is none.
func (w *schemaWriter) tree(name string, value any) {
	if value == nil {
		return
	}
	w.key(name)
	var err error
	if w.dst, err = json.AppendTree(w.dst, value); err != nil {
		w.failed = cmp.Or(w.failed, err)
	}
	w.dst = append(w.dst, ',')
}
