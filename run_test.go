package kindwright_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/internal/selfsigned"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage/memory"
)

// unstartedHost is a server that the test starts itself, in a context that ends with the test.
type unstartedHost struct {
	host
	ctx    context.Context
	cancel context.CancelFunc
}

func unstarted(t *testing.T, opts ...kindwright.Option) *unstartedHost {
	t.Helper()
	b := memory.New()
	base := []kindwright.Option{kindwright.Serve(gadgets(), kinds.ControlPlane()), kindwright.Authenticate(header)}
	srv, err := kindwright.New(b, append(base, opts...)...)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	web := httptest.NewServer(srv)
	t.Cleanup(func() {
		cancel()
		web.Close()
		srv.Wait()
		require.NoError(t, b.Close())
	})
	return &unstartedHost{host{Server: srv, url: web.URL, t: t}, ctx, cancel}
}

func grepped(text, line string) bool { return strings.Contains(text, line) }

// runner is a server under Run.
type runner struct {
	server *kindwright.Server
	addr   string
	client *http.Client
	stop   context.CancelFunc
	done   chan error
}

func startRun(t *testing.T, opts []kindwright.Option, runOpts ...kindwright.RunOption) *runner {
	t.Helper()
	b := memory.New()
	srv, err := kindwright.New(b, append(opts, kindwright.Serve(gadgets(), kinds.ControlPlane()), kindwright.Authenticate(header))...)
	require.NoError(t, err)
	r := runServer(t, srv, runOpts...)
	t.Cleanup(func() { r.stop(); require.NoError(t, b.Close()) })
	return r
}

// runServer runs a server until the test ends.
func runServer(t *testing.T, srv *kindwright.Server, runOpts ...kindwright.RunOption) *runner {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	addr := make(chan net.Addr, 1)
	r := &runner{server: srv, stop: cancel, done: make(chan error, 1)}
	go func() {
		r.done <- srv.Run(ctx, append(runOpts, kindwright.OnListening(func(a net.Addr) { addr <- a }))...)
	}()
	select {
	case a := <-addr:
		r.addr = a.String()
	case err := <-r.done:
		require.NoError(t, err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	r.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		cancel()
		transport.CloseIdleConnections()
	})
	return r
}

func (r *runner) get(t *testing.T, path string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+r.addr+path, nil)
	require.NoError(t, err)
	req.Header.Set("X-User", "admin")
	req.Header.Set("X-Groups", "system:masters")
	return r.client.Do(req)
}

func TestOPS_02_RunServesHTTP2AndEndsWatchesInOrder(t *testing.T) {
	r := startRun(t, nil, kindwright.Listen("127.0.0.1:0"))
	res, err := r.get(t, gadgetPath+"?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
	require.NoError(t, err)
	require.Equal(t, 2, res.ProtoMajor)
	frames := bufio.NewReader(res.Body)
	first, err := frames.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, first, `"k8s.io/initial-events-end":"true"`)
	r.stop()
	rest, err := io.ReadAll(frames)
	require.NoError(t, err, "the stream ends, it is not broken off (rule 18)")
	require.NoError(t, res.Body.Close())
	require.Equal(t, 1, strings.Count(string(rest), "\n"), "%s", rest)
	require.Contains(t, string(rest), `"BOOKMARK"`, "a last bookmark (WATCH-34)")
	require.NoError(t, <-r.done)
}

func TestRule18_WatchersWhoComeBackAreToldWhenToTryAgain(t *testing.T) {
	r := startRun(t, nil, kindwright.Listen("127.0.0.1:0"))
	r.server.AwaitReconnects(time.Minute)
	var watches []*http.Response
	for range 5 {
		res, err := r.get(t, gadgetPath+"?watch=1")
		require.NoError(t, err)
		watches = append(watches, res)
	}
	r.stop()
	for _, res := range watches {
		_, err := io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		again, err := r.get(t, gadgetPath+"?watch=1")
		require.NoError(t, err, "a refused connection makes clients wait ever longer")
		require.NoError(t, again.Body.Close())
		require.Equal(t, http.StatusTooManyRequests, again.StatusCode)
		require.NotEmpty(t, again.Header.Get("Retry-After"))
	}
	require.NoError(t, <-r.done, "nobody is waited for any more")
}

