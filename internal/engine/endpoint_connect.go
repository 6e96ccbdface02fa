package engine

import (
	"context"
	"maps"
	"net/url"
	"slices"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Connect prepares a connection to a subresource and returns what the subresource's Handler makes
// of it. It reads the options from the query, reads the object, which must exist, and has admission
// check the options as operation CONNECT. path is the part of the URL below the subresource.
func (at *Resolved) Connect(ctx context.Context, verb string, parameters url.Values, path string) (any, error) {
	ctx = at.HookContext(ctx)
	handler := at.Subresource.handlers[verb]
	if handler == nil || handler.Connect == nil {
		return nil, status.MethodNotAllowed(at.acts.Kind.GroupResource(), verb)
	}
	c := &connecting{Resolved: at, verb: verb, handler: handler, parameters: parameters, path: path}
	c.user, _ = authn.UserFrom(ctx)
	if err := run(ctx, connectSteps, c); err != nil {
		return nil, err
	}
	return c.result, nil
}

// HookContext returns the context of a hook that is called for a request. It knows the server's
// objects, which registry.For finds there.
func (at *Resolved) HookContext(ctx context.Context) context.Context {
	return hookcontext.WithObjects(ctx, at.engine)
}

// connecting is a connection in preparation.
type connecting struct {
	*Resolved
	verb       string
	handler    *handler
	parameters url.Values
	path       string
	user       authn.User

	options registry.Tree
	call    *registry.Call[registry.Tree]
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

// checkRequired comes first: whether an object is there is not for everybody.
func checkRequired(ctx context.Context, c *connecting) error {
	for _, verb := range c.handler.Requires {
		if verb == c.verb {
			continue // the request itself was authorized
		}
		if err := registry.Require(ctx, verb, c.Target); err != nil {
			return err
		}
	}
	return nil
}

// readOptions reads the query. Options that have a path have that of the URL, whatever the query says.
func readOptions(ctx context.Context, c *connecting) (err error) {
	o, query := c.handler.options, c.parameters
	if c.handler.Paths && slices.ContainsFunc(o.parameters, func(p openapi.Property) bool { return p.Name == "path" && p.Schema.Type == openapi.String }) {
		query = url.Values{}
		maps.Copy(query, c.parameters)
		if query.Del("path"); c.path != "" {
			query.Set("path", c.path)
		}
	}
	c.options, err = o.read(query, c.Target.Name)
	return err
}

func readConnected(ctx context.Context, c *connecting) (err error) {
	at := c.Target
	if find := c.handler.Object; find != nil {
		if at.Name, err = find(at.Name); err != nil {
			return err
		}
	}
	if c.call, err = c.engine.invoke(ctx, c.acts, at); err == nil {
		c.call.Target, c.call.Path = c.Target, c.path
	}
	return err
}

func mutateOptions(ctx context.Context, c *connecting) error {
	t, changed, err := c.engine.mutate(ctx, c)
	if err != nil || !changed {
		return err
	}
	t, _ = c.handler.options.schema.Prune(t)
	c.options, err = c.handler.options.settle(t, c.Target.Name)
	return err
}

func admitOptions(ctx context.Context, c *connecting) error { return c.engine.admit(ctx, c) }

func connect(ctx context.Context, c *connecting) (err error) {
	if err := c.requested(ctx, c.verb, c.acts.Kind, c.call.Target.Namespace, c.call.Target.Name); err != nil {
		return err
	}
	c.result, err = c.handler.Connect(c.call, c.options)
	return err
}
