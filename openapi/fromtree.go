package openapi

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// FromTree reads the structural schema of an object kind, in the form that custom resource
// definitions use (openAPIV3Schema). The metadata field gets [ObjectMeta]. The fields apiVersion
// and kind are added if they are missing.
//
// FromTree reports all problems, each with its position in the schema, such as
// "properties.spec.properties.size.pattern". Keywords that structural schemas must not use ($ref,
// definitions, patternProperties and others) are rejected. Unknown extensions are ignored.
//
// Schemas below allOf, anyOf, oneOf and not add conditions to fields that the structure describes.
// They cannot have types or defaults or introduce fields. On metadata, only conditions on name and
// generateName are allowed.
//
// Schemas with more than 100,000 nodes, 100 levels or 1,000 branches are rejected before they
// consume resources, and so are patterns that are expensive to match.
//
// Source: security vector C5.
func FromTree(tree map[string]any) (*Schema, []status.FieldError) {
	r := treeReader{}
	s := r.schema(tree)
	if len(r.errs) > 0 {
		return nil, r.report()
	}
	if r.restrictNames(s); len(r.errs) > 0 {
		return nil, r.report()
	}
	asObject(s)
	if r.metadata != nil {
		s.Properties[2].Schema = r.metadata
	}
	built, err := New(s)
	if err, bad := err.(*Error); bad {
		return nil, err.Problems
	}
	return built, nil
}

// asObject replaces or adds the fields that every object has.
func asObject(s *Schema) {
	own := func(p Property) bool { return p.Name == "apiVersion" || p.Name == "kind" || p.Name == "metadata" }
	s.Properties = slices.Concat(typeMeta(), []Property{{"metadata", ObjectMeta()}}, slices.DeleteFunc(s.Properties, own))
	s.Required = slices.DeleteFunc(s.Required, func(name string) bool { return own(Property{Name: name}) })
}

// treeReader reads a schema document. It collects all problems instead of stopping at the first.
type treeReader struct {
	walk
	nodes    int
	loose    int // depth inside allOf, anyOf, oneOf and not
	fields   map[*Schema]map[string]*Schema
	metadata *Schema // metadata of the root, if the document restricts names
}

// keyword reads the value of one keyword into a schema.
type keyword func(r *treeReader, s *Schema, v any)

// schema reads one node. It returns a schema even after problems, so that the rest of the document
// is checked as well.
func (r *treeReader) schema(v any) *Schema {
	s := &Schema{}
	tree, ok := v.(map[string]any)
	if !ok {
		r.typeError("object", v)
		return s
	}
	if r.nodes++; r.nodes > maxSchemaNodes {
		if r.nodes == maxSchemaNodes+1 {
			r.fail(meta.CauseFieldValueForbidden, nil, fmt.Sprintf("the schema has more than %d nodes", maxSchemaNodes))
		}
		return s
	}
	if len(r.path) > 2*maxSchemaDepth {
		r.fail(meta.CauseFieldValueForbidden, nil, fmt.Sprintf("the schema is more than %d levels deep", maxSchemaDepth))
		return s
	}
	if r.loose == 0 && tree["x-kubernetes-int-or-string"] == true {
		tree = withoutTypes(tree)
	}
	for _, name := range sortedNames(tree) {
		r.path = append(r.path, json.Name(name))
		r.keyword(s, name, tree[name])
		r.path = r.path[:len(r.path)-1]
	}
	if r.loose == 0 {
		r.checkStructure(s, tree)
		r.eachBranch(s, func(branch *Schema) { r.checkNames(s, branch) })
	} else {
		r.checkCondition(tree)
	}
	return s
}

// branch reads a node below allOf, anyOf, oneOf or not.
func (r *treeReader) branch(v any) *Schema {
	r.loose++
	defer func() { r.loose-- }()
	return r.schema(v)
}

// keyword reads one keyword of a node. Keywords whose values are schemas are handled here, because
// they recurse; all others are in plainKeywords.
func (r *treeReader) keyword(s *Schema, name string, v any) {
	switch name {
	case "properties":
		r.properties(s, v)
	case "additionalProperties":
		r.additional(s, v)
	case "items":
		s.Items = r.schema(v)
	case "not":
		s.Not = r.branch(v)
	case "allOf":
		s.AllOf = r.branches(v)
	case "anyOf":
		s.AnyOf = r.branches(v)
	case "oneOf":
		s.OneOf = r.branches(v)
	case "x-kubernetes-validations":
		r.rules(s, v)
	case "type":
		s.Type = Type(r.text(v))
	default:
		if read, known := plainKeywords[name]; known {
			read(r, s, v)
			return
		}
		if !slices.Contains(ignoredKeywords, name) && (len(name) < 2 || name[:2] != "x-") {
			r.fail(meta.CauseFieldValueForbidden, nil, "this keyword is not allowed in a structural schema")
		}
	}
}

