package tracing

import (
	"context"
	"net/http"
	"time"
)

// A Tracer decides which requests are followed. Its method is called for requests at the same time.
type Tracer interface {
	// Begin begins the span of a request. It returns nil for one that is not followed. The context
	// must be derived from ctx; the code that serves the request finds the values that it adds.
	Begin(ctx context.Context, r Request) (context.Context, Span)
}

// Request is what a tracer is told of a request.
type Request struct {
	// Name is the method and the path with {:namespace} and {:name} in the place of those. It is the
	// method alone for a path that is not one of a resource.
	Name string

	// AuditID is the id of the request's audit record, which answers carry in the header Audit-Id.
	AuditID string

	// Start is when the request came in.
	Start time.Time

	// Trusted says that the sender may decide whether the request is followed. Others could have a
	// server follow all that they send, at the cost of whoever stores the spans. Members of the groups
	// system:masters and system:monitoring are trusted, as in Kubernetes.
	Trusted bool

	// HTTP is the request without its credentials. It must not be changed.
	HTTP *http.Request
}

// Span is a request that is followed. Parts and calls may be told by several goroutines at once, and
// until the request has ended. A method that panics costs the request nothing but the rest of its span.
type Span interface {
	// Part tells of a part of the work that has ended.
	Part(name string, start, end time.Time)

	// Call begins the part that another server does. It adds to r's header what tells that server of
	// the trace.
	Call(r *http.Request) Call

	// End ends the span. It is called once, after the answer.
	End(a Answer)
}

// Call is a request to another server.
type Call interface {
	// End ends the call, with the code of the answer, or with 0 and an error if none came.
	End(code int, err error)
}

// Answer is what a tracer is told of an answer.
type Answer struct {
	Code    int   // 0 if the connection was lost before an answer began
	Bytes   int64 // of the body
	Aborted bool  // the client has no answer, or a part of one
}

// spanKey is the context key of a span.
type spanKey struct{}

// NewContext returns a context that has the span. [FromContext] finds it.
func NewContext(ctx context.Context, s Span) context.Context {
	return context.WithValue(ctx, spanKey{}, s)
}

// FromContext returns the span of the request that a context belongs to, or nil if the request is not
// followed.
func FromContext(ctx context.Context) Span {
	s, _ := ctx.Value(spanKey{}).(Span)
	return s
}

// Send sends a request by a function, such as the Do of a client, and tells the span of the request's
// context. The call ends when the answer begins. A request whose context has no span is handed on as it is.
func Send(r *http.Request, by func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	span := FromContext(r.Context())
	if span == nil {
		return by(r)
	}
	r = r.Clone(r.Context())
	call := span.Call(r)
	res, err := by(r)
	if err != nil {
		call.End(0, err)
		return nil, err
	}
	call.End(res.StatusCode, nil)
	return res, nil
}

// Transport is [Send] for a client or a proxy.
type Transport struct{ Base http.RoundTripper }

// RoundTrip sends a request by Base.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return Send(r, t.Base.RoundTrip)
}
