package admission

import (
	"context"

	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// A Mutator may replace the object of a write. It returns the object to go on with, or an error that
// refuses the write. It returns r.Object itself to change nothing, as Allowed does, and otherwise
// another tree, as Patched does; it never changes r.Object in place.
//
// What it adds is defaulted, pruned and validated like anything the client sent, and never counts as
// sent by the client (design rule 20). What nobody may change on the path of the write stays as it is,
// without an error: the fields of the server, such as the deletionTimestamp, status on the main path,
// and spec on that of status.
//
// It is called for deletions too. They have no object, so it returns nil, which Allowed and Patched do.
//
// It is called concurrently for different requests, and must return when ctx ends.
type Mutator interface {
	Mutate(ctx context.Context, r *Request) (map[string]any, error)
}

// A Validator may refuse a write by returning an error. It sees the final object and must not change
// it. It is called concurrently for different requests, and must return when ctx ends.
type Validator interface {
	Validate(ctx context.Context, r *Request) error
}

// MutatorFunc makes a Mutator of a function.
type MutatorFunc func(ctx context.Context, r *Request) (map[string]any, error)

// Mutate calls f.
func (f MutatorFunc) Mutate(ctx context.Context, r *Request) (map[string]any, error) {
	return f(ctx, r)
}

// ValidatorFunc makes a Validator of a function.
type ValidatorFunc func(ctx context.Context, r *Request) error

// Validate calls f.
func (f ValidatorFunc) Validate(ctx context.Context, r *Request) error { return f(ctx, r) }

var (
	_ Mutator   = MutatorFunc(nil)
	_ Validator = ValidatorFunc(nil)
)

// Plugin is one named rule. Either side may be left out. The name appears in what is logged about it.
type Plugin struct {
	Name string

	// Rules select the writes that the plugin handles: those that any of them selects. None selects
	// every write.
	Rules []Rule

	// Handles, if not nil, must agree as well. It is asked for every write that the rules select, before
	// the request is made, so it must be quick, must not wait, and must not allocate.
	Handles func(t Target) bool

	Mutator   Mutator
	Validator Validator

	// Bind makes the two sides of a plugin that has to know objects of its server, and is given instead
	// of them. It is called once for each server, while that is made; see watch.Bindable for what holds
	// until those objects are known. Either side may be nil.
	Bind func(b watch.Binding) (Mutator, Validator, error)
}

// Denied is the answer of a plugin that refuses r: 403 Forbidden with reason as its explanation.
func Denied(r *Request, reason string) error {
	return status.Forbidden(r.GroupResource(), r.Name, reason)
}
