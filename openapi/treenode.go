package openapi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// node is one schema of a document: its keywords as they are written, the schemas inside it, and the
// Schema that they make.
type node struct {
	tree   map[string]any
	typ    string // the keyword type; the type of an int-or-string has no effect on its Schema
	schema *Schema

	properties          []namedNode // sorted by name
	additional          *node
	items               *node
	tuple               []*node // items, if it is a list
	allOf, anyOf, oneOf []*node
	not                 *node
	apart               []keywordNodes // below keywords that no schema may have

	// unsupported says why the node, or one in it, does not have the form of a structural schema.
	unsupported string
}

type namedNode struct {
	name string
	*node
}

// keywordNodes are the schemas below definitions or dependencies.
type keywordNodes struct {
	keyword string
	nodes   []namedNode
}

// given reports whether a keyword is present. Null is the same as absent.
func (n *node) given(keyword string) bool { return n.tree[keyword] != nil }

// says reports whether a keyword is present with a value other than false and the empty text and
// list, which mean the same as no keyword.
func (n *node) says(keyword string) bool {
	switch v := n.tree[keyword].(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	}
	return true
}

func (n *node) text(keyword string) string {
	text, _ := n.tree[keyword].(string)
	return text
}

// property returns the node of a property, or nil.
func (n *node) property(name string) *node {
	if i, ok := slices.BinarySearchFunc(n.properties, name, func(p namedNode, name string) int { return strings.Compare(p.name, name) }); ok {
		return n.properties[i].node
	}
	return nil
}

// branch is a list of conditions, with its keyword.
type branch struct {
	keyword string
	nodes   []*node
}

func (n *node) branches() []branch {
	if n.allOf == nil && n.anyOf == nil && n.oneOf == nil && n.not == nil {
		return nil
	}
	out := []branch{{"allOf", n.allOf}, {"anyOf", n.anyOf}, {"oneOf", n.oneOf}}
	if n.not != nil {
		out = append(out, branch{"not", []*node{n.not}})
	}
	return out
}

// at returns the steps from the node with the branch to one of its conditions.
func (b branch) at(i int) []json.Step {
	if b.keyword == "not" {
		return []json.Step{json.Name("not")}
	}
	return []json.Step{json.Name(b.keyword), json.Item(i)}
}

// each visits a node and all nodes in it. It stops when visit returns false.
func (n *node) each(visit func(*node) bool) bool {
	if n == nil {
		return true
	}
	if !visit(n) || !n.items.each(visit) {
		return false
	}
	lists := [][]*node{n.tuple, n.allOf, n.anyOf, n.oneOf, {n.not}}
	for _, list := range lists {
		for _, child := range list {
			if !child.each(visit) {
				return false
			}
		}
	}
	for _, p := range n.properties {
		if !p.each(visit) {
			return false
		}
	}
	if !n.additional.each(visit) {
		return false
	}
	for _, k := range n.apart {
		for _, child := range k.nodes {
			if !child.each(visit) {
				return false
			}
		}
	}
	return true
}

// isTypes reports whether conditions are the two that say integer or string and nothing else. They
// are the only ones that may have types: generators write them beside x-kubernetes-int-or-string.
func isTypes(conditions []*node) bool {
	return len(conditions) == 2 && onlyType(conditions[0], "integer") && onlyType(conditions[1], "string")
}

func onlyType(n *node, typ string) bool {
	for keyword := range n.tree {
		if keyword != "type" && n.states(keyword) {
			return false
		}
	}
	return n.typ == typ
}

// statedEmpty are the keywords that say something even if their value is false or empty.
var statedEmpty = []string{
	"required", "additionalProperties", "default", "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type",
	"x-kubernetes-validations",
}

// states reports whether a keyword makes a difference to a schema that is otherwise empty.
func (n *node) states(keyword string) bool {
	if !isKeyword(keyword) {
		return false
	}
	if slices.Contains(statedEmpty, keyword) {
		return n.given(keyword)
	}
	if properties, ok := n.tree[keyword].(map[string]any); ok && keyword == "properties" {
		return len(properties) > 0
	}
	return n.says(keyword)
}

