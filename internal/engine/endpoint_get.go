package engine

import (
	"context"
	"fmt"
	"io"
	"net/url"

	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Ask runs a subresource that answers a question about an object. parameters come from the URL's
// query.
func (at *Resolved) Ask(ctx context.Context, parameters url.Values) (*registry.Result, error) {
	ctx = at.HookContext(ctx)
	e, served, sub, t := at.engine, at.acts, at.Subresource, at.Target
	if sub == nil || !sub.Asks() {
		return nil, status.MethodNotAllowed(served.Kind.GroupResource(), "get")
	}
	query := sub.handlers["get"]
	sent, err := query.options.read(parameters, t.Name)
	if err != nil {
		return nil, err
	}
	in, err := e.invoke(ctx, served, t)
	if err != nil {
		return nil, err
	}
	if err := at.requested(ctx, request.VerbGet, served.Kind, in.Target.Namespace, in.Target.Name); err != nil {
		return nil, err
	}
	answer, err := query.Run(ctx, in, sent)
	if err != nil {
		return nil, status.From(err)
	}
	return documentResult(query.answer.GroupVersionKind(), answer, false)
}

// Open opens the stream of a subresource. The caller closes it.
func (at *Resolved) Open(ctx context.Context, parameters url.Values) (io.ReadCloser, error) {
	ctx = at.HookContext(ctx)
	e, served, sub, t := at.engine, at.acts, at.Subresource, at.Target
	if sub == nil || !sub.Streams("get") {
		return nil, status.MethodNotAllowed(served.Kind.GroupResource(), "get")
	}
	stream := sub.handlers["get"]
	sent, err := stream.options.read(parameters, t.Name)
	if err != nil {
		return nil, err
	}
	in, err := e.invoke(ctx, served, t)
	if err != nil {
		return nil, err
	}
	if err := at.requested(ctx, request.VerbGet, served.Kind, in.Target.Namespace, in.Target.Name); err != nil {
		return nil, err
	}
	out, err := stream.Open(ctx, in, sent)
	switch {
	case err != nil:
		return nil, status.From(err)
	case out == nil:
		return nil, status.Internal(fmt.Errorf("subresource %q opened nothing", sub.Name))
	}
	return out, nil
}
