package kindwright_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage/memory"
)

// ended is what was reported of a request that has ended.
type ended struct {
	kindwright.Request
	aborted bool
}

// reporting is a server over HTTP/1.1 and HTTP/2 whose reports can be read.
type reporting struct {
	t       *testing.T
	server  *kindwright.Server
	web     *httptest.Server
	reports chan ended
}

// ends is what the requests of a test may do: /break/… of the fallback ends in many ways.
func ends(t *testing.T) *reporting {
	t.Helper()
	db := memory.New()
	only := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.User.Name == "alice" {
			return authz.Allow, "alice may", nil
		}
		return authz.NoOpinion, "only alice may", nil
	})
	srv, err := kindwright.New(db,
		kindwright.Serve(gadgets(), places(), kinds.ControlPlane()), kindwright.Authenticate(header), kindwright.Access{NoAnonymous: true},
		kindwright.Authorize(only), kindwright.HTTP{RequestTimeout: 20 * time.Second, Fallback: http.HandlerFunc(misbehave)})
	require.NoError(t, err)
	r := &reporting{t: t, server: srv, reports: make(chan ended, 100)}
	srv.OnReport(func(kindwright.Request, bool) { panic("the first report fails") })
	srv.OnReport(func(x kindwright.Request, aborted bool) { r.reports <- ended{x, aborted} })
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	r.web = httptest.NewUnstartedServer(srv)
	r.web.EnableHTTP2 = true
	r.web.StartTLS()
	r.web.Client().Transport.(*http.Transport).DisableCompression = true
	t.Cleanup(func() {
		cancel()
		r.web.Close()
		srv.Wait()
		require.NoError(t, db.Close())
		require.Empty(t, r.reports, "a request was reported twice")
	})
	return r
}

// misbehave answers requests for a group that is not served, as the resource says.
func misbehave(w http.ResponseWriter, r *http.Request) {
	switch kindwright.RequestFrom(r.Context()).Resource {
	case "panics":
		panic("a handler")
	case "panicslate":
		_, _ = io.WriteString(w, "four")
		panic("a handler")
	case "aborts":
		panic(http.ErrAbortHandler)
	case "silent":
	case "copies":
		_, _ = io.Copy(w, strings.NewReader(strings.Repeat("x", 100_000)))
	case "flushes":
		w.(http.Flusher).Flush()
	case "early":
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusTeapot)
	case "late":
		control := http.NewResponseController(w)
		_, _ = io.WriteString(w, "four")
		_ = control.Flush()
		_ = control.SetWriteDeadline(time.Now().Add(-time.Second))
		_, _ = io.WriteString(w, "more")
		if control.Flush() != nil {
			panic(http.ErrAbortHandler)
		}
	case "upgrades":
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		_, _ = io.WriteString(conn, "hello")
		_ = conn.Close()
	}
}

// next is the next report.
func (r *reporting) next() ended {
	r.t.Helper()
	select {
	case e := <-r.reports:
		return e
	case <-time.After(30 * time.Second):
		require.FailNow(r.t, "nothing was reported")
		return ended{}
	}
}

const wrong = "/apis/other.dev/v1/namespaces/default/"