// isKeyword reports whether documents can have a keyword. Others are ignored.
func isKeyword(name string) bool {
	_, plain := plainKeywords[name]
	return plain || slices.Contains(schemaKeywords, name) || slices.Contains(textKeywords, name)
}

// schemaKeywords hold schemas, or are handled with them.
var schemaKeywords = []string{
	"type", "properties", "additionalProperties", "items", "not", "allOf", "anyOf", "oneOf", "x-kubernetes-validations",
	"patternProperties", "additionalItems", "definitions", "dependencies",
}

// textKeywords have no effect on values. They are known, but not part of a Schema.
var textKeywords = []string{"title", "example", "externalDocs", "id", "$schema", "$ref"}

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
	"uniqueItems":      func(r *treeReader, _ *Schema, v any) { r.flag(v) },

	"x-kubernetes-preserve-unknown-fields": func(r *treeReader, s *Schema, v any) { s.PreserveUnknown = r.flag(v) },

	"x-kubernetes-embedded-resource": func(r *treeReader, s *Schema, v any) { s.EmbeddedObject = r.flag(v) },
	"x-kubernetes-int-or-string":     func(r *treeReader, s *Schema, v any) { s.IntOrString = r.flag(v) },
	"x-kubernetes-list-type":         func(r *treeReader, s *Schema, v any) { s.ListType = ListType(r.text(v)) },
	"x-kubernetes-list-map-keys":     func(r *treeReader, s *Schema, v any) { s.ListMapKeys = r.texts(v) },
	"x-kubernetes-map-type":          func(r *treeReader, s *Schema, v any) { s.MapType = MapType(r.text(v)) },
	"x-kubernetes-patch-strategy":    func(r *treeReader, s *Schema, v any) { s.PatchStrategy = r.text(v) },
	"x-kubernetes-patch-merge-key":   func(r *treeReader, s *Schema, v any) { s.PatchMergeKey = r.text(v) },
}

// treeReader reads a schema document into nodes. It reports values that have the wrong form for
// their keyword, all of them instead of only the first.
type treeReader struct {
	walk
	nodes  int
	listed int              // in allOf, anyOf and oneOf, but for those that say integer or string
	leaves map[scalar]*node // nodes that say nothing else; they are shared
}

// scalar is a schema with nothing but a type without parts, and maybe a format; or with nothing at all; or
// that of a list of such values.
type scalar struct {
	typ, format string
	list        bool
}

// nodes returns how many nodes a document has for it.
func (s scalar) nodes() int {
	if s.list {
		return 2
	}
	return 1
}

// scalarOf returns what a schema says if it is a scalar. Most nodes of large documents are, and differ in
// nothing but their place.
func scalarOf(tree map[string]any) (scalar, bool) {
	if tree != nil && len(tree) == 0 {
		return scalar{}, true
	}
	typ, _ := tree["type"].(string)
	if items, ok := tree["items"].(map[string]any); ok && len(tree) == 2 && Type(typ) == Array {
		s, ok := scalarOf(items)
		if s.list {
			return scalar{}, false
		}
		s.list = true
		return s, ok
	}
	format, formatted := tree["format"].(string)
	if len(tree) != 1 && (len(tree) != 2 || !formatted) || len(format) > maxSharedFormat {
		return scalar{}, false
	}
	switch Type(typ) {
	case Object, Array, "":
		return scalar{}, false // these have parts, or come with a keyword that is none of a scalar
	}
	return scalar{typ: typ, format: format}, len(typ) <= maxSharedFormat // also a type that there is not
}

// maxSharedFormat bounds the names of formats and types by which nodes are shared.
const maxSharedFormat = 64

// maxStrange is how many schemas are read of those that no schema may have, such as the items of a list of items. One
// is reason enough to refuse the document.
const maxStrange = 20

// keyword reads the value of one keyword into a schema.
type keyword func(r *treeReader, s *Schema, v any)

