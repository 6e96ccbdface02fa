package crd

import (
	"context"
	"maps"
	"reflect"
	"slices"

	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// compilers compile what definitions contain.
type compilers struct {
	rules  cel.RuleOptions
	memory *memory
}

// hoisted knows which parts of a definition Kubernetes validates in the spec, because they are the same
// in all versions, and which in each version. Messages have the paths of that form: spec.validation
// and not spec.versions[0].schema.
type hoisted struct {
	c, old        *CustomResourceDefinition // old may be nil
	f             *status.Fields
	with          compilers
	trees, before []map[string]any // the schema documents of the versions, nil for none

	stored *openapi.Breach // see breaches; nil until it is known

	schema, subresources, columns, selectable bool // the same in all versions
}

func hoistedOf(now, before *judged, with compilers, f *status.Fields) *hoisted {
	c, old := now.definition(), before.definition()
	h := &hoisted{c: c, old: old, f: f, with: with, trees: now.schemas(), before: before.schemas()}
	h.schema = h.all(func(i int) bool { return json.Equal(document(h.trees[i]), document(h.trees[0])) })
	versions := c.Spec.Versions
	h.subresources = h.all(func(i int) bool { return reflect.DeepEqual(versions[i].Subresources, versions[0].Subresources) })
	h.columns = h.all(func(i int) bool {
		return slices.Equal(versions[i].AdditionalPrinterColumns, versions[0].AdditionalPrinterColumns)
	})
	h.selectable = h.all(func(i int) bool { return slices.Equal(versions[i].SelectableFields, versions[0].SelectableFields) })
	return h
}

func (h *hoisted) all(same func(i int) bool) bool {
	for i := range h.trees {
		if !same(i) {
			return false
		}
	}
	return len(h.trees) > 0
}

// document returns a schema, or nil without the type of one.
func document(t map[string]any) any {
	if t == nil {
		return nil
	}
	return t
}

// judged is a definition that is validated.
type judged struct {
	CustomResourceDefinition
	tree  registry.Tree
	trees []map[string]any // see schemas
}

// judge decodes a definition whose spec is canonical, without its schemas. Their documents are those of
// the tree, where they are as the Go type would write them again.
func judge(t registry.Tree) (*judged, error) {
	out := &judged{tree: t, trees: documentsIn(t)}
	return out, json.FromTree(withoutSchemas(t), &out.CustomResourceDefinition)
}

// versions returns the versions with their schemas, for an error that shows them.
func (j *judged) versions() []CustomResourceDefinitionVersion {
	whole := new(CustomResourceDefinition)
	if err := json.FromTree(j.tree, whole); err != nil {
		return j.Spec.Versions
	}
	return whole.Spec.Versions
}

// definition returns the definition. j may be nil.
func (j *judged) definition() *CustomResourceDefinition {
	if j == nil {
		return nil
	}
	return &j.CustomResourceDefinition
}

// schemas returns the schema documents of the versions, nil for none. j may be nil.
func (j *judged) schemas() []map[string]any {
	if j == nil {
		return nil
	}
	return j.trees
}

// documentsIn returns the schema documents of the versions in a definition, nil for none.
func documentsIn(t registry.Tree) []map[string]any {
	versions, _ := tree.At(t, "spec", "versions").([]any)
	out := make([]map[string]any, len(versions))
	for i, v := range versions {
		version, _ := v.(map[string]any)
		out[i] = tree.Map(version, "schema", "openAPIV3Schema")
	}
	return out
}

// anySchema reports whether a node of any schema has a property.
func (h *hoisted) anySchema(has func(node map[string]any) bool) bool {
	return slices.ContainsFunc(h.trees, func(t map[string]any) bool {
		found := false
		eachNode(t, func(node map[string]any) { found = found || has(node) })
		return found
	})
}

// eachNode visits all nodes of a schema document, parents first and properties in order of their names.
func eachNode(node map[string]any, visit func(map[string]any)) {
	if node == nil {
		return
	}
	visit(node)
	for _, keyword := range slices.Sorted(maps.Keys(node)) {
		switch keyword {
		case "items", "additionalProperties", "additionalItems", "not":
			one, _ := node[keyword].(map[string]any)
			eachNode(one, visit)
			eachOf(node[keyword], visit)
		case "allOf", "anyOf", "oneOf":
			eachOf(node[keyword], visit)
		case "properties", "patternProperties", "definitions", "dependencies":
			named, _ := node[keyword].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(named)) {
				one, _ := named[name].(map[string]any)
				eachNode(one, visit)
			}
		}
	}
}

func eachOf(list any, visit func(map[string]any)) {
	items, _ := list.([]any)
	for _, item := range items {
		one, _ := item.(map[string]any)
		eachNode(one, visit)
	}
}