func TestEveryEndOfARequestIsReportedOnce(t *testing.T) {
	for _, c := range []struct {
		name, method, path, user string
		body                     string
		code                     int
		verb                     string
		aborted                  bool
	}{
		{"a create", "POST", gadgetPath, "alice", `{"metadata":{"name":"a"}}`, 201, "create", false},
		{"a list", "GET", gadgetPath, "alice", "", 200, "list", false},
		{"health", "GET", "/readyz", "alice", "", 200, "get", false},
		{"a query that does not parse", "GET", gadgetPath + "?limit=x", "alice", "", 400, "list", false},
		{"a method that is none", "BREW", gadgetPath, "alice", "", 405, "", false},
		{"nobody", "GET", gadgetPath, "", "", 401, "list", false},
		{"somebody else", "GET", gadgetPath, "bob", "", 403, "list", false},
		{"an unknown path", "GET", "/nowhere", "alice", "", 404, "get", false},
		{"an unknown object", "GET", gadgetPath + "/none", "alice", "", 404, "get", false},
		{"an invalid object", "POST", gadgetPath, "alice", `{"metadata":{"name":"A b"}}`, 422, "create", false},
		{"a panic", "GET", wrong + "panics", "alice", "", 500, "list", false},
		{"a panic after the beginning", "GET", wrong + "panicslate", "alice", "", 200, "list", true},
		{"an abort", "GET", wrong + "aborts", "alice", "", 0, "list", true},
		{"an answer without a word", "GET", wrong + "silent", "alice", "", 200, "list", false},
		{"an announced answer", "GET", wrong + "early", "alice", "", 418, "list", false},
		{"an empty answer that is flushed", "GET", wrong + "flushes", "alice", "", 200, "list", false},
		{"a client that is too slow", "GET", wrong + "late", "alice", "", 200, "list", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ends(t)
			req, err := http.NewRequestWithContext(t.Context(), c.method, r.web.URL+c.path, strings.NewReader(c.body))
			require.NoError(t, err)
			req.Header.Set("Audit-Id", "mine")
			req.Header.Set("Content-Type", "application/json")
			if c.user != "" {
				req.Header.Set("X-User", c.user)
			}
			res, err := r.web.Client().Do(req)
			sent := 0
			if err == nil {
				body, _ := io.ReadAll(res.Body)
				sent = len(body)
				require.NoError(t, res.Body.Close())
				require.Equal(t, c.code, res.StatusCode)
			}
			e := r.next()
			require.Equal(t, c.code, e.Code)
			require.Equal(t, "mine", e.ID)
			require.Equal(t, c.verb, e.Verb)
			require.Equal(t, c.aborted, e.aborted)
			require.WithinDuration(t, time.Now(), e.Start, time.Minute)
			if !c.aborted {
				require.NoError(t, err)
				require.EqualValues(t, sent, e.Bytes)
			}
		})
	}
}

func TestTheBytesOfACopyAreReported(t *testing.T) {
	r := ends(t)
	plain := httptest.NewServer(r.server)
	defer plain.Close()
	for _, url := range []string{r.web.URL, plain.URL} { // HTTP/2, and HTTP/1.1, which copies without a buffer
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+wrong+"copies", nil)
		require.NoError(t, err)
		req.Header.Set("X-User", "alice")
		res, err := r.web.Client().Do(req)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		e := r.next()
		require.Equal(t, 200, e.Code)
		require.EqualValues(t, 100_000, e.Bytes)
	}
}

func TestAWatchIsReportedWhenItEnds(t *testing.T) {
	r := ends(t)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, "GET", r.web.URL+gadgetPath+"?watch=1", nil)
	require.NoError(t, err)
	req.Header.Set("X-User", "alice")
	res, err := r.web.Client().Do(req)
	require.NoError(t, err)
	require.Empty(t, r.reports)
	leave()
	_ = res.Body.Close()
	e := r.next()
	require.Equal(t, 200, e.Code)
	require.Equal(t, "watch", e.Verb)
}

func TestAConnectionThatChangesItsProtocolIsReported(t *testing.T) {
	r := ends(t)
	plain := httptest.NewServer(r.server)
	defer plain.Close()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", plain.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "GET %supgrades HTTP/1.1\r\nHost: x\r\nX-User: alice\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", wrong)
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, 101, res.StatusCode)
	e := r.next()
	require.Equal(t, 101, e.Code)
	require.Greater(t, e.Bytes, int64(len("hello")))
	require.False(t, e.aborted)
}

func TestAWatchThatMeetsTheEndOfTheServerIsReported(t *testing.T) {
	db := memory.New()
	defer func() { require.NoError(t, db.Close()) }()
	srv, err := kindwright.New(db, kindwright.Serve(gadgets(), kinds.ControlPlane()), kindwright.Authenticate(header))
	require.NoError(t, err)
	var codes []int
	srv.OnReport(func(x kindwright.Request, _ bool) { codes = append(codes, x.Code) })
	require.Equal(t, 503, send(srv, request("GET", gadgetPath, "")).code, "before the start")
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	require.Equal(t, 200, send(srv, request("GET", gadgetPath, "")).code)
	cancel()
	srv.Wait()
	require.Equal(t, 503, send(srv, request("GET", gadgetPath, "")).code, "after the end")
	require.Equal(t, []int{503, 200, 503}, codes)
}