// node reads one schema. It returns a node even after problems, so that the rest of the document is
// checked as well.
func (r *treeReader) node(v any) *node {
	tree, ok := v.(map[string]any)
	leaf, isLeaf := scalarOf(tree)
	if shared := r.leaves[leaf]; isLeaf && shared != nil && r.nodes+leaf.nodes() <= maxSchemaNodes && len(r.path) < 2*maxSchemaDepth {
		r.nodes += leaf.nodes()
		return shared
	}
	n := &node{schema: &Schema{}}
	if !ok {
		if v != nil { // null is an empty schema
			r.typeError("object", v)
		}
		return n
	}
	if r.nodes++; r.nodes > maxSchemaNodes {
		if r.nodes == maxSchemaNodes+1 {
			r.fail(meta.CauseFieldValueForbidden, nil, fmt.Sprintf("the schema has more than %d nodes", maxSchemaNodes))
		}
		return n
	}
	if len(r.path) > 2*maxSchemaDepth {
		r.fail(meta.CauseFieldValueForbidden, nil, fmt.Sprintf("the schema is more than %d levels deep", maxSchemaDepth))
		return n
	}
	n.tree = tree
	for _, name := range sortedNames(tree) {
		if tree[name] == nil {
			continue
		}
		r.path = append(r.path, json.Name(name))
		r.keyword(n, name, tree[name])
		r.path = r.path[:len(r.path)-1]
	}
	n.finish()
	if isLeaf {
		if r.leaves == nil {
			r.leaves = map[scalar]*node{}
		}
		r.leaves[leaf] = n
	}
	return n
}

// keyword reads one keyword of a node. Unknown keywords have no effect: kube-apiserver drops them
// before it reads a definition.
func (r *treeReader) keyword(n *node, name string, v any) {
	s := n.schema
	switch name {
	case "properties":
		n.properties = r.named(v)
		s.Properties = make([]Property, 0, len(n.properties))
		for _, p := range n.properties {
			s.Properties = append(s.Properties, Property{p.name, p.schema})
		}
	case "additionalProperties":
		r.additional(n, v)
	case "items":
		r.items(n, v)
	case "not":
		n.not = r.node(v)
		s.Not = n.not.schema
	case "allOf":
		n.allOf, s.AllOf = r.branches(v)
	case "anyOf":
		if n.anyOf, s.AnyOf = r.branches(v); isTypes(n.anyOf) {
			r.listed -= len(n.anyOf)
		}
	case "oneOf":
		n.oneOf, s.OneOf = r.branches(v)
	case "definitions":
		n.apart = append(n.apart, keywordNodes{name, r.named(firstMembers(v))})
	case "dependencies":
		n.apart = append(n.apart, keywordNodes{name, r.dependencies(v)})
	case "x-kubernetes-validations":
		r.rules(s, v)
	case "type":
		n.typ = r.text(v)
	case "id", "$schema", "$ref", "title":
		r.text(v)
	default:
		if read, known := plainKeywords[name]; known {
			read(r, s, v)
		}
	}
}

// finish completes a node after its keywords have been read.
func (n *node) finish() {
	s := n.schema
	if !s.IntOrString {
		s.Type = Type(n.typ)
	} else if isTypes(n.anyOf) {
		s.AnyOf = nil // redundant
	} else if len(n.allOf) > 0 && isTypes(n.allOf[0].anyOf) {
		s.AllOf[0].AnyOf = nil
	}
	n.unsupported = n.reason()
	n.note()
}

// reason says what keeps the node, or one in it, from the form of a structural schema.
func (n *node) reason() string {
	for _, k := range []struct{ keyword, name string }{
		{"id", "id"},
		{"$schema", "schema"},
		{"$ref", "$ref"},
		{"patternProperties", "patternProperties"},
		{"dependencies", "dependencies"},
		{"definitions", "definitions"},
	} {
		if members, ok := n.tree[k.keyword].(map[string]any); n.says(k.keyword) && (!ok || len(members) > 0) {
			return fmt.Sprintf("OpenAPIV3Schema '%s' is not supported", k.name)
		}
	}
	switch {
	case n.given("additionalItems"):
		return "OpenAPIV3Schema 'additionalItems' is not supported"
	case len(n.tuple) > 0:
		return "OpenAPIV3Schema 'items' must be a schema, but is an array"
	case n.tree["x-kubernetes-preserve-unknown-fields"] == false:
		return "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
	}
	for _, b := range n.branches() {
		for _, child := range b.nodes {
			if child.unsupported != "" {
				return child.unsupported
			}
		}
	}
	for _, child := range []*node{n.items, n.additional} {
		if child != nil && child.unsupported != "" {
			return child.unsupported
		}
	}
	for _, p := range n.properties {
		if p.unsupported != "" {
			return p.unsupported
		}
	}
	return ""
}

