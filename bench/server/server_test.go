package server_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/bench/limit"
	"github.com/kindwright/kindwright/bench/server"
	"github.com/kindwright/kindwright/bench/shape"
)

func TestMain(m *testing.M) {
	if server.IsChild() {
		os.Exit(server.Main())
	}
	os.Exit(m.Run())
}

func TestChildServesAndEnds(t *testing.T) {
	id, err := server.NewIdentity("secret")
	require.NoError(t, err)
	for _, backend := range []server.Backend{server.Memory, server.Bolt, server.Limit} {
		t.Run(string(backend), func(t *testing.T) {
			dir := t.TempDir()
			child, err := server.Start(t.Context(), id, backend, dir, limit.Faults{})
			require.NoError(t, err)
			stopped := false
			defer func() {
				if !stopped {
					assert.NoError(t, child.Stop())
				}
			}()
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: id.TLS(), ForceAttemptHTTP2: true}}
			defer client.CloseIdleConnections()
			for _, s := range []shape.Shape{shape.ConfigMap(), shape.Gadget()} {
				body := string(s.Body.Append(nil, shape.Values{Name: "one", Index: 7}))
				code, text, proto := post(t, client, child.URL+s.In("default"), "secret", body)
				require.Equal(t, http.StatusCreated, code, text)
				assert.Equal(t, 2, proto)
				assert.Contains(t, text, `"one"`)
			}
			if backend != server.Limit {
				code, _, _ := post(t, client, child.URL+shape.Gadget().In("default"), "wrong", "{}")
				assert.Equal(t, http.StatusUnauthorized, code)
			}
			heap, err := child.LiveHeap(t.Context())
			require.NoError(t, err)
			assert.Positive(t, heap)
			_, err = child.StopProfile(t.Context())
			require.ErrorContains(t, err, "no profile was started")
			require.NoError(t, child.StartProfile(t.Context()))
			require.Error(t, child.StartProfile(t.Context()), "one at a time")
			profile, err := child.StopProfile(t.Context())
			require.NoError(t, err)
			assert.Equal(t, "\x1f\x8b", string(profile[:2]), "gzip, as go tool pprof reads it")
			profile, err = child.HeapProfile(t.Context())
			require.NoError(t, err)
			assert.Equal(t, "\x1f\x8b", string(profile[:2]))
			_, err = child.Processes.CPU()
			require.NoError(t, err)

			client.CloseIdleConnections()
			stopped = true
			require.NoError(t, child.Stop())
			left, err := filepath.Glob(filepath.Join(dir, "*"))
			require.NoError(t, err)
			assert.Empty(t, left)
			_, err = child.Processes.Resident()
			require.Error(t, err, "the process is gone")
		})
	}
}

func post(t *testing.T, client *http.Client, url, token, body string) (code int, text string, proto int) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(answer), res.ProtoMajor
}

func TestChildThatCannotServe(t *testing.T) {
	id, err := server.NewIdentity("secret")
	require.NoError(t, err)
	_, err = server.Start(context.Background(), id, "nosuch", t.TempDir(), limit.Faults{})
	require.ErrorContains(t, err, "the nosuch server did not start")
	_, err = server.Start(context.Background(), id, server.Memory, filepath.Join(t.TempDir(), "missing"), limit.Faults{})
	require.Error(t, err)
}
