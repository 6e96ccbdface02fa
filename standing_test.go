package kindwright_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/kinds"
)

// club knows bearer tokens and who may come in. Both may change at any time.
type club struct {
	mu      sync.Mutex
	members map[string]authn.User // by token
	closed  map[string]bool       // names of users who may not do anything
	broken  error                 // why nobody can be checked now
	asked   int                   // how often the authorizer was asked
}

func (c *club) set(change func(c *club)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

func (c *club) questions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func (c *club) options() []kindwright.Option {
	who := authn.Func(func(r *http.Request) (authn.User, bool, error) {
		token, ok, err := authn.BearerToken(r)
		c.mu.Lock()
		defer c.mu.Unlock()
		if err = errors.Join(err, c.broken); !ok || err != nil {
			return authn.User{}, false, err
		}
		u, ok := c.members[token]
		return u, ok, nil
	})
	may := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked++
		switch {
		case a.User.In("panics"):
			panic("an authorizer")
		case c.closed[a.User.Name] || !a.User.In(authn.GroupAuthenticated):
			return authz.Deny, "", nil
		}
		return authz.Allow, "", nil
	})
	return []kindwright.Option{kindwright.Authenticate(who), kindwright.Authorize(may)}
}

// plain is the writer of a host that wraps nothing.
func plain(w http.ResponseWriter) http.ResponseWriter { return w }

// silent is a watch without bookmarks: nobody has to read while the test sleeps.
const (
	silent   = "/shop" + gadgetPath + "?watch=1&timeoutSeconds=3600"
	watching = silent + "&allowWatchBookmarks=true"
)

// bearer are the headers of a request with a token and without the user of the other tests.
func bearer(token string) []string {
	return []string{"X-User", "", "X-Groups", "", "Authorization", "Bearer " + token}
}

// lasts reads a watch to its end and returns how long that took. A stream that is broken off fails
// the test.
func lasts(next func() map[string]any) (time.Duration, map[string]any) {
	began := time.Now()
	var last map[string]any
	for {
		event := next()
		if event == nil {
			return time.Since(began), last
		}
		last = event
	}
}

func TestS5_AWatchEndsInOrderWithTheCredentialThatOpenedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &club{members: map[string]authn.User{
			"short": {Name: "alice", Expires: time.Now().Add(90 * time.Second)},
			"long":  {Name: "bob", Expires: time.Now().Add(24 * time.Hour)},
		}}
		h := mounted(t, time.Hour, plain, c.options()...)
		took, last := lasts(h.stream(watching, bearer("short")...))
		require.Equal(t, 90*time.Second+time.Nanosecond, took)
		require.Equal(t, "BOOKMARK", last["type"], "the client learns where it was")
		code, _ := h.do("GET", watching, "", bearer("short")...)
		require.Equal(t, 401, code, "and meets the refusal when it comes back")
		took, _ = lasts(h.stream(watching, bearer("long")...))
		require.Equal(t, time.Hour, took)
	})
}

func TestS5_AConnectionThatIsKeptAliveDoesNotOutliveTheCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &club{members: map[string]authn.User{"short": {Name: "alice", Expires: time.Now().Add(time.Minute)}}}
		h := mounted(t, time.Hour, plain, c.options()...)
		transport := &http.Transport{DialContext: h.dial}
		defer transport.CloseIdleConnections()
		ask := func() int {
			req, err := http.NewRequestWithContext(t.Context(), "GET", h.url+"/shop"+gadgetPath, nil)
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer short")
			res, err := transport.RoundTrip(req)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			return res.StatusCode
		}
		require.Equal(t, 200, ask())
		time.Sleep(time.Minute)
		require.Equal(t, 200, ask())
		time.Sleep(time.Nanosecond)
		require.Equal(t, 401, ask())
	})
}

func TestS5_AWatchEndsSoonAfterTheRightToItWasTakenAway(t *testing.T) {
	for name, c := range map[string]struct {
		revoke func(*club)
		atMost time.Duration // after the revocation
	}{
		"the permission":           {func(c *club) { c.closed = map[string]bool{"alice": true} }, time.Minute},
		"the token":                {func(c *club) { c.members = nil }, time.Minute},
		"the account of that name": {func(c *club) { c.members = map[string]authn.User{"t": {Name: "alice", UID: "2"}} }, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &club{members: map[string]authn.User{"t": {Name: "alice", UID: "1"}}}
				h := mounted(t, time.Hour, plain, d.options()...)
				next := h.stream(silent, bearer("t")...)
				time.Sleep(10 * time.Minute)
				d.set(c.revoke)
				took, _ := lasts(next)
				require.LessOrEqual(t, took, c.atMost)
			})
		})
	}
}

