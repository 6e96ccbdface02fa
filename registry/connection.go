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
	if err := at.offers(verb); err != nil {
		return nil, err
	}
	handler := at.Subresource.handlers[verb]
	if handler == nil || handler.Connect == nil {
		return nil, status.MethodNotAllowed(at.acts.Kind.GroupResource(), verb)
	}
	c := &connecting{Resolved: at, handler: handler, parameters: parameters, path: path}
	c.user, _ = authn.UserFrom(ctx)
	if err := run(ctx, connectSteps, c); err != nil {
		return nil, err
	}
	return c.result, nil
}

// connecting is a connection while it is prepared.
type connecting struct {
	*Resolved
	handler    *handler
	parameters url.Values
	path       string
	user       authn.User

	options Tree
	call    *Call[Tree]
	result  any
}

func (c *connecting) ended() bool { return c.result != nil }

func (c *connecting) admissionTarget() admission.Target {
	return admissionTarget(c.Target, admission.Connect, c.Target.Name)
}

// admission shows plugins the options as the object of the operation.
func (c *connecting) admission() *admission.Request {
	return c.engine.admission(c.admissionTarget(), admission.Request{
		Kind: c.handler.options.kind, Name: c.Target.Name, Object: c.options, User: c.user,
	})
}

func readOptions(ctx context.Context, c *connecting) (err error) {
	c.options, err = c.handler.options.read(ctx, c.parameters, c.Target.Name)
	return err
}

func readConnected(ctx context.Context, c *connecting) (err error) {
	if c.call, err = c.engine.invoke(ctx, c.acts, c.Target); err == nil {
		c.call.Path = c.path
	}
	return err
}

func mutateOptions(ctx context.Context, c *connecting) error {
	t, changed, err := c.engine.mutate(ctx, c)
	if err != nil || !changed {
		return err
	}
	t, _ = c.handler.options.schema.Prune(t)
	c.options, err = c.handler.options.settle(ctx, t, c.Target.Name)
	return err
}

func admitOptions(ctx context.Context, c *connecting) error { return c.engine.admit(ctx, c) }

func connect(_ context.Context, c *connecting) (err error) {
	c.result, err = c.handler.Connect(c.call, c.options)
	return err
}
