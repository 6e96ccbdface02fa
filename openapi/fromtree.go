package openapi

import (
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// FromTree reads the structural schema of an object kind as custom resource definitions write it (openAPIV3Schema). The
// metadata field gets [ObjectMeta], and apiVersion and kind are added if missing.
//
// Every problem is reported, with its place in the schema, such as "properties.spec.properties.size.pattern". What
// structural schemas must not use ($ref, definitions, patternProperties …) is forbidden; extensions that are not known
// are ignored. Schemas beyond 100,000 nodes, 100 levels or 1,000 branches, and patterns that would be costly to match,
// are refused before they cost anything (security vector C5).
func FromTree(tree map[string]any) (*Schema, []status.FieldError) {
	r := treeReader{}
	s := r.schema(tree)
	if len(r.errs) > 0 {
		return nil, r.errs
	}
	asObject(s)
	built, err := New(s)
	if err, bad := err.(*Error); bad {
		return nil, err.Problems
	}
	return built, nil
}

// asObject gives an object the fields that every object has.
func asObject(s *Schema) {
	own := func(p Property) bool { return p.Name == "apiVersion" || p.Name == "kind" || p.Name == "metadata" }
	s.Properties = slices.Concat(typeMeta(), []Property{{"metadata", ObjectMeta()}}, slices.DeleteFunc(s.Properties, own))
	s.Required = slices.DeleteFunc(s.Required, func(name string) bool { return own(Property{Name: name}) })
}

// treeReader reads a schema document.
type treeReader struct {
	walk
	nodes int
	loose int // inside allOf, anyOf, oneOf or not, which add conditions and no fields
}

// keyword reads the value of one keyword into a schema.
type keyword func(r *treeReader, s *Schema, v any)

// schema reads one node.
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
	for _, name := range sortedNames(tree) {
		r.path = append(r.path, json.Name(name))
		r.keyword(s, name, tree[name])
		r.path = r.path[:len(r.path)-1]
	}
	if r.loose == 0 {
		r.checkStructure(s, tree)
	}
	return s
}

// branch reads a node that is a condition.
func (r *treeReader) branch(v any) *Schema {
	r.loose++
	defer func() { r.loose-- }()
	return r.schema(v)
}

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
			r.fail(meta.CauseFieldValueForbidden, nil, "structural schemas do not use this keyword")
		}
	}
}

var ignoredKeywords = []string{"title", "example", "externalDocs"}

// plainKeywords hold values, not schemas.
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
			r.fail(meta.CauseFieldValueForbidden, nil, "would cost the square of the list; use x-kubernetes-list-type: set")
		}
	},
	"x-kubernetes-preserve-unknown-fields": func(r *treeReader, s *Schema, v any) { s.PreserveUnknown = r.flag(v) },
	"x-kubernetes-embedded-resource":       func(r *treeReader, s *Schema, v any) { s.EmbeddedObject = r.flag(v) },
	"x-kubernetes-int-or-string":           func(r *treeReader, s *Schema, v any) { s.IntOrString = r.flag(v) },
	"x-kubernetes-list-type":               func(r *treeReader, s *Schema, v any) { s.ListType = ListType(r.text(v)) },
	"x-kubernetes-list-map-keys":           func(r *treeReader, s *Schema, v any) { s.ListMapKeys = r.texts(v) },
	"x-kubernetes-map-type":                func(r *treeReader, s *Schema, v any) { s.MapType = MapType(r.text(v)) },
	"x-kubernetes-patch-strategy":          func(r *treeReader, s *Schema, v any) { s.PatchStrategy = r.text(v) },
	"x-kubernetes-patch-merge-key":         func(r *treeReader, s *Schema, v any) { s.PatchMergeKey = r.text(v) },
}

// checkStructure holds a node to what makes a schema structural: it alone says which fields there are.
func (r *treeReader) checkStructure(s *Schema, tree map[string]any) {
	root := len(r.path) == 0
	switch {
	case root && s.Type != Object:
		r.failAt(json.Name("type"), meta.CauseFieldValueInvalid, string(s.Type), "must be object at the root")
	case s.Type == "" && !s.IntOrString && !s.PreserveUnknown:
		r.failAt(json.Name("type"), meta.CauseFieldValueRequired, nil, "must not be empty for a node of the structure")
	case s.Type != "" && s.IntOrString:
		r.failAt(json.Name("type"), meta.CauseFieldValueForbidden, nil, "x-kubernetes-int-or-string says it already")
	case s.EmbeddedObject && s.Type != Object:
		r.failAt(json.Name("x-kubernetes-embedded-resource"), meta.CauseFieldValueInvalid, true, "is for objects")
	case s.Type == Array && s.Items == nil:
		r.failAt(json.Name("items"), meta.CauseFieldValueRequired, nil, "the items of a list need a schema")
	}
	_, properties := tree["properties"]
	if s.AdditionalProperties != nil && properties {
		r.failAt(json.Name("additionalProperties"), meta.CauseFieldValueForbidden, nil, "excludes properties")
	}
	if s.EmbeddedObject {
		asObject(s)
	}
}

func (r *treeReader) properties(s *Schema, v any) {
	tree, ok := v.(map[string]any)
	if !ok {
		r.typeError("object", v)
		return
	}
	// Documents have no order of their own.
	for _, name := range sortedNames(tree) {
		r.path = append(r.path, json.Name(name))
		s.Properties = append(s.Properties, Property{name, r.schema(tree[name])})
		r.path = r.path[:len(r.path)-1]
	}
}

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
			break // New refuses it
		}
		r.path = append(r.path, json.Item(i))
		out = append(out, r.branch(item))
		r.path = r.path[:len(r.path)-1]
	}
	return out
}

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
