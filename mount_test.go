package kindwright_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
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

// mounted serves an API below /shop of a host whose server cuts answers off after timeout. Its
// connections are in memory, so that a test can run in virtual time.
func mounted(t *testing.T, timeout time.Duration, wrap func(http.ResponseWriter) http.ResponseWriter, opts ...kindwright.Option) *host {
	t.Helper()
	return behind(t, timeout, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(wrap(w), r) })
	}, opts...)
}

// behind is mounted with any middleware.
func behind(t *testing.T, timeout time.Duration, middleware func(http.Handler) http.Handler, opts ...kindwright.Option) *host {
	t.Helper()
	b := memory.New()
	base := []kindwright.Option{kindwright.Serve(gadgets(), kinds.ControlPlane()), kindwright.Authenticate(header), kindwright.HTTP{PathPrefix: "/shop"}}
	srv, err := kindwright.New(b, append(base, opts...)...)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	mux := http.NewServeMux()
	mux.Handle("/shop/", srv)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	pipes := &pipeListener{opened: make(chan net.Conn), closed: make(chan struct{})}
	web := &http.Server{
		Handler:     middleware(mux),
		ReadTimeout: timeout, WriteTimeout: timeout,
	}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(pipes) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, web.Close())
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
		srv.Wait()
		require.NoError(t, b.Close())
	})
	return &host{Server: srv, url: "http://host", t: t, dial: pipes.dial}
}

// pipeListener listens for connections in memory.
type pipeListener struct {
	opened chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.opened <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.opened:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func TestRule25_MountedBelowAPathOfAHost(t *testing.T) {
	h := mounted(t, time.Minute, func(w http.ResponseWriter) http.ResponseWriter { return &transparent{logged{ResponseWriter: w}} })
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
	synctest.Test(t, func(t *testing.T) {
		h := mounted(t, 10*time.Second, func(w http.ResponseWriter) http.ResponseWriter { return &transparent{logged{ResponseWriter: w}} })
		next := h.stream("/shop" + gadgetPath + "?watch=1&timeoutSeconds=60")
		began := time.Now()
		require.Nil(t, next(), "the watch ends by its own time-out, in order")
		require.Equal(t, time.Minute, time.Since(began))
	})
}

func TestAWatchBehindAWriterThatHidesDeadlinesEndsInOrderBeforeTheHostCutsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := mounted(t, 10*time.Second, func(w http.ResponseWriter) http.ResponseWriter { return &flushing{logged{ResponseWriter: w}} })
		h.do("POST", "/shop"+gadgetPath, `{"metadata":{"name":"x"}}`)
		began := time.Now()
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
		require.Equal(t, 9*time.Second, time.Since(began))
	})
}