// named reads schemas by name. Members of a JSON object are unordered, so they are sorted for
// reproducible results.
func (r *treeReader) named(v any) []namedNode {
	tree, ok := v.(map[string]any)
	if !ok {
		r.typeError("object", v)
		return nil
	}
	out := make([]namedNode, 0, len(tree))
	for _, name := range sortedNames(tree) {
		r.path = append(r.path, json.Key(name))
		out = append(out, namedNode{name, r.node(tree[name])})
		r.path = r.path[:len(r.path)-1]
	}
	return out
}

// dependencies reads the schemas among the dependencies; others are lists of names.
func (r *treeReader) dependencies(v any) []namedNode {
	tree, ok := v.(map[string]any)
	if !ok {
		r.typeError("object", v)
		return nil
	}
	schemas := map[string]any{}
	for name, dependency := range tree {
		if _, ok := dependency.(map[string]any); ok {
			schemas[name] = dependency
		}
	}
	return r.named(firstMembers(schemas))
}

// firstMembers returns an object with the first members of another, by their names. Other values stay as they are.
func firstMembers(v any) any {
	object, ok := v.(map[string]any)
	if !ok || len(object) <= maxStrange {
		return v
	}
	out := make(map[string]any, maxStrange)
	for _, name := range sortedNames(object)[:maxStrange] {
		out[name] = object[name]
	}
	return out
}

// additional reads additionalProperties. The value true allows any fields, but the fields in their
// values are unknown.
func (r *treeReader) additional(n *node, v any) {
	allowed, isFlag := v.(bool)
	switch {
	case !isFlag:
		n.additional = r.node(v)
		n.schema.AdditionalProperties = n.additional.schema
	case allowed:
		n.schema.AdditionalProperties = &Schema{Nullable: true, fromDocument: true}
	}
}

func (r *treeReader) items(n *node, v any) {
	if list, ok := v.([]any); ok {
		for i, item := range list[:min(len(list), maxStrange)] {
			r.path = append(r.path, json.Item(i))
			n.tuple = append(n.tuple, r.node(item))
			r.path = r.path[:len(r.path)-1]
		}
		return
	}
	n.items = r.node(v)
	n.schema.Items = n.items.schema
}

func (r *treeReader) branches(v any) (nodes []*node, schemas []*Schema) {
	for i, item := range r.list(v) {
		if r.listed++; r.listed > maxBranches+1 {
			break // New rejects the schema
		}
		r.path = append(r.path, json.Item(i))
		n := r.node(item)
		nodes, schemas = append(nodes, n), append(schemas, n.schema)
		r.path = r.path[:len(r.path)-1]
	}
	return nodes, schemas
}

// rules stores validation expressions without compiling them. Package cel compiles them and reports
// their errors.
func (r *treeReader) rules(s *Schema, v any) {
	list := r.list(v)
	s.Rules = slices.Grow(s.Rules, len(list))
	for i, item := range list {
		r.path = append(r.path, json.Item(i))
		tree, ok := item.(map[string]any)
		if !ok {
			r.typeError("object", item)
		}
		get := func(name string) string {
			if tree[name] == nil {
				return ""
			}
			r.path = append(r.path, json.Name(name))
			defer func() { r.path = r.path[:len(r.path)-1] }()
			return r.text(tree[name])
		}
		optional, said := tree["optionalOldSelf"].(bool)
		s.Rules = append(s.Rules, Rule{get("rule"), get("message"), get("messageExpression"), get("reason"), get("fieldPath"), optional, said && !optional})
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
