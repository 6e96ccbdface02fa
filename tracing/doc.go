// Package tracing is what a server tells about the way of its requests, for whoever follows them from one
// program to the next.
//
// A [Tracer] begins a [Span] for each request whose sender is known. The server reports the parts of the
// work to the span, such as authorization, webhooks and the store, and asks it for the header fields that
// tell another server of the trace, so that the work of webhooks joins it. The module tracing/otel makes a
// tracer of OpenTelemetry, which sends spans to a collector.
//
// The package only says what is told. It links no library, and a server without a tracer spends nothing.
// Source: TRACE-01 to TRACE-05, W3C Trace Context.
package tracing
