package openapi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// position says what is special about the place of a node.
type position struct {
	noDefaults string // why there must be no default
	insideMeta bool   // in metadata, apiVersion or kind of an object
}

// document checks the keywords of a node, and of those below it.
func (r *treeRules) document(n *node, p position, root bool) {
	r.keywords(n, p)
	if n.tree["uniqueItems"] == true {
		r.forbidden("uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic")
	}
	// Properties are for structs, additionalProperties are for maps.
	if len(n.properties) > 0 && n.given("additionalProperties") && n.tree["additionalProperties"] != true {
		r.forbidden("additionalProperties", "additionalProperties and properties are mutual exclusive")
	}
	if n.additional != nil {
		below := p
		if p.insideMeta {
			below.noDefaults = "inside additionalProperties applying to object metadata"
		}
		r.in(func() { r.document(n.additional, below, false) }, json.Name("additionalProperties"))
	}
	for _, f := range n.properties {
		below := p
		if (root || n.schema.EmbeddedObject) && isObjectField(f.name) {
			below.insideMeta = true
			if root {
				below.noDefaults = "in top-level " + f.name
			}
		}
		r.in(func() { r.document(f.node, below, false) }, json.Name("properties"), json.Key(f.name))
	}
	r.documentsBelow(n, p)
	r.mergeTypes(n)
	r.keys(n)
	r.expressions(n)
}

// isObjectField reports whether every object has a field of this name.
func isObjectField(name string) bool {
	return name == "apiVersion" || name == "kind" || name == "metadata"
}

// documentsBelow visits the nodes that are not properties.
func (r *treeRules) documentsBelow(n *node, p position) {
	for _, b := range n.branches() {
		for i, condition := range b.nodes {
			r.in(func() { r.document(condition, p, false) }, b.at(i)...)
		}
	}
	for _, k := range n.apart {
		for _, child := range k.nodes {
			r.in(func() { r.document(child.node, p, false) }, json.Name(k.keyword), json.Key(child.name))
		}
	}
	if n.items != nil {
		r.in(func() { r.document(n.items, p, false) }, json.Name("items"))
	}
	for i, item := range n.tuple {
		r.in(func() { r.document(item, p, false) }, json.Name("items"), json.Item(i))
	}
}

var documentTypes = []string{"array", "boolean", "integer", "number", "object", "string"}

// keywords checks what a node may have at all.
func (r *treeRules) keywords(n *node, p position) {
	if !validType(n.typ) && r.breaks(strangeTypes) {
		r.unsupported("type", n.typ, documentTypes...)
	}
	if p.noDefaults != "" && n.given("default") {
		r.forbidden("default", "must not be set "+p.noDefaults)
	}
	for _, keyword := range []string{"id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"} {
		given := n.given(keyword)
		switch members, _ := n.tree[keyword].(map[string]any); keyword {
		case "id":
			given = n.says(keyword)
		case "patternProperties", "definitions":
			given = len(members) > 0
		}
		if given {
			r.forbidden(keyword, keyword+" is not supported")
		}
	}
	if n.typ == "null" {
		r.forbidden("type", "type cannot be set to null, use nullable as an alternative")
	}
	if len(n.tuple) > 0 {
		r.forbidden("items", "items must be a schema object and not an array")
	}
	if p.insideMeta && n.schema.EmbeddedObject {
		r.forbidden("x-kubernetes-embedded-resource", "must not be used inside of resource meta")
	}
	if n.tree["x-kubernetes-preserve-unknown-fields"] == false {
		r.invalid("x-kubernetes-preserve-unknown-fields", false, "must be true or undefined")
	}
}

func validType(typ string) bool { return typ == "" || slices.Contains(documentTypes, typ) }

func (r *treeRules) unsupported(keyword, value string, supported ...string) {
	if r.isFull() {
		r.more++ // a message takes more memory than the node that it is about
		return
	}
	quoted := make([]string, len(supported))
	for i, text := range supported {
		quoted[i] = strconv.Quote(text)
	}
	r.problem(keyword, meta.CauseFieldValueNotSupported, value, "supported values: "+strings.Join(quoted, ", "))
}

