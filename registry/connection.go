package registry

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Connection is a subresource that clients connect to: `pods/exec`. It is the part of rest.Connect that knows no HTTP; use
// that. Handler returns what serves a connection, which the engine hands on without knowing it.
type Connection[T, O any] struct {
	Name  string
	Verbs []string              // of get, create, update, patch and delete
	Kind  meta.GroupVersionKind // of O; default: the Go type's name, in the group and version of the kind

	Paths     bool // URLs may go on below the subresource
	Transport any  // what package rest asks of a request
	Handler   func(call *Call[T], options *O) any
}

// Describe makes the connection a Subresource.
func (c Connection[T, O]) Describe(of *Resource, _ *Types) (Subresource, error) {
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
	h := &Handler{Options: options, Paths: c.Paths, Transport: c.Transport, Connect: func(in *Call[Tree], sent Tree) (any, error) {
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

// Connect prepares a connection to a subresource: the object is there, the options are read from the query, and admission has
// seen them, as operation CONNECT. It returns what the subresource's Handler made of them. path is what the URL has below the
// subresource.
func (at *Resolved) Connect(ctx context.Context, verb string, parameters url.Values, path string) (any, error) {
	ctx = withObjects(ctx, at.engine)
	e, served, sub, t := at.engine, at.acts, at.Subresource, at.Target
	if err := at.offers(verb); err != nil {
		return nil, err
	}
	connection := sub.handlers[verb]
	if connection == nil || connection.Connect == nil {
		return nil, status.MethodNotAllowed(served.Kind.GroupResource(), verb)
	}
	sent, err := connection.options.read(parameters, t.Name)
	if err != nil {
		return nil, err
	}
	in, err := e.invoke(ctx, served, t)
	if err != nil {
		return nil, err
	}
	in.Path = path
	if sent, err = e.admitConnection(ctx, connection, t, sent); err != nil {
		return nil, err
	}
	return connection.Connect(in, sent)
}

// admitConnection asks admission about the options of a connection.
func (e *Engine) admitConnection(ctx context.Context, c *handler, t Target, sent Tree) (Tree, error) {
	chain, target := e.cfg.Admission, admissionTarget(t, admission.Connect, t.Name)
	mutates, validates := chain.Mutates(target), chain.Validates(target)
	if !mutates && !validates {
		return sent, nil
	}
	request := e.admission(t, admission.Connect, c.options.kind, t.Name)
	request.Object = sent
	request.User, _ = authn.UserFrom(ctx)
	object, changed, err := chain.Mutate(ctx, request)
	if err != nil {
		return nil, err
	}
	if changed {
		object, _ = c.options.schema.Prune(object)
		if object, err = c.options.settle(object, t.Name); err != nil {
			return nil, err
		}
	}
	request.Object = object
	return object, chain.Validate(ctx, request)
}