func TestS5_RecheckEndsStreamsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &club{members: map[string]authn.User{"a": {Name: "alice"}, "b": {Name: "bob"}}}
		h := mounted(t, time.Hour, plain, append(c.options(), kindwright.Access{RecheckEvery: -1})...)
		alice, bob := h.stream(silent, bearer("a")...), h.stream(silent, bearer("b")...)
		time.Sleep(10 * time.Minute)
		before := c.questions()
		c.set(func(c *club) { delete(c.members, "a") })
		h.Recheck()
		took, _ := lasts(alice)
		require.Zero(t, took)
		require.Equal(t, before+1, c.questions(), "bob was judged, and nobody else, and nobody before")
		took, _ = lasts(bob)
		require.Equal(t, 50*time.Minute, took)
	})
}

func TestS5_AnOutageOfTheAuthenticatorDoesNotEndAStreamUnlessItLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &club{members: map[string]authn.User{"a": {Name: "alice"}}}
		h := mounted(t, time.Hour, plain, c.options()...)
		next := h.stream(silent, bearer("a")...)
		began := time.Now()
		for range 50 { // shorter than the time between two questions, so that never two in a row fail
			time.Sleep(30 * time.Second)
			c.set(func(c *club) { c.broken = errors.New("no answer") })
			time.Sleep(5 * time.Second)
			c.set(func(c *club) { c.broken = nil })
		}
		c.set(func(c *club) { c.broken = errors.New("no answer") })
		atLast := time.Now()
		lasts(next)
		require.Greater(t, atLast.Sub(began), 25*time.Minute)
		require.Less(t, time.Since(atLast), time.Minute)
	})
}

// A right that is lost while nobody answers does not last longer than one that is lost otherwise.
func TestS5_AStreamEndsInTimeIfTheAuthenticatorHangs(t *testing.T) {
	for name, hangs := range map[string][2]bool{"the authenticator": {true, false}, "the authorizer": {false, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lost atomic.Bool
				who := authn.Func(func(r *http.Request) (authn.User, bool, error) {
					if lost.Load() && hangs[0] {
						<-r.Context().Done()
						return authn.User{}, false, r.Context().Err()
					}
					return authn.User{Name: "alice"}, true, nil
				})
				may := authz.Func(func(ctx context.Context, _ authz.Attributes) (authz.Decision, string, error) {
					if lost.Load() && hangs[1] {
						<-ctx.Done()
						return authz.NoOpinion, "", ctx.Err()
					}
					return authz.Allow, "", nil
				})
				h := mounted(t, time.Hour, plain, kindwright.Authenticate(who), kindwright.Authorize(may))
				for range 5 {
					lost.Store(false)
					next := h.stream(silent, bearer("t")...)
					time.Sleep(10*time.Minute + rand.N(time.Minute))
					lost.Store(true)
					took, _ := lasts(next)
					require.LessOrEqual(t, took, time.Minute)
				}
			})
		})
	}
}

func TestS25_ACredentialThatEndsWhileTheBodyIsReadIsA401AndNothingIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &club{members: map[string]authn.User{
			"short": {Name: "alice", Expires: time.Now().Add(500 * time.Millisecond)}, "gone": {Name: "bob"}, "banned": {Name: "carol"}, "slow": {Name: "dan"},
		}}
		h := mounted(t, time.Hour, plain, c.options()...)
		for _, o := range []struct {
			token string
			code  int
		}{{"short", 401}, {"gone", 401}, {"banned", 403}, {"slow", 201}} {
			for _, method := range []string{"POST", "PATCH"} {
				body, path, content := io.Reader(&dribble{c: c, text: `{"metadata":{"name":"` + o.token + `"}}`}), "/shop"+gadgetPath, "application/json"
				if method == "PATCH" {
					body = &dribble{c: c, text: `{"apiVersion":"example.dev/v1","kind":"Gadget","metadata":{"name":"` + o.token + `"}}`}
					path, content = path+"/"+o.token+"?fieldManager=m", "application/apply-patch+yaml"
				}
				c.set(func(c *club) {
					c.members["gone"], c.closed = authn.User{Name: "bob"}, nil
					u := c.members["short"]
					u.Expires = time.Now().Add(500 * time.Millisecond)
					c.members["short"] = u
				})
				req, err := http.NewRequestWithContext(t.Context(), method, h.url+path, body)
				require.NoError(t, err)
				req.Header.Set("Authorization", "Bearer "+o.token)
				req.Header.Set("Content-Type", content)
				res, err := h.transport().RoundTrip(req)
				require.NoError(t, err)
				require.NoError(t, res.Body.Close())
				if method == "PATCH" && o.code == 201 {
					require.Equal(t, 200, res.StatusCode, "POST has created it")
					continue
				}
				require.Equal(t, o.code, res.StatusCode, "%s %s", method, o.token)
			}
			code, _ := h.do("GET", "/shop"+gadgetPath+"/"+o.token, "")
			require.Equal(t, o.code == 201, code == 200, o.token)
		}
	})
}

// dribble is a body of which the last byte comes after two seconds. Meanwhile bob's token is
// withdrawn and carol is banned.
type dribble struct {
	c    *club
	text string
}

