package engine

import (
	"context"

	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// rules are what a tree of a kind has to keep, whoever writes it and in whatever way.
type rules struct {
	schema         *openapi.Schema
	validate       func(ctx context.Context, t registry.Tree, f *status.Fields)
	validateUpdate func(ctx context.Context, t, old registry.Tree, f *status.Fields)

	typed bool // hooks are promised a tree of the right shape
	sound bool // hooks are asked only about what the schema accepts
}

// rules returns the rules of a kind.
func (r *Kind) rules() rules {
	h := &r.Hooks
	return rules{
		schema: r.Schema, validate: h.Validate, validateUpdate: h.ValidateUpdate,
		typed: h.Default != nil || h.Validate != nil || h.ValidateUpdate != nil,
	}
}

// behind returns the rules of a stored form that are left when another form has been asked: the
// schema, and the hooks that the other form has none of its own for.
func (r rules) behind(form rules) rules {
	if form.validate != nil {
		r.validate = nil
	}
	if form.validateUpdate != nil {
		r.validateUpdate = nil
	}
	r.sound = true
	return r
}

// check adds everything that is wrong with a tree. old is what it replaces, nil for a new one: what
// was wrong before does not count for the schema (KEP-4008).
func (r rules) check(ctx context.Context, f *status.Fields, t, old registry.Tree) {
	found := f.Len()
	f.Add(r.problems(ctx, t, old)...)
	if r.sound && f.Len() > found {
		return
	}
	if r.validate != nil {
		r.validate(ctx, t, f)
	}
	if r.validateUpdate != nil && old != nil {
		r.validateUpdate(ctx, t, old, f)
	}
}

// problems is what the schema finds wrong.
func (r rules) problems(_ context.Context, t, old registry.Tree) []status.FieldError {
	if old == nil {
		return r.schema.Validate(t)
	}
	return r.schema.ValidateUpdate(t, old)
}

// blocking returns what a tree with values of a wrong type is refused for. An update is not refused
// for values that were wrong before (KEP-4008), unless hooks are promised a tree of the right
// shape.
func (r rules) blocking(ctx context.Context, t, old registry.Tree, found []status.FieldError) []status.FieldError {
	if !r.typed && old != nil {
		return r.problems(ctx, t, old)
	}
	seen := map[string]bool{}
	for _, p := range found {
		seen[p.Field] = true
	}
	for _, p := range r.problems(ctx, t, nil) { // each field once
		if !seen[p.Field] {
			seen[p.Field] = true
			found = append(found, p)
		}
	}
	return found
}