var ignoredKeywords = []string{"title", "example", "externalDocs"}

// plainKeywords are the keywords whose values are not schemas.
var plainKeywords = map[string]keyword{
	"description":      func(r *treeReader, s *Schema, v any) { s.Description = r.text(v) },
	"format":           func(r *treeReader, s *Schema, v any) { s.Format = r.text(v) },
	"pattern":          func(r *treeReader, s *Schema, v any) { s.Pattern = r.text(v) },
	"nullable":         func(r *treeReader, s *Schema, v any) { s.Nullable = r.flag(v) },
	"exclusiveMinimum": func(r *treeReader, s *Schema, v any) { s.ExclusiveMinimum = r.flag(v) },
	"exclusiveMaximum": func(r *treeReader, s *Schema, v any) { s.ExclusiveMaximum = r.flag(v) },
	"default":          func(_ *treeReader, s *Schema, v any) { s.DefaultValue = json.Clone(v) },
	"enum":             func(r *treeReader, s *Schema, v any) { s.Enum = slices.Clone(r.list(v)) },
	"required":         func(r *treeReader, s *Schema, v any) { s.Required = r.texts(v) },
	"minimum":          func(r *treeReader, s *Schema, v any) { s.Minimum = r.number(v) },
	"maximum":          func(r *treeReader, s *Schema, v any) { s.Maximum = r.number(v) },
	"multipleOf":       func(r *treeReader, s *Schema, v any) { s.MultipleOf = r.number(v) },
	"minLength":        func(r *treeReader, s *Schema, v any) { s.MinLength = r.count(v) },
	"maxLength":        func(r *treeReader, s *Schema, v any) { s.MaxLength = r.count(v) },
	"minItems":         func(r *treeReader, s *Schema, v any) { s.MinItems = r.count(v) },
	"maxItems":         func(r *treeReader, s *Schema, v any) { s.MaxItems = r.count(v) },
	"minProperties":    func(r *treeReader, s *Schema, v any) { s.MinProperties = r.count(v) },
	"maxProperties":    func(r *treeReader, s *Schema, v any) { s.MaxProperties = r.count(v) },
	"uniqueItems": func(r *treeReader, _ *Schema, v any) {
		if r.flag(v) {
			r.fail(meta.CauseFieldValueForbidden, nil, "comparing all items is too expensive; use x-kubernetes-list-type: set")
		}
	},
	"x-kubernetes-preserve-unknown-fields": func(r *treeReader, s *Schema, v any) {
		if s.PreserveUnknown = r.flag(v); v == false {
			r.fail(meta.CauseFieldValueInvalid, false, "must be true or omitted")
		}
	},
	"x-kubernetes-embedded-resource": func(r *treeReader, s *Schema, v any) { s.EmbeddedObject = r.flag(v) },
	"x-kubernetes-int-or-string":     func(r *treeReader, s *Schema, v any) { s.IntOrString = r.flag(v) },
	"x-kubernetes-list-type":         func(r *treeReader, s *Schema, v any) { s.ListType = ListType(r.text(v)) },
	"x-kubernetes-list-map-keys":     func(r *treeReader, s *Schema, v any) { s.ListMapKeys = r.texts(v) },
	"x-kubernetes-map-type":          func(r *treeReader, s *Schema, v any) { s.MapType = MapType(r.text(v)) },
	"x-kubernetes-patch-strategy":    func(r *treeReader, s *Schema, v any) { s.PatchStrategy = r.text(v) },
	"x-kubernetes-patch-merge-key":   func(r *treeReader, s *Schema, v any) { s.PatchMergeKey = r.text(v) },
}