// mergeTypes checks how lists and maps merge. Server-side apply relies on it: an item without
// identity could be neither merged nor owned.
func (r *treeRules) mergeTypes(n *node) {
	s := n.schema
	if n.given("x-kubernetes-map-type") {
		r.typeFor(n, "object", "x-kubernetes-map-type")
		if s.MapType != MapAtomic && s.MapType != MapGranular {
			r.unsupported("x-kubernetes-map-type", string(s.MapType), "atomic", "granular")
		}
	}
	listed := n.given("x-kubernetes-list-type")
	if listed && !r.typeFor(n, "array", "x-kubernetes-list-type") {
		if keyword := n.deepSet(); keyword != "" && r.breaks(deepSets) {
			var value any
			if n.items.given("x-kubernetes-list-type") {
				value = n.items.text("x-kubernetes-list-type")
			}
			r.in(func() { r.invalid(keyword, value, "must be atomic as item of a list with x-kubernetes-list-type=set") }, json.Name("items"))
		}
	}
	if listed && s.ListType != ListAtomic && s.ListType != ListSet && s.ListType != ListMap {
		r.unsupported("x-kubernetes-list-type", string(s.ListType), "atomic", "set", "map")
	}
	if len(s.ListMapKeys) > 0 && !listed {
		r.required("x-kubernetes-list-type", "must be map if x-kubernetes-list-map-keys is non-empty")
	} else if len(s.ListMapKeys) > 0 && s.ListType != ListMap {
		r.invalid("x-kubernetes-list-type", string(s.ListType), "must be map if x-kubernetes-list-map-keys is non-empty")
	}
	if s.ListType == ListMap {
		r.keyedList(n)
	}
}

// typeFor reports a node that has a keyword for values of another type.
func (r *treeRules) typeFor(n *node, typ, keyword string) (bad bool) {
	detail := fmt.Sprintf("must be %s if %s is specified", typ, keyword)
	switch n.typ {
	case typ:
		return false
	case "":
		r.required("type", detail)
	default:
		r.invalid("type", n.typ, detail)
	}
	return true
}

// deepSet returns the keyword that makes items of a set merge in parts, or "". A set identifies an
// item by its complete value.
func (n *node) deepSet() string {
	if n.schema.ListType != ListSet || n.items == nil {
		return ""
	}
	switch item := n.items; {
	case item.typ == "array" && item.given("x-kubernetes-list-type") && item.schema.ListType != ListAtomic:
		return "x-kubernetes-list-type"
	case item.typ == "object" && item.schema.MapType != MapAtomic:
		return "x-kubernetes-map-type"
	}
	return ""
}

// keyedList checks that the keys of a list are fields of its items that can be compared.
func (r *treeRules) keyedList(n *node) {
	if len(n.schema.ListMapKeys) == 0 {
		r.required("x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")
	}
	switch {
	case len(n.tuple) > 0:
		r.invalid("items", shown(n.tree["items"]), "must only have a single schema if x-kubernetes-list-type is map")
		return
	case n.items == nil:
		r.required("items", "must have a schema if x-kubernetes-list-type is map")
		return
	case n.items.typ != "object":
		r.in(func() {
			r.invalid("type", n.items.typ, "must be object if parent array's x-kubernetes-list-type is map")
		}, json.Name("items"))
		return
	}
	const keyword = "x-kubernetes-list-map-keys"
	if len(n.schema.ListMapKeys) > maxKeys {
		r.forbidden(keyword, fmt.Sprintf("must have at most %d keys", maxKeys))
		return
	}
	seen := make(map[string]bool, len(n.schema.ListMapKeys))
	for _, name := range n.schema.ListMapKeys {
		if key := n.items.property(name); key == nil {
			r.invalid(keyword, n.tree[keyword], "entries must all be names of item properties")
		} else if key.typ == "array" || key.typ == "object" {
			r.in(func() {
				r.invalid("type", n.items.typ, "must be a scalar type if parent array's x-kubernetes-list-type is map")
			}, json.Name("items"), json.Name("properties"), json.Key(name))
		}
		if seen[name] {
			r.invalid(keyword, n.tree[keyword], "must not contain duplicate entries")
		}
		seen[name] = true
	}
}

