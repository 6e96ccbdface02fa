package cel

import (
	"context"

	"github.com/kindwright/kindwright/status"
)

// ValidateDefaults returns the problems of the defaults in a schema document, which r was compiled
// from. at is its position. A default has to fulfil the rules of its own schema and of those below
// it, as a new value and as one that replaces itself. An object that lacks the field would be refused
// otherwise, without a mistake of its author. Rules see the default as it is written: those of its
// fields are not filled in. Defaults below additionalProperties are not checked. All defaults share
// the budget of one object.
//
// Defaults that RuleOptions.Problems say something about are left out. All others must fulfil the schema. A rule
// that was not compiled is a problem of the defaults that it would be evaluated for.
// Source: CRD-12.
func (r *Rules) ValidateDefaults(
	ctx context.Context, document map[string]any, at *status.Path,
) []status.FieldError {
	if r == nil {
		return nil
	}
	if ctx == nil {
		return noContext(at)
	}
	e := &evaluation{ctx: ctx, left: ObjectCostLimit, work: objectWorkLimit, count: true, most: maxRuleProblems, judged: r.judged}
	e.visitDefaults(r.root, document, at)
	return e.problems
}

// visitDefaults evaluates the rules for the default of a schema and for those below it.
func (e *evaluation) visitDefaults(n *node, document map[string]any, at *status.Path) {
	if n == nil || e.ended {
		return
	}
	if written := document["default"]; written != nil && !concerns(e.judged, at.Child("default")) {
		e.visitDefault(n, value{at: at.Child("default"), now: written, old: written})
	}
	items, _ := document["items"].(map[string]any)
	e.visitDefaults(n.items, items, at.Child("items"))
	properties, _ := document["properties"].(map[string]any)
	for _, field := range n.fields {
		below, _ := properties[field.name].(map[string]any)
		e.visitDefaults(field.node, below, at.Child("properties").Key(field.name))
	}
}

// visitDefault evaluates the rules for a value that replaces itself, and then for a new one. Only
// the dearer of both counts.
func (e *evaluation) visitDefault(n *node, v value) {
	found, left, work := len(e.problems), e.left, e.work
	if e.visit(n, v); len(e.problems) > found || e.ended {
		return
	}
	kept, keptWork := e.left, e.work
	v.old, e.left, e.work = nil, left, work
	e.visit(n, v)
	e.left, e.work = min(e.left, kept), min(e.work, keptWork)
}
