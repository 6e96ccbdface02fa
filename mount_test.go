package kindwright_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage/memory"
)

// logged is the kind of ResponseWriter that a host's middleware puts in front of its handlers.
type logged struct {
	http.ResponseWriter
	code int
}

func (l *logged) WriteHeader(code int) { l.code = code; l.ResponseWriter.WriteHeader(code) }

// transparent also tells http.ResponseController what it wraps, as middleware should.
type transparent struct{ logged }

func (l *transparent) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// flushing is older middleware: it can flush, and hides everything else.
type flushing struct{ logged }

func (l *flushing) Flush() { l.ResponseWriter.(http.Flusher).Flush() }

// mounted serves an API below /shop of a host whose server cuts answers off after timeout.
func mounted(t *testing.T, timeout time.Duration, wrap func(http.ResponseWriter) http.ResponseWriter) string {
	t.Helper()
	b := memory.New()
	srv, err := kindwright.New(b, kindwright.Serve(gadgets(), kinds.ControlPlane()), kindwright.Authenticate(header), kindwright.HTTP{PathPrefix: "/shop"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	mux := http.NewServeMux()
	mux.Handle("/shop/", srv)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { mux.ServeHTTP(wrap(w), r) }))
	web.Config.WriteTimeout, web.Config.ReadTimeout = timeout, timeout
	web.Start()
	t.Cleanup(func() {
		cancel()
		web.Close()
		srv.Wait()
		require.NoError(t, b.Close())
	})
	return web.URL
}

func TestRule25_MountedBelowAPathOfAHost(t *testing.T) {
	url := mounted(t, time.Minute, func(w http.ResponseWriter) http.ResponseWriter { return &transparent{logged{ResponseWriter: w}} })
	h := &host{url: url, t: t}
	require.Equal(t, http.StatusTeapot, h.request("GET", gadgetPath, "").StatusCode, "the rest is the host's")
	code, _ := h.do("POST", "/shop"+gadgetPath, `{"metadata":{"name":"x"}}`)
	require.Equal(t, 201, code)
	code, got := h.do("GET", "/shop/openapi/v3", "")
	require.Equal(t, 200, code)
	link, ok := field(got, "paths", "apis/example.dev/v1", "serverRelativeURL").(string)
	require.True(t, ok, "%v", got)
	require.Regexp(t, `^/shop/openapi/v3/apis/example\.dev/v1\?hash=`, link)
	code, _ = h.do("GET", link, "")
	require.Equal(t, 200, code)
	require.Equal(t, 200, h.request("GET", "/shop/healthz", "", "X-User", "").StatusCode)
	code, got = h.do("GET", "/shop/apis", "")
	require.Equal(t, 200, code)
	require.Equal(t, "APIGroupList", got["kind"])
}

func TestAHostsWriteTimeoutDoesNotCutAWatch(t *testing.T) {
	const timeout = 500 * time.Millisecond
	url := mounted(t, timeout, func(w http.ResponseWriter) http.ResponseWriter { return &transparent{logged{ResponseWriter: w}} })
	h := &host{url: url, t: t}
	next := h.stream("/shop" + gadgetPath + "?watch=1&timeoutSeconds=2")
	began := time.Now()
	require.Nil(t, next(), "the watch ends by its own time-out, in order")
	require.Greater(t, time.Since(began), 2*timeout)
}

func TestAWatchBehindAWriterThatHidesDeadlinesEndsInOrderBeforeTheHostCutsIt(t *testing.T) {
	url := mounted(t, time.Second, func(w http.ResponseWriter) http.ResponseWriter { return &flushing{logged{ResponseWriter: w}} })
	h := &host{url: url, t: t}
	h.do("POST", "/shop"+gadgetPath, `{"metadata":{"name":"x"}}`)
	res := h.request("GET", "/shop"+gadgetPath+"?watch=1", "")
	lines := bufio.NewScanner(res.Body)
	n := 0
	for lines.Scan() {
		var event map[string]any
		require.NoError(t, json.Unmarshal(lines.Bytes(), &event))
		n++
	}
	require.NoError(t, lines.Err(), "no connection is broken off")
	require.Equal(t, 1, n)
}
