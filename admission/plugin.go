package admission

import (
	"context"
	"errors"
	"fmt"

	"github.com/kindwright/kindwright/status"
)

// A Mutator may replace the object of a write. It returns the object to go on with, which may be r.Object itself,
// or an error that refuses the write. What it adds is defaulted, pruned and validated like anything the client
// sent, and never counts as sent by the client (design rule 20). What nobody may change on the path of the write stays as
// it is, without an error: the fields of the server, such as the deletionTimestamp, status on the main path, and spec on that of
// status. It is called concurrently for different requests.
type Mutator interface {
	Mutate(ctx context.Context, r *Request) (map[string]any, error)
}

// A Validator may refuse a write by returning an error. It sees the final object. It is called concurrently for
// different requests.
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

// Plugin is one named rule. Either side may be nil. The name appears in what is logged about it.
type Plugin struct {
	Name      string
	Mutator   Mutator
	Validator Validator
}

// Denied is the answer of a plugin that refuses r: 403 Forbidden with reason as its explanation.
func Denied(r *Request, reason string) error {
	return status.Forbidden(r.GroupResource(), r.Name, reason)
}

// Chain runs plugins in order: all mutators, and later all validators (ADM-24). Its zero value admits everything.
// A Chain is immutable and safe for concurrent use.
type Chain struct {
	plugins []Plugin
}

// NewChain returns the chain of the given plugins, first called first. It refuses a plugin without a name or with
// neither side set, and a name used twice.
func NewChain(plugins ...Plugin) (*Chain, error) {
	seen := make(map[string]bool, len(plugins))
	for i, p := range plugins {
		switch {
		case p.Name == "":
			return nil, fmt.Errorf("admission plugin %d has no name", i)
		case isNil(p.Mutator) && isNil(p.Validator):
			return nil, fmt.Errorf("admission plugin %q neither mutates nor validates", p.Name)
		case seen[p.Name]:
			return nil, fmt.Errorf("admission plugin %q is given twice", p.Name)
		}
		seen[p.Name] = true
	}
	return &Chain{plugins: append([]Plugin(nil), plugins...)}, nil
}

// isNil tells whether one side of a plugin is missing. A nil function in it is as good as none.
func isNil(side any) bool {
	switch f := side.(type) {
	case nil:
		return true
	case MutatorFunc:
		return f == nil
	case ValidatorFunc:
		return f == nil
	}
	return false
}

// Empty tells whether the chain has no plugins, so that a caller can skip preparing a Request.
func (c *Chain) Empty() bool { return c == nil || len(c.plugins) == 0 }

// Mutate runs the mutators, each on the object that the one before returned, and returns the last object. The
// first error ends it. A panic in a plugin is an error, never an admission (X12).
func (c *Chain) Mutate(ctx context.Context, r *Request) (map[string]any, error) {
	if c.Empty() {
		return r.Object, nil
	}
	req := *r // plugins see the object of the one before, the caller's request keeps its own
	for _, p := range c.plugins {
		if isNil(p.Mutator) {
			continue
		}
		object, err := guardMutate(ctx, p, req.copied())
		if err != nil {
			return nil, err
		}
		if object == nil && req.Object != nil {
			return nil, status.Internal(fmt.Errorf("admission plugin %q returned no object and no error", p.Name))
		}
		made, err := tree(object)
		if err != nil {
			return nil, status.Internal(fmt.Errorf("admission plugin %q returned an object that is no JSON: %w", p.Name, err))
		}
		req.Object, _ = made.(map[string]any)
	}
	return req.Object, nil
}

// Validate runs the validators; the first error ends it. A panic in a plugin is an error (X12).
func (c *Chain) Validate(ctx context.Context, r *Request) error {
	if c.Empty() {
		return nil
	}
	for _, p := range c.plugins {
		if isNil(p.Validator) {
			continue
		}
		if err := guardValidate(ctx, p, r.copied()); err != nil {
			return err
		}
	}
	return nil
}

func guardMutate(ctx context.Context, p Plugin, r *Request) (object map[string]any, err error) {
	defer recovered(p, &err)
	object, err = p.Mutator.Mutate(ctx, r)
	return object, named(p, err)
}

func guardValidate(ctx context.Context, p Plugin, r *Request) (err error) {
	defer recovered(p, &err)
	return named(p, p.Validator.Validate(ctx, r))
}

// named puts the plugin's name to an error that goes to the log, since the client is not told what it says.
func named(p Plugin, err error) error {
	var answer *status.Error
	if err == nil || errors.As(err, &answer) {
		return err
	}
	return fmt.Errorf("admission plugin %q: %w", p.Name, err)
}

func recovered(p Plugin, err *error) {
	if v := recover(); v != nil {
		*err = status.Internal(fmt.Errorf("admission plugin %q panicked: %v", p.Name, v))
	}
}