func TestHEALTH_05_TheShutdownDelayKeepsServing(t *testing.T) {
	r := startRun(t, []kindwright.Option{kindwright.HTTP{ShutdownDelay: 2 * time.Second}}, kindwright.Listen("127.0.0.1:0"))
	r.stop()
	require.Eventually(t, func() bool {
		res, err := r.get(t, "/readyz")
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode == 500
	}, 30*time.Second, time.Millisecond, "HEALTH-18")
	for _, path := range []string{"/livez", gadgetPath} {
		res, err := r.get(t, path)
		require.NoError(t, err)
		require.Equal(t, 200, res.StatusCode, path)
		require.NoError(t, res.Body.Close())
	}
	require.NoError(t, <-r.done)
}

func TestRunOnAListenerWithACertificateFromFiles(t *testing.T) {
	ca, err := selfsigned.NewAuthority("test")
	require.NoError(t, err)
	pair, err := ca.Serving()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/crt", pair.Cert, 0o600))
	require.NoError(t, os.WriteFile(dir+"/key", pair.Key, 0o600))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := startRun(t, nil, kindwright.ListenOn(l), kindwright.TLS{CertFile: dir + "/crt", KeyFile: dir + "/key"})
	require.Equal(t, l.Addr().String(), r.addr)
	pool := x509.NewCertPool()
	pool.AddCert(ca.Certificate())
	r.client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: pool}
	res, err := r.get(t, "/readyz")
	require.NoError(t, err, "the certificate is the one of the files")
	require.NoError(t, res.Body.Close())

	require.NoError(t, os.Remove(dir+"/crt"))
	code := func(path string) int {
		res, err := r.get(t, path)
		require.NoError(t, err, "the last good one is in use")
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	require.Eventually(t, func() bool { return code("/healthz/serving-certificate") == 500 }, 10*time.Second, 50*time.Millisecond)
	require.Equal(t, []int{200, 200}, []int{code("/livez"), code("/readyz")})
	require.NoError(t, os.WriteFile(dir+"/crt", pair.Cert, 0o600))
	require.Eventually(t, func() bool { return code("/healthz/serving-certificate") == 200 }, 10*time.Second, 50*time.Millisecond)
	r.stop()
	require.NoError(t, <-r.done)
}

func TestA12_OldTLSIsRefused(t *testing.T) {
	r := startRun(t, nil, kindwright.Listen("127.0.0.1:0"), kindwright.TLS{Config: &tls.Config{Certificates: []tls.Certificate{certificate(t)}, MinVersion: tls.VersionTLS10}})
	_, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}}).DialContext(t.Context(), "tcp", r.addr)
	require.Error(t, err)
	r.stop()
	require.NoError(t, <-r.done)
}

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	c, err := selfsigned.Certificate()
	require.NoError(t, err)
	return c
}

func TestBadRunOptionsRefuseToStart(t *testing.T) {
	b := memory.New()
	defer func() { require.NoError(t, b.Close()) }()
	for name, o := range map[string]kindwright.RunOption{
		"Listen":       kindwright.Listen("nonsense"),
		"ListenOn":     kindwright.ListenOn(nil),
		"TLS.CertFile": kindwright.TLS{CertFile: "/no/such/file", KeyFile: "/no/such/file"},
		"not both":     kindwright.TLS{CertFile: "/no/such/file", Config: &tls.Config{}},
	} {
		srv, err := kindwright.New(b)
		require.NoError(t, err)
		require.ErrorContains(t, srv.Run(t.Context(), o), name)
	}
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	srv, err := kindwright.New(b)
	require.NoError(t, err)
	require.ErrorContains(t, srv.Run(t.Context(), kindwright.Listen(taken.Addr().String())), "address already in use")
}

// HTTP.OnlyHTTP1 holds for connections that are told the authorities of clients too.
func TestOPS_02_RunWithoutHTTP2(t *testing.T) {
	pool := x509.NewCertPool()
	for name, more := range map[string][]kindwright.RunOption{
		"alone":            nil,
		"with authorities": {kindwright.TLS{ClientCAs: func() *x509.CertPool { return pool }}},
	} {
		t.Run(name, func(t *testing.T) {
			r := startRun(t, []kindwright.Option{kindwright.HTTP{OnlyHTTP1: true}}, append(more, kindwright.Listen("127.0.0.1:0"))...)
			res, err := r.get(t, "/version")
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, 1, res.ProtoMajor)
			r.stop()
			require.NoError(t, <-r.done)
		})
	}
}
