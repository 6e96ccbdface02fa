package otel_test

import (
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	wire "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/webhook"
	"github.com/kindwright/kindwright/config"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/tracing"
	"github.com/kindwright/kindwright/tracing/otel"
)

// sink is a collector without TLS that keeps what it gets.
type sink struct {
	collector.UnimplementedTraceServiceServer
	addr string

	mu       sync.Mutex
	spans    []*wire.Span
	resource map[string]string
}

func (s *sink) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range r.ResourceSpans {
		s.resource = map[string]string{}
		for _, a := range of.Resource.Attributes {
			s.resource[a.Key] = a.Value.GetStringValue()
		}
		for _, scope := range of.ScopeSpans {
			s.spans = append(s.spans, scope.Spans...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// named returns the spans of a name.
func (s *sink) named(name string) []*wire.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.spans), func(span *wire.Span) bool { return span.Name != name })
}

func collect(t *testing.T) *sink {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &sink{addr: listener.Addr().String()}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, s)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); require.NoError(t, <-done) })
	return s
}

// host is a server whose requests are followed.
type host struct {
	url      string
	client   *http.Client
	exporter *otel.Exporter
}

func serve(t *testing.T, document string, o otel.Options, more ...kindwright.Option) *host {
	t.Helper()
	c, err := config.ParseTracing([]byte("apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n" + document))
	require.NoError(t, err)
	exporter, err := otel.Open(t.Context(), c, o)
	require.NoError(t, err)
	who := authn.Func(func(r *http.Request) (authn.User, bool, error) {
		name := r.Header.Get("X-User")
		return authn.User{Name: name, Groups: []string{r.Header.Get("X-Group")}}, name != "", nil
	})
	b := memory.New()
	srv, err := kindwright.New(b, append(more, kindwright.Serve(kinds.ConfigMaps(), kinds.ControlPlane()), kindwright.Authenticate(who), kindwright.TraceTo(exporter))...)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	web := httptest.NewServer(srv)
	t.Cleanup(func() {
		web.Close()
		cancel()
		srv.Wait()
		require.NoError(t, b.Close())
	})
	return &host{web.URL, web.Client(), exporter}
}

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	sampled = "00-" + traceID + "-b7ad6b7169203331-01"
	maps    = "/api/v1/namespaces/default/configmaps"
)

// ask sends a request and returns the code.
func (h *host) ask(t *testing.T, method, path, body string, headers ...string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, h.url+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("X-User", "admin")
	r.Header.Set("X-Group", "system:masters")
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := h.client.Do(r)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode
}

// flush ends the exporter, after which the collector has all spans. The server tells of the last request
// when its client has the answer already, so that the spans of that one may come too late: a request whose
// spans are looked at is followed by another one on the same connection.
func (h *host) flush(t *testing.T) {
	t.Helper()
	require.Equal(t, 200, h.ask(t, "GET", "/version", ""))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, h.exporter.Shutdown(ctx))
}

// attributes are the texts and numbers of a span.
func attributes(s *wire.Span) map[string]any {
	out := map[string]any{}
	for _, a := range s.Attributes {
		if n := a.Value.GetIntValue(); n != 0 {
			out[a.Key] = n
		} else {
			out[a.Key] = a.Value.GetStringValue()
		}
	}
	return out
}

// A request that its sender has followed belongs to the sender's trace, in a collector without TLS; a
// request without that header is not followed.
func TestTRACE_01_02_04_ARequestJoinsTheTraceOfItsSender(t *testing.T) {
	s := collect(t)
	var told string
	hook := asking(t, func(r *http.Request) { told = r.Header.Get("Traceparent") })
	h := serve(t, "endpoint: "+s.addr, otel.Options{Instance: "one"}, kindwright.Authorize(hook))
	require.Equal(t, 201, h.ask(t, "POST", maps, `{"metadata":{"name":"a"}}`, "Traceparent", sampled, "X-Group", "system:monitoring", "User-Agent", "curl\xff"))
	require.Equal(t, 201, h.ask(t, "POST", maps, `{"metadata":{"name":"b"}}`))
	require.Equal(t, 201, h.ask(t, "POST", maps, `{"metadata":{"name":"c"}}`, "Traceparent", sampled[:len(sampled)-1]+"0"))
	h.flush(t)

	all := s.named("POST /api/v1/namespaces/{:namespace}/configmaps")
	require.Len(t, all, 1, "the others' senders did not ask for it")
	require.Equal(t, map[string]string{"service.name": "apiserver", "service.instance.id": "one"}, s.resource)
	root := all[0]
	require.Equal(t, traceID, hex.EncodeToString(root.TraceId))
	require.Equal(t, "b7ad6b7169203331", hex.EncodeToString(root.ParentSpanId))
	got := attributes(root)
	for key, want := range map[string]any{
		"http.request.method": "POST", "url.path": maps, "url.scheme": "http", "network.protocol.version": "1.1",
		"user_agent.original": "curl?", "client.address": "127.0.0.1", "http.response.status_code": int64(201),
		"http.route": "/api/v1/namespaces/{:namespace}/configmaps", "server.address": "127.0.0.1",
	} {
		require.Equal(t, want, got[key], key)
	}
	require.NotEmpty(t, got["audit-id"])
	for _, part := range []string{"authentication", "authorization", "storage"} {
		require.Len(t, s.named(part), 1, part)
		require.Equal(t, root.SpanId, s.named(part)[0].ParentSpanId)
	}
	require.GreaterOrEqual(t, s.named("authentication")[0].StartTimeUnixNano, root.StartTimeUnixNano)
	calls := s.named("POST")
	require.Len(t, calls, 1)
	require.Equal(t, root.SpanId, calls[0].ParentSpanId)
	require.Equal(t, "00-"+traceID+"-"+hex.EncodeToString(calls[0].SpanId)+"-01", told, "the webhook is told of the call")
	require.Equal(t, "/decide", attributes(calls[0])["url.path"])
	for _, span := range s.spans {
		require.NotContains(t, span.String(), "secret", "a query may hold credentials")
	}
}