func (d *dribble) Read(p []byte) (int, error) {
	switch len(d.text) {
	case 0:
		return 0, io.EOF
	case 1:
		time.Sleep(2 * time.Second)
		d.c.set(func(c *club) { delete(c.members, "gone"); c.closed = map[string]bool{"carol": true} })
	}
	n := copy(p, d.text[:max(len(d.text)-1, 1)])
	d.text = d.text[n:]
	return n, nil
}

// What a fallback handler streams ends too.
func TestS5_AStreamOfTheFallbackEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &club{members: map[string]authn.User{"short": {Name: "alice", Expires: time.Now().Add(time.Minute)}}}
		fallback := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		h := mounted(t, time.Hour, plain, append(c.options(), kindwright.HTTP{Fallback: fallback})...)
		began := time.Now()
		res := h.request("GET", "/shop/apis/elsewhere.dev/v1/things?watch=1", "", bearer("short")...)
		_, err := io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		require.Equal(t, time.Minute+time.Nanosecond, time.Since(began))
	})
}

func TestZ10_AnAuthorizerThatPanicsAboutAStreamDoesNotEndTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &club{members: map[string]authn.User{"t": {Name: "alice"}}}
		h := mounted(t, time.Hour, plain, c.options()...)
		next := h.stream(silent, bearer("t")...)
		c.set(func(c *club) { c.members["t"] = authn.User{Name: "alice", Groups: []string{"panics"}} })
		took, _ := lasts(next)
		require.LessOrEqual(t, took, time.Minute)
		code, got := h.do("GET", "/shop"+gadgetPath, "", bearer("t")...)
		require.Equal(t, 500, code)
		require.NotContains(t, got["message"], "an authorizer")
	})
}

// A watch ends with the right to it in whatever protocol and form it is: each of them is a stream of
// its own, and a client that is cut off in one would try the others.
func TestS5_AWatchEndsInEveryProtocol(t *testing.T) {
	c := &club{members: map[string]authn.User{"t": {Name: "alice"}}}
	r := startWith(t, append(c.options(), kindwright.Serve(gadgets(), kinds.ControlPlane()), kindwright.Watches{WebSockets: true, OldPaths: true}, kindwright.LogTo(logr.Discard())),
		kindwright.Listen("127.0.0.1:0"), kindwright.TLS{Config: &tls.Config{Certificates: []tls.Certificate{certificate(t)}}})
	one, two := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	t.Cleanup(one.CloseIdleConnections)
	t.Cleanup(two.CloseIdleConnections)
	handshake := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}
	inProtocol := append([]string{"Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.dA, base64.binary.k8s.io"}, handshake...)
	old := strings.Replace(gadgetPath, "/v1/", "/v1/watch/", 1)
	const query = "?watch=1&timeoutSeconds=3600"
	var open []io.Reader
	for _, s := range []struct {
		by     *http.Transport
		path   string
		code   int
		header []string
	}{
		{one, gadgetPath + query, 200, nil},
		{two, gadgetPath + query, 200, nil},
		{two, gadgetPath + query + "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", 200, nil},
		{two, old + "?timeoutSeconds=3600", 200, nil},
		{two, gadgetPath + query, 200, []string{"Accept", "application/json;as=Table;g=meta.k8s.io;v=v1"}},
		{two, gadgetPath + query, 200, []string{"Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}},
		{two, gadgetPath + query, 200, []string{"Accept", "application/cbor-seq, application/json"}},
		{one, gadgetPath + query, 101, handshake},
		{one, gadgetPath + query, 101, inProtocol},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+r.addr+s.path, nil)
		require.NoError(t, err)
		for i := 0; i < len(s.header); i += 2 {
			req.Header.Set(s.header[i], s.header[i+1])
		}
		if req.Header.Get("Sec-Websocket-Protocol") == "" {
			req.Header.Set("Authorization", "Bearer t")
		}
		res, err := s.by.RoundTrip(req)
		require.NoError(t, err)
		t.Cleanup(func() { _ = res.Body.Close() })
		require.Equal(t, s.code, res.StatusCode, "%s %v", s.path, s.header)
		open = append(open, res.Body)
	}
	c.set(func(c *club) { c.closed = map[string]bool{"alice": true} })
	r.server.Recheck()
	for _, stream := range open {
		if socket, is := stream.(io.ReadWriter); is {
			readToClose(t, socket)
			continue
		}
		_, err := io.Copy(io.Discard, stream)
		require.NoError(t, err, "it ends in order")
	}
}

// readToClose reads the frames of a WebSocket up to the one that closes it.
func readToClose(t *testing.T, socket io.Reader) {
	t.Helper()
	for {
		var head [2]byte
		_, err := io.ReadFull(socket, head[:])
		require.NoError(t, err)
		if head[0]&0x0f == 8 {
			return
		}
		size := int64(head[1])
		require.Less(t, size, int64(126), "no object is large")
		_, err = io.CopyN(io.Discard, socket, size)
		require.NoError(t, err)
	}
}
