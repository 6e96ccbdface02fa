package otel

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/kindwright/kindwright/tracing"
)

// scope names the spans of this package among those of other libraries.
const scope = "github.com/kindwright/kindwright"

// New returns a tracer whose spans belong to a provider. The caller shuts the provider down after the server.
func New(p trace.TracerProvider) tracing.Tracer { return &tracer{by: p.Tracer(scope)} }

// tracer begins the spans of requests.
type tracer struct {
	by        trace.Tracer
	onDemand  bool // nobody but a trusted sender has a request followed
	baggage   propagation.Baggage
	propagate propagation.TraceContext
}

// Begin begins the span of a request.
// Source: TRACE-04.
func (t *tracer) Begin(ctx context.Context, r tracing.Request) (context.Context, tracing.Span) {
	header := propagation.HeaderCarrier(r.HTTP.Header)
	remote := trace.SpanContextFromContext(t.propagate.Extract(context.Background(), header))
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(r.Start)}
	switch {
	case r.Trusted && remote.IsValid():
		ctx = t.baggage.Extract(trace.ContextWithRemoteSpanContext(ctx, remote), header)
	case t.onDemand:
		return ctx, nil
	default:
		options = append(options, trace.WithNewRoot())
		if remote.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: remote}))
		}
	}
	ctx, s := t.by.Start(ctx, strings.ToValidUTF8(r.Name, "?"), options...)
	if !s.SpanContext().IsValid() {
		return ctx, nil
	}
	if s.IsRecording() {
		s.SetAttributes(attributes(r)...)
	}
	return ctx, &span{of: t, ctx: ctx, span: s}
}

// attributes describe a request.
func attributes(r tracing.Request) []attribute.KeyValue {
	h := r.HTTP
	out := []attribute.KeyValue{
		text("http.request.method", method(h.Method)),
		text("url.path", h.URL.Path),
		text("url.scheme", scheme(h)),
		text("network.protocol.version", protocol(h)),
		text("user_agent.original", h.UserAgent()),
		text("audit-id", r.AuditID),
	}
	if _, route, ok := strings.Cut(r.Name, " "); ok {
		out = append(out, text("http.route", route))
	}
	if host, _, err := net.SplitHostPort(h.RemoteAddr); err == nil {
		out = append(out, text("client.address", host))
	}
	return append(out, server(h.Host)...)
}

// methods are those that spans are named after.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"}

// method is a method as the conventions know it.
func method(m string) string {
	if slices.Contains(methods, m) {
		return m
	}
	return "_OTHER"
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

func protocol(r *http.Request) string {
	if r.ProtoMajor == 1 {
		return "1." + strconv.Itoa(r.ProtoMinor)
	}
	return strconv.Itoa(r.ProtoMajor)
}

// server tells a host and its port.
func server(at string) []attribute.KeyValue {
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return []attribute.KeyValue{text("server.address", at)}
	}
	out := []attribute.KeyValue{text("server.address", host)}
	if n, err := strconv.Atoi(port); err == nil {
		out = append(out, attribute.Int("server.port", n))
	}
	return out
}

// text is an attribute whose value came from outside. A value that is not UTF-8 would cost the collector all
// spans that it was sent with.
func text(key, value string) attribute.KeyValue {
	return attribute.String(key, strings.ToValidUTF8(value, "?"))
}

// span is a request that is followed.
type span struct {
	of   *tracer
	ctx  context.Context
	span trace.Span
}

// Part tells of a part of the work.
func (s *span) Part(name string, start, end time.Time) {
	if s.span.IsRecording() {
		_, part := s.of.by.Start(s.ctx, name, trace.WithTimestamp(start))
		part.End(trace.WithTimestamp(end))
	}
}

// Call begins a request to another server. Credentials may be in the query of its address, or in front of
// the host: neither is told.
func (s *span) Call(r *http.Request) tracing.Call {
	ctx, c := s.of.by.Start(s.ctx, method(r.Method), trace.WithSpanKind(trace.SpanKindClient))
	if c.IsRecording() {
		c.SetAttributes(text("http.request.method", method(r.Method)), text("url.scheme", r.URL.Scheme), text("url.path", r.URL.Path))
		c.SetAttributes(server(r.URL.Host)...)
	}
	to := propagation.HeaderCarrier(r.Header)
	s.of.propagate.Inject(ctx, to)
	s.of.baggage.Inject(ctx, to)
	return call{c}
}

// End ends the span.
func (s *span) End(a tracing.Answer) {
	if a.Code != 0 {
		s.span.SetAttributes(attribute.Int("http.response.status_code", a.Code), attribute.Int64("http.response.body.size", a.Bytes))
	}
	switch {
	case a.Aborted:
		s.span.SetStatus(codes.Error, "the answer was broken off")
	case a.Code >= http.StatusInternalServerError:
		s.span.SetStatus(codes.Error, http.StatusText(a.Code))
	}
	s.span.End()
}

// call is a request to another server.
type call struct{ span trace.Span }

// End ends the call.
func (c call) End(code int, err error) {
	switch {
	case err != nil:
		c.span.SetStatus(codes.Error, "no answer") // the text of an error may have the whole address
	case code >= http.StatusBadRequest:
		c.span.SetStatus(codes.Error, http.StatusText(code))
	}
	if code != 0 {
		c.span.SetAttributes(attribute.Int("http.response.status_code", code))
	}
	c.span.End()
}
