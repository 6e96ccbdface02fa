package request

import (
	"context"
	"time"

	"github.com/kindwright/kindwright/tracing"
)

// trace is the span of a request that is followed, and the context that its tracer made.
type trace struct {
	context.Context // derived from the one around the exchange, so that it never asks the exchange
	span            tracing.Span
}

// Around returns the context that the exchange lies in, which knows nothing of it.
func (x *Exchange) Around() context.Context { return x.Context }

// Follow has the parts of the request told to span. The exchange has the values of ctx from then on,
// which must be derived from Around.
func (x *Exchange) Follow(ctx context.Context, span tracing.Span) {
	x.trace.Store(&trace{tracing.NewContext(ctx, span), span})
	now := time.Now()
	for p, took := range x.Spent {
		span.Part(p.spanName(), now.Add(-took), now)
	}
}

// Span returns what Follow was called with, or nil.
func (x *Exchange) Span() tracing.Span {
	if t := x.trace.Load(); t != nil {
		return t.span
	}
	return nil
}

// Route is the path of a resource without the names of namespaces and objects, or "" for any other
// path. Spans are named so, as those of Kubernetes.
func (i *Info) Route() string {
	if !i.IsResource {
		return ""
	}
	route := "/" + i.APIPrefix
	if i.Group != "" {
		route += "/" + i.Group
	}
	route += "/" + i.Version
	if i.Namespace != "" {
		route += "/namespaces/{:namespace}"
	}
	route += "/" + i.Resource
	if i.Name != "" {
		route += "/{:name}"
	}
	if i.Subresource != "" {
		route += "/" + i.Subresource
	}
	return route
}
