package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/kindwright/kindwright/egress/egresstest"
)

// sink keeps the names of the spans that it is sent.
type sink struct {
	collector.UnimplementedTraceServiceServer
	mu    sync.Mutex
	names map[string]int
}

// Export takes spans.
func (s *sink) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range r.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, span := range scope.Spans {
				s.names[span.Name]++
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// tracingFile writes a TracingConfiguration and returns the flag that names it.
func tracingFile(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tracing.yaml")
	require.NoError(t, os.WriteFile(path, []byte("apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"+body), 0o600))
	return "--tracing-config-file=" + path
}

// The requests of system:masters that ask for it are followed; the spans that wait are sent at the end.
func TestTRACE_05_AFileHasRequestsFollowed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	to := &sink{names: map[string]int{}}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, to)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); require.NoError(t, <-done) })

	tunnel := egresstest.Listen(t)
	selectors := filepath.Join(t.TempDir(), "egress.yaml")
	require.NoError(t, os.WriteFile(selectors, []byte(tunnel.Document("controlplane")), 0o600))
	s := run(t, "--data-dir="+t.TempDir(), tracingFile(t, "endpoint: "+listener.Addr().String()), "--egress-selector-config-file="+selectors)
	for _, header := range []string{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", ""} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/api/v1/namespaces/default", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer master")
		r.Header.Set("Traceparent", header)
		res, err := s.client.Do(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode)
	}
	s.stop()
	require.Equal(t, []string{listener.Addr().String()}, tunnel.Asked(), "EGRESS-13: the collector stands beside the server")
	to.mu.Lock()
	defer to.mu.Unlock()
	require.Equal(t, 1, to.names["GET /api/v1/namespaces/{:name}"], to.names)
}

func TestTRACE_05_BadFilesAreRefused(t *testing.T) {
	data := "--data-dir=" + t.TempDir()
	require.Contains(t, refused(t, data, tracingFile(t, "samplingRatePerMillion: 2000000")), "samplingRatePerMillion: Invalid value: 2000000")
	require.Contains(t, refused(t, data, tracingFile(t, "endpoint: http://x")), "endpoint: Invalid value")
	require.Contains(t, refused(t, data, "--tracing-config-file=/nonexistent"), "--tracing-config-file: open /nonexistent")
	require.Contains(t, refused(t, data, tracingFile(t, ""), "--emulated-version=1.33", "--feature-gates=APIServerTracing=false"), "APIServerTracing is off")
}

// A collector that takes nothing does not hold the end of the server for long.
func TestTRACE_01_ACollectorThatHangs(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	s := run(t, "--data-dir="+t.TempDir(), tracingFile(t, "samplingRatePerMillion: 1000000\nendpoint: "+listener.Addr().String()))
	code, _ := s.do(t, "master", "GET", "/api/v1/namespaces/default", "")
	require.Equal(t, http.StatusOK, code)
	ended := make(chan struct{})
	go func() { defer close(ended); s.stop() }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the server still waits for its collector")
	}
}