// asking is an authorizer that allows everything and has each request to it looked at.
func asking(t *testing.T, look func(r *http.Request)) authz.Authorizer {
	t.Helper()
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		look(r)
		_, _ = io.WriteString(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}`)
	}))
	t.Cleanup(back.Close)
	hook, err := webhook.New(webhook.Connection{URL: back.URL + "/decide?token=secret"}, webhook.Options{Version: "v1"})
	require.NoError(t, err)
	return hook
}

// TRACE-03: a rate of a million follows everything, and nobody but those who are trusted decides to which
// trace a request belongs.
func TestTRACE_03_ARate(t *testing.T) {
	s := collect(t)
	h := serve(t, "samplingRatePerMillion: 1000000\nendpoint: "+s.addr, otel.Options{Service: "shop"}, kindwright.Authorize(authz.AlwaysAllow()))
	require.Equal(t, 200, h.ask(t, "GET", maps, "", "X-Group", "ops", "Traceparent", sampled, "Baggage", "a=b"))
	require.Equal(t, 404, h.ask(t, "GET", maps+"/x", ""))
	require.Equal(t, 404, h.ask(t, "GET", maps+"/y", "", "Traceparent", sampled[:len(sampled)-1]+"0"))
	h.flush(t)
	require.Equal(t, "shop", s.resource["service.name"])
	lists := s.named("GET /api/v1/namespaces/{:namespace}/configmaps")
	require.Len(t, lists, 1)
	require.NotEqual(t, traceID, hex.EncodeToString(lists[0].TraceId))
	require.Empty(t, lists[0].ParentSpanId)
	require.Equal(t, traceID, hex.EncodeToString(lists[0].Links[0].TraceId))
	gets := s.named("GET /api/v1/namespaces/{:namespace}/configmaps/{:name}")
	require.Len(t, gets, 1, "a trusted sender who has a trace, but not this request, followed, is obeyed")
	require.EqualValues(t, 404, attributes(gets[0])["http.response.status_code"])
}

// A collector that is not there costs requests nothing, and the log says so.
func TestTRACE_01_NoCollector(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := listener.Addr().String()
	require.NoError(t, listener.Close())
	var mu sync.Mutex
	var lines []string
	log := funcr.New(func(_, line string) { mu.Lock(); defer mu.Unlock(); lines = append(lines, line) }, funcr.Options{})
	h := serve(t, "samplingRatePerMillion: 1000000\nendpoint: "+addr, otel.Options{Log: log})
	require.Equal(t, 200, h.ask(t, "GET", maps, ""))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_ = h.exporter.Shutdown(ctx) // in vain
	require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(lines) > 0 }, 10*time.Second, time.Millisecond)
	mu.Lock()
	defer mu.Unlock()
	require.Contains(t, lines[0], "spans could not be sent")
}

func TestTRACE_05_ABadConfigurationIsRefused(t *testing.T) {
	rate := int32(-1)
	_, err := otel.Open(t.Context(), config.TracingConfiguration{SamplingRatePerMillion: &rate}, otel.Options{})
	require.ErrorContains(t, err, "samplingRatePerMillion")
}

// A program's own provider gets the spans, and its own code finds the span of the request.
func TestTRACE_05_AProviderOfTheProgram(t *testing.T) {
	kept := tracetest.NewInMemoryExporter()
	p := trace.NewTracerProvider(trace.WithSyncer(kept))
	r := httptest.NewRequest("GET", "/version", nil)
	ctx, span := otel.New(p).Begin(t.Context(), tracing.Request{Name: "GET", HTTP: r, Start: time.Now()})
	require.True(t, api.SpanContextFromContext(ctx).IsValid())
	span.Call(httptest.NewRequest("BREW", "https://user:password@pot.example/tea?key=secret", nil)).End(0, io.EOF)
	span.End(tracing.Answer{Code: 500, Aborted: true})
	require.Len(t, kept.GetSpans(), 2)
	require.Equal(t, "_OTHER", kept.GetSpans()[0].Name)
	for _, s := range kept.GetSpans() {
		for _, a := range s.Attributes {
			require.NotContains(t, a.Value.String(), "password")
			require.NotContains(t, a.Value.String(), "secret")
		}
	}
}