// validateVersion validates what is particular to a version. at is the version.
func (h *hoisted) validateVersion(ctx context.Context, i int, at status.Field) {
	v := &h.c.Spec.Versions[i]
	if !h.schema && h.trees[i] != nil {
		h.validateSchema(ctx, h.trees[i], h.documentBefore(v.Name), v.hasStatus(), at.Child("schema"))
	}
	if !h.subresources {
		validateSubresources(v.Subresources, at.Child("subresources"))
	}
	if !h.columns {
		validateColumns(v.AdditionalPrinterColumns, at.Child("additionalPrinterColumns"))
	}
	if h.selectable || len(v.SelectableFields) == 0 {
		return
	}
	if at := at.Child("selectableFields"); h.schema || h.trees[i] == nil {
		at.Invalid("", "may only be set when `version.schema.openAPIV3Schema` is not included")
	} else {
		validateSelectable(v, h.old, h.trees[i], at)
	}
}

// validate validates what all versions have in common. at is the spec.
func (h *hoisted) validate(ctx context.Context, at status.Field) {
	versions := h.c.Spec.Versions
	if len(versions) == 0 {
		return
	}
	v := &versions[0]
	if h.schema && h.trees[0] != nil {
		anyStatus := slices.ContainsFunc(versions, func(v CustomResourceDefinitionVersion) bool { return v.hasStatus() })
		h.validateSchema(ctx, h.trees[0], h.documentBefore(v.Name), anyStatus, at.Child("validation"))
	}
	if h.subresources {
		validateSubresources(v.Subresources, at.Child("subresources"))
	}
	if h.columns {
		validateColumns(v.AdditionalPrinterColumns, at.Child("additionalPrinterColumns"))
	}
	if !h.selectable || len(v.SelectableFields) == 0 {
		return
	}
	if at := at.Child("selectableFields"); !h.schema || h.trees[0] == nil {
		at.Invalid("", "may only be set when validations.schema is included")
	} else {
		validateSelectable(v, h.old, h.trees[0], at)
	}
}

func (v *CustomResourceDefinitionVersion) hasStatus() bool {
	return v.Subresources != nil && v.Subresources.Status != nil
}

// version returns the version of a name, or nil. c may be nil.
func (c *CustomResourceDefinition) version(name string) *CustomResourceDefinitionVersion {
	if c == nil {
		return nil
	}
	for i := range c.Spec.Versions {
		if c.Spec.Versions[i].Name == name {
			return &c.Spec.Versions[i]
		}
	}
	return nil
}

// documentBefore returns the schema document that a version had, or nil.
func (h *hoisted) documentBefore(name string) map[string]any {
	for i, document := range h.before {
		if h.old.Spec.Versions[i].Name == name {
			return document
		}
	}
	return nil
}

// validateSchema validates a schema document. A document that was stored before is not judged again,
// and another one need not follow the rules that the stored definition breaks. at is the field that
// holds the document.
//
// Source: CRD-07, CRD-14.
func (h *hoisted) validateSchema(ctx context.Context, document, old map[string]any, hasStatus bool, at status.Field) {
	if old != nil && json.Equal(document, old) {
		return
	}
	reader := openapi.TreeReader{Position: at.Child("openAPIV3Schema").Path().String(), Status: hasStatus}
	if h.old != nil {
		reader.Stored = h.breaches()
	}
	judged := reader.Judge(document)
	if h.f.Add(judged.Problems...); judged.Schema == nil {
		return
	}
	of, bytes := digestOf(document)
	rules, problems := h.compileRules(judged, reader.Position, bytes)
	broken := rules.ValidateDefaults(ctx, document, at.Child("openAPIV3Schema").Path())
	if h.f.Add(broken...); len(broken) > 0 || judged.Defaults {
		return // as long as defaults are wrong, kube-apiserver does not say whether rules compile
	}
	if h.f.Add(problems...); len(judged.Problems)+len(problems) == 0 && reader.Stored == 0 {
		h.with.memory.await(awaited{of, judged.Schema, rules, bytes})
	}
}

// breaches returns the rules that the stored definition breaks. Schemas that are served break none if
// they were compiled without a problem.
func (h *hoisted) breaches() openapi.Breach {
	if h.stored != nil {
		return *h.stored
	}
	var broken openapi.Breach
	for _, document := range h.before {
		if of, _ := digestOf(document); h.with.memory.find(of) == nil {
			broken |= openapi.Breaches(document)
		}
	}
	h.stored = &broken
	return broken
}

// compileRules compiles the rules of a schema, whose document has some bytes. Expressions that the stored definition has already
// may use libraries that are newer than the server's release, as after a rollback.
//
// Source: CRD-12, CRD-13, CEL-24, CEL-25.
func (h *hoisted) compileRules(judged openapi.Judgement, position string, bytes int) (*cel.Rules, []status.FieldError) {
	stored := map[string]bool{}
	for _, document := range h.before {
		eachNode(document, func(node map[string]any) { noteExpressions(node, stored) })
	}
	o := h.with.rules
	o.Path, o.Size, o.Known = position, bytes, func(expression string) bool { return stored[expression] }
	o.Problems = judged.Problems
	return cel.CompileRules(judged.Schema, o)
}

// noteExpressions notes the expressions in the rules of a node.
func noteExpressions(node map[string]any, expressions map[string]bool) {
	rules, _ := node["x-kubernetes-validations"].([]any)
	for _, r := range rules {
		rule, _ := r.(map[string]any)
		for _, keyword := range []string{"rule", "messageExpression"} {
			if text, ok := rule[keyword].(string); ok {
				expressions[text] = true
			}
		}
	}
}
