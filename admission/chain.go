package admission

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/status"
)

// Chain runs plugins in order: all mutators, and later all validators. Its zero value and a nil
// Chain admit everything. A Chain is immutable and safe for concurrent use.
// Source: ADM-24.
type Chain struct {
	mutators, validators []member
	checked              bool
	observer             func(Timing)
}

// Timing reports how long one plugin took, or all plugins of a chain that handle a write
// together.
type Timing struct {
	Plugin     string // empty for all of them together
	Validating bool   // the second pass; the first mutates
	Operation  Operation
	Rejected   bool
	Took       time.Duration
}

// member is a plugin in a chain.
type member struct {
	Plugin
	rules []matcher
	label string // of errors
}

// NewChain returns the chain of the given plugins; the first is called first. It rejects a plugin
// without a name, a name used twice, a plugin with neither side set, a side that is a nil pointer
// or function, a plugin that is not bound yet, a plugin before one of its After, and an invalid rule.
func NewChain(plugins ...Plugin) (*Chain, error) {
	c := &Chain{}
	seen := make(map[string]bool, len(plugins))
	for i, p := range plugins {
		switch {
		case p.Name == "":
			return nil, fmt.Errorf("admission plugin %d has no name", i)
		case seen[p.Name]:
			return nil, fmt.Errorf("admission plugin %q is given twice", p.Name)
		case p.Mutator != nil && guard.IsNil(p.Mutator):
			return nil, fmt.Errorf("admission plugin %q: its mutator is a nil %T", p.Name, p.Mutator)
		case p.Validator != nil && guard.IsNil(p.Validator):
			return nil, fmt.Errorf("admission plugin %q: its validator is a nil %T", p.Name, p.Validator)
		case p.Bind != nil:
			return nil, fmt.Errorf("admission plugin %q is not bound to a server", p.Name)
		case p.Mutator == nil && p.Validator == nil:
			return nil, fmt.Errorf("admission plugin %q neither mutates nor validates", p.Name)
		}
		seen[p.Name] = true
		for _, later := range plugins[i+1:] {
			if slices.Contains(p.After, later.Name) {
				return nil, fmt.Errorf("admission plugin %q is given before %q, which its field After names", p.Name, later.Name)
			}
		}
		label := fmt.Sprintf("admission plugin %q", p.Name)
		rules, err := compile(p.Rules)
		if err != nil {
			return nil, fmt.Errorf("admission plugin %q: %w", p.Name, err)
		}
		if p.Mutator != nil {
			c.mutators = append(c.mutators, member{p, rules, label})
		}
		if p.Validator != nil {
			c.validators = append(c.validators, member{p, rules, label})
		}
	}
	return c, nil
}

// Checked returns a chain that verifies that plugins keep their promise. If a plugin changes a tree
// that it was given, the write fails with a 500 and the log names the plugin. Checked copies both
// trees for every plugin that handles a write, so it is meant for tests.
func (c *Chain) Checked() *Chain {
	if c == nil {
		return nil
	}
	out := *c
	out.checked = true
	return &out
}

// Timed returns a chain that reports to o how long its plugins take. o must allow concurrent
// calls and must not block. It receives no report for plugins that do not handle a write or that
// panic.
func (c *Chain) Timed(o func(Timing)) *Chain {
	if c == nil {
		return nil
	}
	out := *c
	out.observer = o
	return &out
}

// begin returns the time if there is an observer.
func (c *Chain) begin() (start time.Time) {
	if c.observer != nil {
		start = time.Now()
	}
	return start
}

// end reports how long something took.
func (c *Chain) end(o Timing, err error, start time.Time) {
	if c.observer != nil {
		o.Rejected, o.Took = err != nil, time.Since(start)
		c.observer(o)
	}
}

// Mutates reports whether any mutator handles a write. If none does, the caller need not make a
// Request.
func (c *Chain) Mutates(t Target) bool { return c != nil && anyHandles(c.mutators, &t) }

// Validates reports whether any validator handles a write.
func (c *Chain) Validates(t Target) bool { return c != nil && anyHandles(c.validators, &t) }

// Concerns reports whether a plugin that handles r has to see its objects, which r lacks; see [Selective].
func (c *Chain) Concerns(r *Request) bool {
	if c == nil {
		return false
	}
	t := r.Target()
	for i := range c.mutators {
		if c.mutators[i].concerned(r, &t, c.mutators[i].Mutator) {
			return true
		}
	}
	for i := range c.validators {
		if c.validators[i].concerned(r, &t, c.validators[i].Validator) {
			return true
		}
	}
	return false
}

// concerned reports whether one side of the plugin has to see the objects of a request.
func (m *member) concerned(r *Request, t *Target, side any) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = true // as in anyHandles
		}
	}()
	if !m.handles(t) {
		return false
	}
	s, ok := side.(Selective)
	return !ok || s.Concerns(r)
}

func anyHandles(members []member, t *Target) (handled bool) {
	defer func() {
		if recover() != nil {
			handled = true // the write continues to the plugin, which answers the panic
		}
	}()
	for i := range members {
		if members[i].handles(t) {
			return true
		}
	}
	return false
}

