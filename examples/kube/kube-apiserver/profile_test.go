package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// The profiles are on a socket that nobody else may open, beside a port that asks who they are.
func TestFLAG_DebugSocketPath(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	left, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	require.NoError(t, err)
	left.(*net.UnixListener).SetUnlinkOnClose(false) // as after a kill
	require.NoError(t, left.Close())
	s := run(t, "--data-dir="+t.TempDir(), "--debug-socket-path="+socket, "--contention-profiling")
	t.Cleanup(func() { runtime.SetBlockProfileRate(0) })
	info, err := os.Stat(socket)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	for path, want := range map[string]int{"/debug/pprof/goroutine?debug=1": 200, "/debug/pprof/": 200, "/debug/pprof/nonsense": 404, "/api": 404} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://socket"+path, nil)
		require.NoError(t, err)
		res, err := client.Do(r)
		require.NoError(t, err)
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, want, res.StatusCode, path)
		require.NotEmpty(t, text)
	}
	s.stop()
	require.NoFileExists(t, socket)

	file := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Contains(t, refused(t, "--data-dir="+t.TempDir(), "--debug-socket-path="+file), "exists and is no socket")
	require.FileExists(t, file)
}

// Each line is a JSON object with the members that the components of Kubernetes write.
func TestFLAG_LoggingFormat(t *testing.T) {
	s := run(t, "--data-dir="+t.TempDir(), "--logging-format=json", "-v=2")
	s.stop()
	var lines []map[string]any
	for line := range bytes.Lines([]byte(s.log.String())) {
		if !bytes.HasPrefix(line, []byte("{")) {
			continue // what the program says to people
		}
		var one map[string]any
		require.NoError(t, json.Unmarshal(line, &one), "%s", line)
		require.IsType(t, 0.0, one["ts"])
		require.NotEmpty(t, one["msg"])
		require.NotContains(t, one, "time")
		require.NotContains(t, one, "level")
		lines = append(lines, one)
	}
	require.NotEmpty(t, lines)
	require.Contains(t, refused(t, "--data-dir="+t.TempDir(), "--logging-format=xml"), `--logging-format "xml": must be text or json`)
}

func TestFLAG_DisableHTTP2Serving(t *testing.T) {
	for arg, want := range map[string]int{"--disable-http2-serving": 1, "--disable-http2-serving=false": 2} {
		s := run(t, "--data-dir="+t.TempDir(), arg)
		transport := s.client.Transport.(*http.Transport).Clone()
		transport.ForceAttemptHTTP2 = true
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/version", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer master")
		res, err := transport.RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		transport.CloseIdleConnections()
		require.Equal(t, want, res.ProtoMajor)
		s.stop()
	}
}

func TestFLAG_KubernetesServiceNodePort(t *testing.T) {
	dir := t.TempDir()
	const path = "/api/v1/namespaces/default/services/kubernetes"
	s := run(t, "--data-dir="+dir, "--kubernetes-service-node-port=30123")
	_, said := s.do(t, "master", "GET", path, "")
	spec := said["spec"].(map[string]any)
	require.Equal(t, "NodePort", spec["type"])
	require.EqualValues(t, 30123, spec["ports"].([]any)[0].(map[string]any)["nodePort"])
	s.stop()

	s = run(t, "--data-dir="+dir)
	_, said = s.do(t, "master", "GET", path, "")
	require.Equal(t, "ClusterIP", said["spec"].(map[string]any)["type"], "the flag is gone, and with it the port")
	s.stop()
	require.Contains(t, refused(t, "--data-dir="+dir, "--kubernetes-service-node-port=80"), "--kubernetes-service-node-port 80: must be 0 or a port of")
}