// checkStructure enforces the rules for structural schemas: the structure alone must determine
// which fields exist and which types they have. Pruning and defaulting would otherwise depend on
// which branch of a condition applies.
func (r *treeReader) checkStructure(s *Schema, tree map[string]any) {
	root := len(r.path) == 0
	fail := func(keyword string, t meta.CauseType, value any, detail string) {
		r.failAt(json.Name(keyword), t, value, detail)
	}
	switch {
	case root && s.Type != Object:
		fail("type", meta.CauseFieldValueInvalid, string(s.Type), "must be object at the root")
	case s.EmbeddedObject && s.Type != Object:
		fail("x-kubernetes-embedded-resource", meta.CauseFieldValueInvalid, true, "can only be set on objects")
	case s.Type == "" && !s.IntOrString && !s.PreserveUnknown:
		fail("type", meta.CauseFieldValueRequired, nil, "must be set for each node of the structure")
	case s.Type != "" && s.IntOrString:
		fail("type", meta.CauseFieldValueForbidden, nil, "must be empty if x-kubernetes-int-or-string is true")
	case s.PreserveUnknown && s.IntOrString:
		fail("x-kubernetes-preserve-unknown-fields", meta.CauseFieldValueInvalid, true, "must not be combined with x-kubernetes-int-or-string")
	case s.Type == Array && s.Items == nil:
		fail("items", meta.CauseFieldValueRequired, nil, "the items of a list need a schema")
	case s.EmbeddedObject && !s.PreserveUnknown && len(s.Properties) == 0:
		fail("properties", meta.CauseFieldValueRequired, nil, "an embedded object must have properties or set x-kubernetes-preserve-unknown-fields")
	}
	if _, given := tree["additionalProperties"]; given && (root || s.EmbeddedObject) {
		fail("additionalProperties", meta.CauseFieldValueForbidden, nil, "must not be set on the root or on an embedded object")
	}
	_, properties := tree["properties"]
	if s.AdditionalProperties != nil && properties {
		r.failAt(json.Name("additionalProperties"), meta.CauseFieldValueForbidden, nil, "must not be combined with properties")
	}
	if s.EmbeddedObject {
		asObject(s)
	}
}

// structuralKeywords describe what a value is. They are not allowed in conditions.
var structuralKeywords = []string{
	"type", "default", "title", "description", "nullable", "additionalProperties", "x-kubernetes-preserve-unknown-fields",
	"x-kubernetes-embedded-resource", "x-kubernetes-int-or-string", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
	"x-kubernetes-map-type", "x-kubernetes-validations",
}

// checkCondition rejects structural keywords in a condition. A condition that could set a type or a
// default would make the structure depend on the value.
func (r *treeReader) checkCondition(tree map[string]any) {
	for _, keyword := range structuralKeywords {
		if _, given := tree[keyword]; given {
			r.failAt(json.Name(keyword), meta.CauseFieldValueForbidden, nil, "must not be used below allOf, anyOf, oneOf and not")
		}
	}
}

// withoutTypes returns an int-or-string node without the redundant anyOf of integer and string.
// Generators write it into the node itself or into the first element of its allOf. Its types would
// not be allowed in a condition.
func withoutTypes(tree map[string]any) map[string]any {
	says := func(v any) bool {
		return json.Equal(v, []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}})
	}
	without := func(tree map[string]any, name string) map[string]any {
		tree = maps.Clone(tree)
		delete(tree, name)
		return tree
	}
	if says(tree["anyOf"]) {
		return without(tree, "anyOf")
	}
	all, _ := tree["allOf"].([]any)
	if len(all) == 0 {
		return tree
	}
	if first, ok := all[0].(map[string]any); ok && says(first["anyOf"]) {
		tree, all = maps.Clone(tree), slices.Clone(all)
		all[0] = without(first, "anyOf")
		tree["allOf"] = all
	}
	return tree
}

// eachBranch visits the conditions of a node and sets the path for each.
func (r *treeReader) eachBranch(s *Schema, visit func(*Schema)) {
	at := func(branch *Schema, steps ...json.Step) {
		r.path = append(r.path, steps...)
		visit(branch)
		r.path = r.path[:len(r.path)-len(steps)]
	}
	for _, list := range []struct {
		keyword  string
		branches []*Schema
	}{{"allOf", s.AllOf}, {"anyOf", s.AnyOf}, {"oneOf", s.OneOf}} {
		for i, branch := range list.branches {
			at(branch, json.Name(list.keyword), json.Item(i))
		}
	}
	if s.Not != nil {
		at(s.Not, json.Name("not"))
	}
}

// checkNames ensures that a condition only refers to fields of the structure.
func (r *treeReader) checkNames(structure, condition *Schema) {
	if condition.Items != nil {
		r.path = append(r.path, json.Name("items"))
		if structure.Items == nil {
			r.fail(meta.CauseFieldValueForbidden, nil, "the structure does not describe items here")
		} else {
			r.checkNames(structure.Items, condition.Items)
		}
		r.path = r.path[:len(r.path)-1]
	}
	for _, p := range condition.Properties {
		r.path = append(r.path, json.Name("properties"), json.Name(p.Name))
		if field, ok := r.fieldsOf(structure)[p.Name]; ok {
			r.checkNames(field, p.Schema)
		} else {
			r.fail(meta.CauseFieldValueForbidden, nil, "the structure does not have this field")
		}
		r.path = r.path[:len(r.path)-2]
	}
	r.eachBranch(condition, func(branch *Schema) { r.checkNames(structure, branch) })
}

// fieldsOf returns the fields of a node by name. It caches the result, since many conditions may
// refer to the same node.
func (r *treeReader) fieldsOf(s *Schema) map[string]*Schema {
	fields, done := r.fields[s]
	if !done {
		fields = make(map[string]*Schema, len(s.Properties))
		for _, p := range s.Properties {
			fields[p.Name] = p.Schema
		}
		if r.fields == nil {
			r.fields = map[*Schema]map[string]*Schema{}
		}
		r.fields[s] = fields
	}
	return fields
}