// keys checks that every item of a set or a keyed list has an identity.
func (r *treeRules) keys(n *node) {
	list := n.schema.ListType
	if n.items == nil || list != ListSet && list != ListMap {
		return
	}
	if n.items.schema.Nullable && r.breaks(looseKeys) {
		r.in(func() { r.forbidden("nullable", "cannot be nullable when x-kubernetes-list-type is "+string(list)) }, json.Name("items"))
	}
	if list != ListMap {
		return
	}
	required := make(map[string]bool, len(n.items.schema.Required))
	for _, name := range n.items.schema.Required {
		required[name] = true
	}
	for _, name := range n.schema.ListMapKeys {
		key := n.items.property(name)
		if key == nil {
			continue
		}
		r.in(func() {
			if !required[name] && !key.given("default") && r.breaks(looseKeys) {
				r.required("default", "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property")
			}
			if key.schema.Nullable && r.breaks(looseKeys) {
				r.forbidden("nullable", "this property is in x-kubernetes-list-map-keys, so it cannot be nullable")
			}
		}, json.Name("items"), json.Name("properties"), json.Key(name))
	}
}

var ruleReasons = []string{"FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"}

// expressions checks the validation rules of a node, except for the expressions themselves.
func (r *treeRules) expressions(n *node) {
	for i, rule := range n.schema.Rules {
		r.in(func() { r.expression(n, i, rule) }, json.Name("x-kubernetes-validations"), json.Item(i))
	}
}

func (r *treeRules) expression(n *node, i int, rule Rule) {
	text, message := strings.TrimSpace(rule.Rule), strings.TrimSpace(rule.Message)
	switch {
	case text == "":
		r.required("rule", "rule is not specified")
	case rule.Message != "" && message == "":
		r.invalid("message", rule.Message, "must be non-empty if specified")
	case hasLineBreak(message):
		r.invalid("message", rule.Message, "must not contain line breaks")
	case hasLineBreak(text) && message == "":
		r.required("message", "message must be specified if rule contains line breaks")
	}
	if rule.MessageExpression != "" && strings.TrimSpace(rule.MessageExpression) == "" {
		r.required("messageExpression", "messageExpression must be non-empty if specified")
	}
	list, _ := n.tree["x-kubernetes-validations"].([]any)
	if given, _ := list[i].(map[string]any); given["reason"] != nil && !slices.Contains(ruleReasons, rule.Reason) {
		r.unsupported("reason", rule.Reason, ruleReasons...)
	}
	if rule.FieldPath == "" {
		return
	}
	if strings.TrimSpace(rule.FieldPath) == "" {
		r.invalid("fieldPath", rule.FieldPath, "must be non-empty if specified")
	}
	if hasLineBreak(rule.FieldPath) {
		r.invalid("fieldPath", rule.FieldPath, "must not contain line breaks")
	}
	if n.unsupported == "" && !n.leads(rule.FieldPath) {
		r.invalid("fieldPath", rule.FieldPath, "must be a valid path")
	}
}

func hasLineBreak(text string) bool { return strings.ContainsAny(text, "\n\r") }

// leads reports whether a path such as .spec['a.b'].c leads to a node below this one.
func (n *node) leads(path string) bool {
	for path != "" && n != nil {
		var name string
		switch path[0] {
		case '.':
			end := strings.IndexAny(path[1:], ".[]")
			if end == 0 || path[1:] == "" {
				return false
			}
			if end < 0 {
				end = len(path) - 1
			}
			name, path = path[1:1+end], path[1+end:]
		case '[':
			end := quotedEnd(path[1:])
			if end < 0 || !strings.HasPrefix(path[1+end:], "]") {
				return false
			}
			var ok bool
			if name, ok = unescape(path[2:end]); !ok {
				return false
			}
			path = path[end+2:]
		default:
			return false
		}
		if len(n.properties) > 0 {
			n = n.property(name)
		} else if n.given("additionalProperties") {
			n = n.additional
			if n == nil && path == "" {
				return true // any value
			}
		} else {
			return false
		}
	}
	return n != nil
}

// quotedEnd returns the length of the text in single quotes that s begins with, or -1.
func quotedEnd(s string) int {
	if s == "" || s[0] != '\'' {
		return -1
	}
	for i := 1; i < len(s); i++ {
		if s[i] == '\'' && s[i-1] != '\\' {
			return i + 1
		}
	}
	return -1
}

// unescape returns a text without its escapes.
func unescape(s string) (string, bool) {
	if !strings.Contains(s, `\`) {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\\' && i+1 < len(s) {
			i++
			at := strings.IndexByte(`abfnrtv'\`, s[i])
			if at < 0 {
				return "", false
			}
			c = "\a\b\f\n\r\t\v'\\"[at]
		}
		b.WriteByte(c)
	}
	return b.String(), true
}
