package otel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"

	"github.com/kindwright/kindwright/config"
	"github.com/kindwright/kindwright/tracing"
)

// defaultEndpoint is where the collector is, if the configuration does not say.
const defaultEndpoint = "localhost:4317"

// longestValue bounds the text of an attribute in bytes. Clients choose some of them.
const longestValue = 4 << 10

// Options is what Open needs beside the configuration. The zero value stands for the defaults.
type Options struct {
	// Service and Instance name the server in its spans: service.name and service.instance.id.
	// Default: apiserver, and no instance.
	Service, Instance string

	// Dial, if not nil, connects to the collector, for example through a proxy.
	Dial func(ctx context.Context, address string) (net.Conn, error)

	// Log is told of spans that could not be sent. Default: nobody is.
	Log logr.Logger
}

// Exporter is a tracer that sends its spans to a collector. Spans wait for each other and are dropped when
// too many wait: a collector that is slow or gone costs no request any time.
type Exporter struct {
	tracing.Tracer
	provider *sdktrace.TracerProvider
}

// Open returns an exporter. It does not wait for the collector, which may come later. The caller ends it by
// [Exporter.Shutdown], after the server.
// Source: TRACE-01 to TRACE-04.
func Open(ctx context.Context, c config.TracingConfiguration, o Options) (*Exporter, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("otel: %w", err)
	}
	endpoint, rate := defaultEndpoint, int32(0)
	if c.Endpoint != nil {
		endpoint = cmp.Or(*c.Endpoint, endpoint)
	}
	if c.SamplingRatePerMillion != nil {
		rate = *c.SamplingRatePerMillion
	}
	to := []otlptracegrpc.Option{otlptracegrpc.WithEndpoint(endpoint), otlptracegrpc.WithInsecure()}
	if o.Dial != nil {
		to = append(to, otlptracegrpc.WithDialOption(grpc.WithContextDialer(o.Dial)))
	}
	exporter, err := otlptracegrpc.New(ctx, to...)
	if err != nil {
		return nil, fmt.Errorf("otel: endpoint: %w", err)
	}
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = longestValue
	p := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sampler(rate)),
		sdktrace.WithBatcher(reporting{exporter, o.Log}),
		sdktrace.WithResource(resource.NewSchemaless(named(o)...)),
		sdktrace.WithRawSpanLimits(limits),
	)
	return &Exporter{&tracer{by: p.Tracer(scope), onDemand: rate == 0}, p}, nil
}

// sampler follows what the sender has followed, and else so many of a million.
func sampler(rate int32) sdktrace.Sampler {
	if rate == 0 {
		return sdktrace.ParentBased(sdktrace.NeverSample())
	}
	return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(float64(rate) / 1e6))
}

// named is what all spans of a server have.
func named(o Options) []attribute.KeyValue {
	out := []attribute.KeyValue{attribute.String("service.name", cmp.Or(o.Service, "apiserver"))}
	if o.Instance != "" {
		out = append(out, attribute.String("service.instance.id", o.Instance))
	}
	return out
}

// Shutdown sends the spans that wait and ends the exporter. Spans that cannot be sent until ctx ends are lost.
func (e *Exporter) Shutdown(ctx context.Context) error { return e.provider.Shutdown(ctx) }

// reporting tells a log of spans that could not be sent, and not the handler that all libraries of a process
// share.
type reporting struct {
	sdktrace.SpanExporter
	log logr.Logger
}

// ExportSpans sends spans.
func (r reporting) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := r.SpanExporter.ExportSpans(ctx, spans); err != nil && !errors.Is(err, context.Canceled) {
		r.log.Error(err, "spans could not be sent", "count", len(spans))
	}
	return nil
}