// restrictNames keeps the root's conditions on object names. A schema cannot restrict any other
// metadata.
func (r *treeReader) restrictNames(s *Schema) {
	given, ok := s.Property("metadata")
	if !ok {
		return
	}
	r.path = append(r.path, json.Name("properties"), json.Name("metadata"))
	defer func() { r.path = r.path[:0] }()
	if given.Type != Object {
		r.failAt(json.Name("type"), meta.CauseFieldValueInvalid, string(given.Type), "must be object")
	}
	rules := *ObjectMeta()
	rules.Properties, rules.ready, rules.base = slices.Clone(rules.Properties), nil, ObjectMeta()
	for _, p := range given.Properties {
		i := slices.IndexFunc(rules.Properties, func(own Property) bool { return own.Name == p.Name })
		if p.Name != "name" && p.Name != "generateName" {
			r.failAt(json.Name("properties"), meta.CauseFieldValueForbidden, nil, "metadata is the same for every kind; only name and generateName may be restricted")
			return
		}
		if p.Schema.Type != String {
			r.failAt(json.Name("properties"), meta.CauseFieldValueInvalid, p.Name, "must be of type string")
			return
		}
		rules.Properties[i].Schema, r.metadata = p.Schema, &rules
	}
}

func (r *treeReader) properties(s *Schema, v any) {
	tree, ok := v.(map[string]any)
	if !ok {
		r.typeError("object", v)
		return
	}
	// Members of a JSON object are unordered, so sort them for reproducible results.
	for _, name := range sortedNames(tree) {
		r.path = append(r.path, json.Name(name))
		s.Properties = append(s.Properties, Property{name, r.schema(tree[name])})
		r.path = r.path[:len(r.path)-1]
	}
}

// additional reads additionalProperties. The value true allows any fields, which is the same as a
// schema that preserves unknown ones.
func (r *treeReader) additional(s *Schema, v any) {
	switch v := v.(type) {
	case bool:
		if v {
			s.AdditionalProperties = &Schema{PreserveUnknown: true}
		}
	default:
		s.AdditionalProperties = r.schema(v)
	}
}

func (r *treeReader) branches(v any) []*Schema {
	list := r.list(v)
	out := make([]*Schema, 0, min(len(list), maxBranches+1))
	for i, item := range list {
		if i > maxBranches {
			break // New rejects the schema
		}
		r.path = append(r.path, json.Item(i))
		out = append(out, r.branch(item))
		r.path = r.path[:len(r.path)-1]
	}
	return out
}

// rules stores validation expressions without compiling them. Package cel compiles them and reports
// their errors.
func (r *treeReader) rules(s *Schema, v any) {
	for i, item := range r.list(v) {
		r.path = append(r.path, json.Item(i))
		if tree, ok := item.(map[string]any); ok {
			get := func(name string) string {
				text, _ := tree[name].(string)
				return text
			}
			optional, _ := tree["optionalOldSelf"].(bool)
			s.Rules = append(s.Rules, Rule{get("rule"), get("message"), get("messageExpression"), get("reason"), get("fieldPath"), optional})
		} else {
			r.typeError("object", item)
		}
		r.path = r.path[:len(r.path)-1]
	}
}

func (r *treeReader) typeError(want string, v any) {
	name := typeName(v)
	r.fail(meta.CauseFieldValueTypeInvalid, name, r.body("must be of type %s: %q", want, name))
}

func (r *treeReader) text(v any) string {
	text, ok := v.(string)
	if !ok {
		r.typeError("string", v)
	}
	return text
}

func (r *treeReader) flag(v any) bool {
	flag, ok := v.(bool)
	if !ok {
		r.typeError("boolean", v)
	}
	return flag
}

func (r *treeReader) number(v any) any {
	switch v.(type) {
	case int64, float64:
		return v
	}
	r.typeError("number", v)
	return nil
}

func (r *treeReader) count(v any) *int64 {
	switch n := v.(type) {
	case int64:
		return &n
	case float64:
		if i, ok := integral(n); ok {
			return &i
		}
	}
	r.typeError("integer", v)
	return nil
}

func (r *treeReader) list(v any) []any {
	list, ok := v.([]any)
	if !ok {
		r.typeError("array", v)
	}
	return list
}

func (r *treeReader) texts(v any) []string {
	list := r.list(v)
	out := make([]string, 0, len(list))
	for i, item := range list {
		r.path = append(r.path, json.Item(i))
		out = append(out, r.text(item))
		r.path = r.path[:len(r.path)-1]
	}
	return out
}
