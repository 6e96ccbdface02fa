package openapi

import (
	"errors"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// level says what a node describes.
type level int

const (
	rootLevel level = iota
	itemLevel
	fieldLevel
)

// treeRules judges the nodes of a document as kube-apiserver does.
//
// Source: CRD-07.
type treeRules struct {
	walk
	TreeReader
	from   []json.Step // see complete
	broken Breach      // the rules that the document breaks
	costs  costs

	badDefaults bool // some of the problems are those of defaults
}

// in calls f with the path extended by some steps.
func (r *treeRules) in(f func(), steps ...json.Step) {
	depth := len(r.path)
	r.path = append(r.path, steps...)
	f()
	r.path = r.path[:depth]
}

func (r *treeRules) problem(keyword string, t meta.CauseType, value any, detail string) {
	r.failAt(json.Name(keyword), t, value, detail)
}

func (r *treeRules) required(keyword, detail string) {
	r.problem(keyword, meta.CauseFieldValueRequired, nil, detail)
}

func (r *treeRules) forbidden(keyword, detail string) {
	r.problem(keyword, meta.CauseFieldValueForbidden, nil, detail)
}

func (r *treeRules) invalid(keyword string, value any, detail string) {
	r.problem(keyword, meta.CauseFieldValueInvalid, value, detail)
}

// structural reports what keeps a document from being a structural schema, sorted by text. In a
// structural schema the structure alone determines which fields exist and which types they have.
// Pruning and defaulting would otherwise depend on which branch of a condition applies.
func (r *treeRules) structural(root *node) {
	start := len(r.errs)
	r.structure(root, rootLevel)
	r.completeBranches(root, root)
	slices.SortStableFunc(r.errs[start:], func(a, b status.FieldError) int { return strings.Compare(a.String(), b.String()) })
}

// structure checks a node of the structure, and those below it.
func (r *treeRules) structure(n *node, lvl level) {
	if n.typ == "array" && n.items == nil {
		r.required("items", "must be specified")
	}
	if n.items != nil {
		r.in(func() { r.structure(n.items, itemLevel) }, json.Name("items"))
	}
	for _, p := range n.properties {
		r.in(func() { r.structure(p.node, fieldLevel) }, json.Name("properties"), json.Key(p.name))
	}
	if n.given("additionalProperties") && lvl == rootLevel {
		r.forbidden("additionalProperties", "must not be used at the root")
	}
	if n.additional != nil {
		r.in(func() { r.structure(n.additional, fieldLevel) }, json.Name("additionalProperties"))
	}
	s := n.schema
	if s.IntOrString && s.PreserveUnknown {
		r.invalid("x-kubernetes-preserve-unknown-fields", true, "must be false if x-kubernetes-int-or-string is true")
	}
	if s.IntOrString && s.EmbeddedObject {
		r.invalid("x-kubernetes-embedded-resource", true, "must be false if x-kubernetes-int-or-string is true")
	}
	r.values(n, isTypes(n.anyOf), len(n.allOf) > 0 && isTypes(n.allOf[0].anyOf))
	r.types(n, lvl)
	r.object(n, lvl)
}

// types checks that the type of a node is set.
func (r *treeRules) types(n *node, lvl level) {
	s := n.schema
	switch {
	case s.EmbeddedObject && n.typ == "":
		r.required("type", "must be object if x-kubernetes-embedded-resource is true")
	case s.EmbeddedObject && n.typ != "object":
		r.invalid("type", n.typ, "must be object if x-kubernetes-embedded-resource is true")
	case n.typ == "" && !s.IntOrString && !s.PreserveUnknown:
		r.required("type", []string{
			"must not be empty at the root", "must not be empty for specified array items", "must not be empty for specified object fields",
		}[lvl])
	}
	if lvl == rootLevel && n.typ != "" && n.typ != "object" {
		r.invalid("type", n.typ, "must be object at the root")
	}
}

// object checks the root, and objects inside of others.
func (r *treeRules) object(n *node, lvl level) {
	embedded := n.schema.EmbeddedObject
	if embedded && n.given("additionalProperties") {
		r.forbidden("additionalProperties", "must not be used if x-kubernetes-embedded-resource is set")
	}
	if embedded && !n.schema.PreserveUnknown && len(n.properties) == 0 {
		r.required("properties", "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields")
	}
	if !embedded && lvl != rootLevel {
		return
	}
	for _, name := range []string{"kind", "apiVersion"} {
		if field := n.property(name); field != nil && field.typ != "string" {
			r.in(func() { r.invalid("type", field.typ, "must be string") }, json.Name("properties"), json.Key(name))
		}
	}
	metadata := n.property("metadata")
	if metadata == nil {
		return
	}
	r.in(func() {
		if metadata.typ != "object" {
			r.invalid("type", metadata.typ, "must be object")
		}
		if lvl == rootLevel && !metadata.restrictsNames() {
			r.fail(meta.CauseFieldValueForbidden, nil, "must not specify anything other than name and generateName, but metadata is implicitly specified")
		}
	}, json.Name("properties"), json.Key("metadata"))
}

// restrictsNames reports whether a schema of metadata says nothing except about names. Metadata is
// the same for every kind.
func (n *node) restrictsNames() bool {
	for keyword := range n.tree {
		if keyword != "type" && keyword != "default" && keyword != "properties" && n.states(keyword) {
			return false
		}
	}
	for _, p := range n.properties {
		if p.name != "name" && p.name != "generateName" {
			return false
		}
	}
	return true
}

// values checks the conditions of a node. The conditions in anyOf, or in anyOf of the first element
// of allOf, are not checked if they only repeat what x-kubernetes-int-or-string says.
func (r *treeRules) values(n *node, types, firstTypes bool) {
	for _, b := range n.branches() {
		if b.keyword == "anyOf" && types {
			continue
		}
		for i, condition := range b.nodes {
			r.in(func() { r.condition(condition, b.keyword == "allOf" && i == 0 && firstTypes) }, b.at(i)...)
		}
	}
	if n.schema.Pattern == "" {
		return
	}
	_, err := r.costs.pattern(n.schema.Pattern)
	if bad, ok := errors.AsType[*syntax.Error](err); ok { // New reports the others
		r.invalid("pattern", n.schema.Pattern, "must be a valid regular expression, but isn't: "+bad.Error())
	}
}

// conditionRules lists what a condition must not have. A condition that could set a type or a
// default would make the structure depend on the value.
var conditionRules = []struct{ keyword, detail string }{
	{"type", "must be empty to be structural"},
	{"additionalProperties", "must be undefined to be structural"},
	{"default", "must be undefined to be structural"},
	{"title", "must be empty to be structural"},
	{"description", "must be empty to be structural"},
	{"nullable", "must be false to be structural"},
	{"x-kubernetes-preserve-unknown-fields", "must be false to be structural"},
	{"x-kubernetes-embedded-resource", "must be false to be structural"},
	{"x-kubernetes-int-or-string", "must be false to be structural"},
	{"x-kubernetes-list-map-keys", "must be empty to be structural"},
	{"x-kubernetes-list-type", "must be undefined to be structural"},
	{"x-kubernetes-map-type", "must be undefined to be structural"},
	{"x-kubernetes-validations", "must be empty to be structural"},
}

// condition checks a node below allOf, anyOf, oneOf or not.
func (r *treeRules) condition(n *node, types bool) {
	r.values(n, types, false)
	if n.items != nil {
		r.in(func() { r.condition(n.items, false) }, json.Name("items"))
	}
	for _, p := range n.properties {
		r.in(func() { r.condition(p.node, false) }, json.Name("properties"), json.Key(p.name))
	}
	for _, rule := range conditionRules {
		given := n.says(rule.keyword)
		switch rule.keyword {
		case "default", "x-kubernetes-list-type", "x-kubernetes-map-type":
			given = n.given(rule.keyword)
		}
		if given {
			r.forbidden(rule.keyword, rule.detail)
		}
	}
	if n.property("metadata") != nil {
		r.in(func() { r.fail(meta.CauseFieldValueForbidden, nil, "must not be specified in a nested context") }, json.Name("properties"), json.Key("metadata"))
	}
}

// complete reports fields and items that a condition of the root names, and the structure does not
// describe. The path leads to the place in the structure, r.from to the condition.
func (r *treeRules) complete(n, structure *node) {
	if structure == nil {
		r.fail(meta.CauseFieldValueRequired, nil, "because it is defined in "+r.absolute(json.FormatPath(r.from)))
		return
	}
	r.completeBranches(n, structure)
	both := func(n, structure *node, steps ...json.Step) {
		depth := len(r.from)
		r.from = append(r.from, steps...)
		r.in(func() { r.complete(n, structure) }, steps...)
		r.from = r.from[:depth]
	}
	if n.items != nil {
		both(n.items, structure.items, json.Name("items"))
	}
	for _, p := range n.properties {
		both(p.node, structure.property(p.name), json.Name("properties"), json.Key(p.name))
	}
}

func (r *treeRules) completeBranches(n, structure *node) {
	for _, b := range n.branches() {
		for i, condition := range b.nodes {
			depth := len(r.from)
			r.from = append(r.from, b.at(i)...)
			r.complete(condition, structure)
			r.from = r.from[:depth]
		}
	}
}

// absolute returns a path that begins where the definition does.
func (r TreeReader) absolute(path string) string {
	switch {
	case r.Position == "":
		return path
	case path == "":
		return r.Position
	}
	return r.Position + "." + path
}
