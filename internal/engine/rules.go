package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// rules are the validation rules for a tree of a kind. They apply to every writer and every path.
type rules struct {
	schema         *openapi.Schema
	expressions    *cel.Rules
	validate       func(ctx context.Context, t registry.Tree, f *status.Fields)
	validateCreate func(ctx context.Context, t registry.Tree, f *status.Fields)
	validateUpdate func(ctx context.Context, t, old registry.Tree, f *status.Fields)
	untyped        func(ctx context.Context, t registry.Tree, f *status.Fields)

	whole bool // an update is judged as a new object

	part string // "status" if the schema judges that field alone, "" for all

	typed bool // hooks are promised a tree of the right shape
	sound bool // hooks are asked only about what the schema accepts
}

// rulesFor returns the rules of a kind with these hooks and this schema.
func rulesFor(h *registry.Hooks, schema *openapi.Schema) rules {
	return rules{
		schema: schema, validate: h.Validate, validateCreate: h.ValidateCreate, validateUpdate: h.ValidateUpdate, untyped: h.ValidateUntyped,
		typed: h.Default != nil || h.Validate != nil || h.ValidateCreate != nil || h.ValidateUpdate != nil,
	}
}

// behind returns the rules of a stored form that still apply after those of another form: the
// schema, and the hooks that the other form does not define.
func (r rules) behind(form rules) rules {
	if form.validate != nil {
		r.validate = nil
	}
	if form.validateCreate != nil {
		r.validateCreate = nil
	}
	if form.validateUpdate != nil {
		r.validateUpdate = nil
	}
	if form.untyped != nil {
		r.untyped = nil
	}
	r.sound = true
	return r
}

// judging returns the rules for a write through a subresource. A write of the status of a kind without a
// Go type is judged by the schema of the status alone, as in kube-apiserver.
func (r rules) judging(sub *Subresource) rules {
	if sub != nil && sub.Name == "status" && !r.typed {
		r.part = sub.Name
	}
	return r
}

// judge returns the schema errors of a tree, and whether it is valid.
func (r rules) judge(t, old registry.Tree) ([]status.FieldError, bool) {
	judge := r.schema.Judge
	switch {
	case r.part != "":
		judge = func(t, old registry.Tree) ([]status.FieldError, bool) { return r.schema.JudgeStatus(t, old, r.whole) }
	case r.whole:
		judge = r.schema.JudgeWhole
	}
	problems, valid := judge(t, old)
	if r.part == "" {
		return problems, valid
	}
	inside := r.part + "."
	var out []status.FieldError
	for _, p := range problems {
		if p.Field == r.part || strings.HasPrefix(p.Field, inside) || strings.HasPrefix(p.Field, r.part+"[") {
			p.Detail = strings.TrimPrefix(p.Detail, inside) // it begins with the path, from where judging began
			out = append(out, p)
		}
	}
	return out, valid
}

// compileRules compiles the expressions of a kind's schema. Those of a kind without Go type come
// from a document that was accepted when it was written: they are not judged again.
func compileRules(r *registry.Resource, cfg *Config) (*cel.Rules, error) {
	compiled, problems := cel.CompileRules(r.Schema, cel.RuleOptions{Stored: r.Type == nil, Prices: cfg.Prices, Compiled: cfg.Compiled})
	if len(problems) == 0 && r.Writes.NoRatcheting {
		compiled = compiled.Whole()
	}
	if len(problems) == 0 {
		return compiled, nil
	}
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = errors.New(p.String())
	}
	return nil, fmt.Errorf("rules: %w", errors.Join(errs...))
}

// check adds all errors of a tree. old is the tree it replaces, or nil for a new one. Schema errors
// that old had as well do not count (KEP-4008).
func (r rules) check(ctx context.Context, f *status.Fields, t, old registry.Tree) {
	found := f.Len()
	problems, valid := r.judge(t, old)
	f.Add(problems...)
	if r.sound && f.Len() > found {
		return
	}
	r.askUntyped(ctx, f, t)
	r.evaluate(ctx, f, t, old, valid)
	before := f.Len()
	r.ask(ctx, f, t, old)
	if all := f.Errors(); len(problems) > 0 {
		*f = status.Fields{}
		f.Add(append(all[:before:before], beside(problems, all[before:])...)...)
	}
}

// askUntyped lets the hook for values of any type add what it finds. Its problems follow those of the
// schema, as in kube-apiserver.
func (r rules) askUntyped(ctx context.Context, f *status.Fields, t registry.Tree) {
	if r.untyped != nil {
		r.untyped(ctx, t, f)
	}
}

// ask lets the other hooks add what they find.
func (r rules) ask(ctx context.Context, f *status.Fields, t, old registry.Tree) {
	if r.validate != nil {
		r.validate(ctx, t, f)
	}
	if r.validateCreate != nil && old == nil {
		r.validateCreate(ctx, t, f)
	}
	if r.validateUpdate != nil && old != nil {
		r.validateUpdate(ctx, t, old, f)
	}
}

// beside returns the problems of hooks that the schema has not reported already, in the same words:
// both know the values of an enum.
func beside(schema, hooks []status.FieldError) []status.FieldError {
	return slices.DeleteFunc(hooks, func(h status.FieldError) bool {
		return slices.ContainsFunc(schema, func(s status.FieldError) bool {
			return s.Field == h.Field && s.Type == h.Type && s.Message() == h.Message()
		})
	})
}

// evaluate evaluates the expressions. They may rely on types, required fields and bounds, so they
// are left out if one of these is wrong.
func (r rules) evaluate(ctx context.Context, f *status.Fields, t, old registry.Tree, valid bool) {
	if r.expressions == nil {
		return
	}
	for _, p := range f.Errors() {
		switch p.Type {
		case meta.CauseFieldValueNotSupported, meta.CauseFieldValueRequired, meta.CauseFieldValueTooLong, meta.CauseFieldValueTooMany, meta.CauseFieldValueTypeInvalid:
			f.Add(unchecked())
			return
		}
	}
	f.Add(r.expressions.Validate(ctx, t, old, valid, func(text string) { registry.Warn(ctx, text) })...)
}

// unchecked says that the expressions have not been evaluated.
func unchecked() status.FieldError {
	return status.FieldError{
		Type: meta.CauseFieldValueInvalid, Field: "<nil>",
		Detail: "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
	}
}

// blocking returns the type errors for which a write is rejected. An update is not rejected for
// values that were wrong before (KEP-4008), unless hooks are promised a tree of the right shape.
func (r rules) blocking(t, old registry.Tree, found []status.FieldError) []status.FieldError {
	if !r.typed && old != nil && !r.whole {
		problems, _ := r.judge(t, old)
		return problems
	}
	more := r.schema.Validate(t)
	if !r.typed { // all that is wrong with a value, as in Kubernetes: that it is no text, and none of the allowed ones
		found, more = more, found
	}
	seen := map[string]bool{}
	for _, p := range found {
		seen[p.Field] = true
	}
	for _, p := range more { // each field once
		if !seen[p.Field] {
			seen[p.Field] = true
			found = append(found, p)
		}
	}
	return found
}
