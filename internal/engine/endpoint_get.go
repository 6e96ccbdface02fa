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
	sub := at.Subresource
	in, sent, err := at.get(ctx, parameters, sub != nil && sub.Asks())
	if err != nil {
		return nil, err
	}
	query := sub.handlers["get"]
	answer, err := query.Run(ctx, in, sent)
	if err != nil {
		return nil, status.From(err)
	}
	return documentResult(query.answer.GroupVersionKind(), answer, false)
}

// Open opens the stream of a subresource. The caller closes it.
func (at *Resolved) Open(ctx context.Context, parameters url.Values) (io.ReadCloser, error) {
	ctx = at.HookContext(ctx)
	sub := at.Subresource
	in, sent, err := at.get(ctx, parameters, sub != nil && sub.Streams("get"))
	if err != nil {
		return nil, err
	}
	out, err := sub.handlers["get"].Open(ctx, in, sent)
	switch {
	case err != nil:
		return nil, status.From(err)
	case out == nil:
		return nil, status.Internal(fmt.Errorf("subresource %q opened nothing", sub.Name))
	}
	return out, nil
}

// get returns what a get of a subresource is called with: the object, and the options that parameters
// say. answers says whether the subresource has such a get.
func (at *Resolved) get(ctx context.Context, parameters url.Values, answers bool) (*registry.Call[registry.Tree], registry.Tree, error) {
	kind := at.acts.Kind
	if !answers {
		return nil, nil, status.MethodNotAllowed(kind.GroupResource(), "get")
	}
	sent, err := at.Subresource.handlers["get"].options.read(parameters, at.Target.Name)
	if err != nil {
		return nil, nil, err
	}
	in, err := at.engine.invoke(ctx, at.acts, at.Target)
	if err != nil {
		return nil, nil, err
	}
	return in, sent, at.requested(ctx, request.VerbGet, kind, in.Target.Namespace, in.Target.Name)
}
