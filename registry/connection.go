package registry

import (
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/meta"
)

// Connection is a subresource that clients connect to: `pods/exec`. It is the part of connect.Endpoint that knows no HTTP; use
// that. Handler returns what serves a connection, which the engine hands on without knowing it.
type Connection[T, O any] struct {
	Name  string
	Verbs []string              // of get, create, update, patch and delete
	Kind  meta.GroupVersionKind // of O; default: the Go type's name, in the group and version of the kind

	Paths     bool                              // URLs may go on below the subresource
	Object    func(name string) (string, error) // the name of the object by that in the URL; default: the same
	Transport any                               // what is checked before anything else is done, by whoever serves the connection
	Requires  []string
	Handler   func(call *Call[T], options *O) any
}

// Describe makes the connection a Subresource.
func (c Connection[T, O]) Describe(of *Resource, _ Env) (Subresource, error) {
	fail := func(err error) (Subresource, error) {
		return Subresource{}, fmt.Errorf("subresource %q: %w", c.Name, err)
	}
	if err := checkObject[T](c.Name, of); err != nil {
		return Subresource{}, err
	}
	if c.Handler == nil {
		return fail(errNoFunction("Handler"))
	}
	options, err := describeOptions[O](c.Kind, of)
	if err != nil {
		return fail(err)
	}
	h := &Handler{Options: options, Paths: c.Paths, Object: c.Object, Transport: c.Transport, Requires: c.Requires, Connect: func(in *Call[Tree], sent Tree) (any, error) {
		call, o, err := callWith[T, O](in, sent)
		if err != nil {
			return nil, err
		}
		return c.Handler(call, o), nil
	}}
	out := Subresource{Name: c.Name, Verbs: slices.Sorted(slices.Values(c.Verbs)), Handlers: map[string]*Handler{}}
	for _, verb := range c.Verbs {
		out.Handlers[verb] = h
	}
	return out, nil
}