// handles reports whether the plugin handles a write.
func (m *member) handles(t *Target) bool {
	selected := len(m.rules) == 0
	for i := range m.rules {
		if selected = m.rules[i].matches(t); selected {
			break
		}
	}
	return selected && (m.Handles == nil || m.Handles(*t))
}

// Mutate runs the mutators that handle a write, each on the object that the previous one returned.
// All run once more if one of them asks for it; see Reinvocation. It returns the last object and
// whether it differs from r.Object. It stops at the first error, or when ctx ends. A panic in a
// plugin becomes an error.
func (c *Chain) Mutate(ctx context.Context, r *Request) (object map[string]any, changed bool, err error) {
	if c == nil {
		return r.Object, false, nil
	}
	start := c.begin()
	defer func() { c.end(Timing{Operation: r.Operation}, err, start) }()
	now := *r // the caller's request keeps its object
	now.Reinvocation = &Reinvocation{}
	changed, err = c.round(ctx, &now)
	if err == nil && now.Reinvocation.requested {
		now.Reinvocation.again = true
		var more bool
		more, err = c.round(ctx, &now)
		changed = changed || more
	}
	if err != nil {
		return nil, false, err
	}
	return now.Object, changed, nil
}

// round runs the mutators once, and replaces the object of the request.
func (c *Chain) round(ctx context.Context, now *Request) (changed bool, err error) {
	t := now.Target()
	for i := range c.mutators {
		m := &c.mutators[i]
		made, err := m.mutate(ctx, now, &t, c)
		if err != nil {
			return false, err
		}
		if identical(made, now.Object) {
			continue
		}
		if now.Object, err = m.result(made, now.Object); err != nil {
			return false, err
		}
		changed = true
	}
	return changed, nil
}

// Validate runs the validators that handle a write. It stops at the first error, or when ctx ends.
// A panic in a plugin becomes an error.
func (c *Chain) Validate(ctx context.Context, r *Request) (err error) {
	if c == nil {
		return nil
	}
	start := c.begin()
	defer func() { c.end(Timing{Operation: r.Operation, Validating: true}, err, start) }()
	t := r.Target()
	for i := range c.validators {
		if err := c.validators[i].validate(ctx, r, &t, c); err != nil {
			return err
		}
	}
	return nil
}

// mutate asks one plugin for the next object. The plugin gets a copy of the request, so changes of
// its fields have no effect.
func (m *member) mutate(ctx context.Context, r *Request, t *Target, c *Chain) (object map[string]any, err error) {
	defer guard.RecoverAs(&err, m.label, status.Internal)
	if !m.handles(t) {
		return r.Object, nil
	}
	own := *r
	if c.checked {
		defer m.watch(r, &err)()
	}
	start := c.begin()
	object, err = m.Mutator.Mutate(ctx, &own)
	err = m.named(ctx, err)
	c.end(Timing{Plugin: m.Name, Operation: r.Operation}, err, start)
	return object, err
}

// validate asks one plugin.
func (m *member) validate(ctx context.Context, r *Request, t *Target, c *Chain) (err error) {
	defer guard.RecoverAs(&err, m.label, status.Internal)
	if !m.handles(t) {
		return nil
	}
	own := *r
	if c.checked {
		defer m.watch(r, &err)()
	}
	start := c.begin()
	err = m.named(ctx, m.Validator.Validate(ctx, &own))
	c.end(Timing{Plugin: m.Name, Operation: r.Operation, Validating: true}, err, start)
	return err
}

// result checks what a mutator returned in place of an object.
func (m *member) result(made, before map[string]any) (map[string]any, error) {
	switch {
	case made == nil:
		return nil, status.Internal(fmt.Errorf("admission plugin %q returned no object and no error", m.Name))
	case before == nil:
		return nil, status.Internal(fmt.Errorf("admission plugin %q returned an object for a write that has none", m.Name))
	}
	out, err := tree(made)
	if err != nil {
		return nil, status.Internal(fmt.Errorf("admission plugin %q returned an object that is not JSON: %w", m.Name, err))
	}
	object, _ := out.(map[string]any)
	return object, nil
}

// identical reports whether two trees are the same map, or both nil.
func identical(a, b map[string]any) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

// watch copies the trees that a plugin is about to see. The caller runs the returned function
// afterwards; it turns a difference into the error.
func (m *member) watch(r *Request, err *error) func() {
	object, old := json.Clone(r.Object), json.Clone(r.OldObject)
	return func() {
		if !json.Equal(object, r.Object) || !json.Equal(old, r.OldObject) {
			*err = status.Internal(fmt.Errorf("admission plugin %q changed an object that it was given to read; "+
				"a mutator returns another one, see admission.Patched", m.Name))
		}
	}
}

// named adds the plugin's name to an error that goes to the log, because the client is not told
// what the error says. A plugin that returns after the request has ended admits nothing.
func (m *member) named(ctx context.Context, err error) error {
	if err == nil {
		if err = ctx.Err(); err == nil {
			return nil
		}
	}
	if _, answer := errors.AsType[*status.Error](err); answer {
		return err
	}
	return fmt.Errorf("admission plugin %q: %w", m.Name, err)
}