func TestTheBodiesOfARequestAreAtHand(t *testing.T) {
	srv := quietServer(t)
	var sent, answered string
	srv.OnBodies(func(s, a []byte) { sent, answered = string(s), string(a) })
	const body = `{"metadata":{"name":"a"}}`
	require.Equal(t, 201, send(srv, request("POST", gadgetPath, body)).code)
	require.Equal(t, body, sent)
	require.Contains(t, answered, `"name":"a"`)
	require.Contains(t, answered, `"resourceVersion"`)
	require.Equal(t, 409, send(srv, request("POST", gadgetPath, body)).code)
	require.Equal(t, body, sent)
	require.Contains(t, answered, `"reason":"AlreadyExists"`)
	require.Equal(t, 200, send(srv, request("GET", gadgetPath+"/a", "")).code)
	require.Empty(t, sent)
	require.Contains(t, answered, `"name":"a"`, "an object that writes itself")
}

// A middleware reads what is known, before and after the answer, and from where it should not.
func TestMiddlewareReadsTheRequest(t *testing.T) {
	var before, after kindwright.Request
	var readers sync.WaitGroup
	kept := make(chan context.Context, 1000)
	mw := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx := r.Context()
			stop := make(chan struct{})
			readers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						_ = kindwright.RequestFrom(ctx)
						_, _ = authn.UserFrom(ctx)
						_ = ctx.Err()
					}
				}
			})
			before = kindwright.RequestFrom(ctx)
			next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, keptKey{}, "mine")))
			close(stop)
			after = kindwright.RequestFrom(ctx)
			kept <- ctx
		})
	}
	h := run(t, kindwright.Before("parse", mw), kindwright.Authorize(authz.AlwaysAllow()))
	_, err := h.send("POST", gadgetPath, `{"metadata":{"name":"a"}}`)
	require.NoError(t, err)
	ctx := <-kept
	readers.Wait()
	require.Empty(t, before.Verb)
	require.Zero(t, before.Code)
	require.Equal(t, "create", after.Verb)
	require.Equal(t, "example.dev", after.Group)
	require.Equal(t, "gadgets", after.Resource)
	require.Equal(t, "default", after.Namespace)
	require.Equal(t, "alice", after.User.Name)
	require.Equal(t, authz.Allow, after.Decision)
	require.Equal(t, 201, after.Code)
	require.Positive(t, after.Bytes)
	require.Equal(t, after, kindwright.RequestFrom(ctx), "a context that was kept")
	require.Equal(t, kindwright.Request{}, kindwright.RequestFrom(context.Background()))
}

type keptKey struct{}

// send asks as alice.
func (h *host) send(method, path, body string) (int, error) {
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("X-User", "alice")
	req.Header.Set("Content-Type", "application/json")
	res, err := new(http.Client).Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// Middleware that names a user of its own in front of the authenticators must not be believed.
func TestTheAuthenticatedUserWins(t *testing.T) {
	claim := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(authn.WithUser(r.Context(), authn.User{Name: "mallory", Groups: []string{authn.GroupMasters}})))
		})
	}
	seen := make(chan [2]string, 1)
	look := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			u, _ := authn.UserFrom(r.Context())
			seen <- [2]string{u.Name, kindwright.RequestFrom(r.Context()).User.Name}
			next.ServeHTTP(w, r)
		})
	}
	h := run(t, kindwright.Before("authenticate", claim), kindwright.Before("body", look), kindwright.Authorize(authz.AlwaysAllow()))
	_, err := h.send("GET", gadgetPath, "")
	require.NoError(t, err)
	require.Equal(t, [2]string{"alice", "alice"}, <-seen)
}

// Hooks know which request they serve.
func TestAHookReadsTheRequest(t *testing.T) {
	var seen kindwright.Request
	kind := gadgets()
	kind.Plural, kind.Names.Kind = "gears", "Gear"
	kind.Rules.Validate = func(ctx context.Context, _ *gadget, _ *status.Fields) { seen = kindwright.RequestFrom(ctx) }
	h := run(t, kindwright.Serve(kind), kindwright.Authorize(authz.AlwaysAllow()))
	code, err := h.send("POST", "/apis/example.dev/v1/namespaces/default/gears", `{"metadata":{"name":"a"}}`)
	require.NoError(t, err)
	require.Equal(t, 201, code)
	require.Equal(t, "create", seen.Verb)
	require.Equal(t, "gears", seen.Resource)
	require.Equal(t, "alice", seen.User.Name)
	require.NotEmpty(t, seen.ID)
	require.Zero(t, seen.Code)
}
