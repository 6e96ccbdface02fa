package authn_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/meta"
)

// get is a request with headers, given as names and values in turn.
func get(headers ...string) *http.Request {
	r := httptest.NewRequest("GET", "/apis", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func withCertificate(r *http.Request) *http.Request {
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
	return r
}

// tokens knows bearer tokens by name, as a token file does.
func tokens(known map[string]string) authn.Authenticator {
	return authn.Func(func(r *http.Request) (authn.User, bool, error) {
		token, ok, err := authn.BearerToken(r)
		if err != nil || !ok || known[token] == "" {
			return authn.User{}, false, err
		}
		return authn.User{Name: known[token]}, true, nil
	})
}

func accept(name string) authn.Authenticator {
	return authn.Func(func(*http.Request) (authn.User, bool, error) { return authn.User{Name: name}, true, nil })
}

func fail(text string) authn.Authenticator {
	return authn.Func(func(*http.Request) (authn.User, bool, error) { return authn.User{}, false, errors.New(text) })
}

func pass() authn.Authenticator {
	return authn.Func(func(*http.Request) (authn.User, bool, error) { return authn.User{}, false, nil })
}

// serve sends a request through the middleware. inner is the request that the handler saw, or nil
// if it was rejected.
func serve(t *testing.T, a authn.Authenticator, r *http.Request, opts ...authn.Option) (w *httptest.ResponseRecorder, u authn.User, inner *http.Request) {
	t.Helper()
	w = httptest.NewRecorder()
	ok := true
	authn.Middleware(a, opts...)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		inner = r
		u, ok = authn.UserFrom(r.Context())
	})).ServeHTTP(w, r)
	require.True(t, ok)
	return w, u, inner
}

// refused checks that a request is a 401 with the body of AUTHN-23.
func refused(t *testing.T, a authn.Authenticator, r *http.Request) {
	t.Helper()
	w, _, inner := serve(t, a, r)
	require.Nil(t, inner, "the handler must not run")
	require.Equal(t, 401, w.Code)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.Empty(t, w.Header().Get("WWW-Authenticate"))
	require.JSONEq(t, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}`, w.Body.String())
}

func TestAUTHN_01_02_Anonymous(t *testing.T) {
	_, u, inner := serve(t, authn.Anonymous(), get())
	require.NotNil(t, inner)
	require.Equal(t, authn.User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}, Method: "anonymous"}, u)
	require.True(t, u.IsAnonymous())
}

func TestAUTHN_23_WithoutAnonymousACredentialIsNeeded(t *testing.T) {
	refused(t, tokens(nil), get())
	refused(t, authn.Union(), get())
}

func TestUnion_FirstSuccessWins(t *testing.T) {
	var asked []string
	named := func(name string, a authn.Authenticator) authn.Authenticator {
		return authn.Func(func(r *http.Request) (authn.User, bool, error) {
			asked = append(asked, name)
			return a.Authenticate(r)
		})
	}
	_, u, _ := serve(t, authn.Union(named("none", pass()), named("bad", fail("expired")), named("good", accept("alice")), named("late", accept("bob"))), get())
	require.Equal(t, "alice", u.Name)
	require.Equal(t, []string{"none", "bad", "good"}, asked)
}

func TestUnion_CollectsErrors(t *testing.T) {
	_, ok, err := authn.Union(fail("one"), pass(), fail("two")).Authenticate(get())
	require.False(t, ok)
	require.ErrorContains(t, err, "one")
	require.ErrorContains(t, err, "two")
	_, ok, err = authn.Union(pass(), pass()).Authenticate(get())
	require.False(t, ok)
	require.NoError(t, err)
}

func TestAUTHN_03_A8_BadCredentialIsNeverAnonymous(t *testing.T) {
	chain := authn.Union(tokens(map[string]string{"good": "alice"}), authn.Anonymous())
	_, u, _ := serve(t, chain, get("Authorization", "Bearer good"))
	require.Equal(t, "alice", u.Name)

	refused(t, chain, get("Authorization", "Bearer wrong"))
	refused(t, chain, withCertificate(get())) // no authenticator here handles certificates
	refused(t, authn.Anonymous(), get("Authorization", ""))
	refused(t, authn.Union(fail("bad cookie"), authn.Anonymous()), get())
	refused(t, authn.Union(authn.Union(fail("bad cookie")), authn.Union(authn.Anonymous())), get())
	refused(t, authn.Union(authn.Anonymous(), chain), get("Authorization", "Bearer wrong"))
	refused(t, pass(), get("Authorization", "Bearer wrong"))

	// An authenticator that returns both a user and an error has failed.
	refused(t, authn.Func(func(*http.Request) (authn.User, bool, error) {
		return authn.User{Name: "alice"}, true, errors.New("revoked")
	}), get())
}

func TestA6_OtherPlacesHoldNoCredential(t *testing.T) {
	chain := authn.Union(tokens(map[string]string{"good": "alice"}), authn.Anonymous())
	r := httptest.NewRequest("POST", "/apis?access_token=good&token=good", strings.NewReader("token=good"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.AddCookie(&http.Cookie{Name: "token", Value: "good"})
	r.Header.Set("X-Auth-Token", "good")
	_, u, _ := serve(t, chain, r)
	require.True(t, u.IsAnonymous())

	// Another scheme is a credential that cannot be checked here.
	for _, value := range []string{"Basic " + base64.StdEncoding.EncodeToString([]byte("alice:good")), "Token good", "good", "Negotiate x", "Bearer\tgood", "Bearer\u00a0good"} {
		refused(t, chain, get("Authorization", value))
	}
}

func TestA7_AmbiguousCredentials(t *testing.T) {
	chain := authn.Union(tokens(map[string]string{"good": "alice", "a b": "eve", " good": "eve", "": "eve"}), authn.Anonymous())
	for _, value := range []string{"Bearer", "Bearer ", "Bearer  good", "Bearer good ", "Bearer a b", "Bearer good\t", "Bearer good\u00a0", "Bearer \x00", "Bearer " + strings.Repeat("x", 1<<20)} {
		refused(t, chain, get("Authorization", value))
	}
	refused(t, chain, get("Authorization", "Bearer good", "Authorization", "Bearer good"))
	refused(t, accept("alice"), get("Authorization", "Bearer good", "Authorization", "Basic x"))
	for _, scheme := range []string{"Bearer", "bearer", "BEARER"} { // AUTHN-19
		_, u, _ := serve(t, chain, get("Authorization", scheme+" good"))
		require.Equal(t, "alice", u.Name)
	}
}

func TestA7_CertificateBeforeToken(t *testing.T) {
	certificate := authn.Func(func(r *http.Request) (authn.User, bool, error) {
		return authn.User{Name: "cert"}, r.TLS != nil, nil
	})
	chain := authn.Union(certificate, tokens(map[string]string{"good": "alice"}), authn.Anonymous())
	_, u, _ := serve(t, chain, withCertificate(get("Authorization", "Bearer good")))
	require.Equal(t, "cert", u.Name)
}

func TestA7_EachCredentialMustBeGood(t *testing.T) {
	soon, later := time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	certificate := authn.Func(func(r *http.Request) (authn.User, bool, error) {
		if r.TLS == nil {
			return authn.User{}, false, nil
		}
		switch r.TLS.ServerName {
		case "expired":
			return authn.User{}, false, errors.New("expired")
		case "unknown":
			return authn.User{}, false, nil
		}
		return authn.User{Name: "alice", Expires: later}, true, nil
	})
	token := authn.Func(func(r *http.Request) (authn.User, bool, error) {
		token, ok, err := authn.BearerToken(r)
		return authn.User{Name: token, Expires: soon}, ok && token != "wrong", err
	})
	first := authn.Union(certificate, token, authn.Anonymous())
	each := authn.Each(first)
	with := func(name string, headers ...string) *http.Request {
		r := withCertificate(get(headers...))
		r.TLS.ServerName = name
		return r
	}
	for _, r := range []*http.Request{
		with("expired", "Authorization", "Bearer alice"), // accepted by default: another authority may have issued it for a proxy
		with("unknown", "Authorization", "Bearer alice"),
		with("good", "Authorization", "Bearer wrong"),
		with("good", "Authorization", "Bearer bob"),
		with("good", "Authorization", "Basic x"),
	} {
		_, _, inner := serve(t, first, r)
		require.NotNil(t, inner)
		refused(t, each, r)
	}
	encoded := "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte("bob"))
	refused(t, each, with("good", "Upgrade", "websocket", "Sec-WebSocket-Protocol", encoded+", v5"))
	_, u, inner := serve(t, each, with("good", "Authorization", "Bearer alice"))
	require.NotNil(t, inner)
	require.Equal(t, soon, u.Expires, "the first of both that ends")
	for _, r := range []*http.Request{get("Authorization", "Bearer bob"), with("good"), get()} {
		_, _, inner := serve(t, each, r)
		require.NotNil(t, inner, "one credential or none is as ever")
	}
	refused(t, each, with("expired"))
}

func TestAUTHN_19_WebSocketToken(t *testing.T) {
	chain := authn.Union(tokens(map[string]string{"good": "alice"}), authn.Anonymous())
	encoded := "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte("good"))
	handshake := func(headers ...string) *http.Request { return get(append(headers, "Upgrade", "websocket")...) }
	refused(t, chain, get("Sec-WebSocket-Protocol", encoded+", v5.channel.k8s.io")) // a credential in a place where nobody looks for it
	_, u, inner := serve(t, chain, handshake("Sec-WebSocket-Protocol", encoded+", v5.channel.k8s.io"))
	require.Equal(t, "alice", u.Name)
	require.Equal(t, []string{"v5.channel.k8s.io"}, inner.Header["Sec-Websocket-Protocol"], "the token is gone, the protocol is not")

	refused(t, chain, handshake("Sec-WebSocket-Protocol", encoded))
	refused(t, chain, handshake("Sec-WebSocket-Protocol", encoded+", "+encoded+", v5"))
	refused(t, chain, handshake("Sec-WebSocket-Protocol", encoded+"=, v5"))
	refused(t, chain, handshake("Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io., v5"))
	refused(t, chain, handshake("Sec-WebSocket-Protocol", encoded+", v5", "Authorization", "Bearer good"))
	refused(t, authn.Anonymous(), handshake("Sec-WebSocket-Protocol", "v5", "Sec-WebSocket-Protocol", encoded))
	_, u, _ = serve(t, chain, get("Sec-WebSocket-Protocol", "v5.channel.k8s.io"))
	require.True(t, u.IsAnonymous())
}

func TestA1_IdentityHeadersAreNoCredentialAndAreRemoved(t *testing.T) {
	r := get("X-Remote-User", "admin", "X-Remote-Group", "system:masters", "X-Remote-Extra-x", "y", "X-Remote-Uid", "1", "Accept", "application/json")
	r.Header["x-remote-user"] = []string{"admin"} // only an in-process caller can send this form
	r.Header["authorization"] = []string{"Bearer good"}
	_, u, inner := serve(t, authn.Anonymous(), r)
	require.True(t, u.IsAnonymous())
	require.Equal(t, http.Header{"Accept": {"application/json"}}, inner.Header)
	require.Equal(t, "admin", r.Header.Get("X-Remote-User"), "the request as received is not changed")
}

func TestAUTHN_19_AuthorizationIsRemoved(t *testing.T) {
	_, _, inner := serve(t, accept("alice"), get("Authorization", "Bearer good"))
	require.Empty(t, inner.Header)
}

func TestAUTHN_20_AuthenticatedGroup(t *testing.T) {
	shared := make([]string, 1, 8) // room to append into, which would show
	shared[0] = "dev"
	a := authn.Func(func(*http.Request) (authn.User, bool, error) {
		return authn.User{Name: "alice", Groups: shared}, true, nil
	})
	_, u, _ := serve(t, a, get())
	require.Equal(t, []string{"dev", "system:authenticated"}, u.Groups)
	require.Empty(t, shared[:2][1], "the authenticator's slice is not written to")

	again := authn.Func(func(*http.Request) (authn.User, bool, error) { return u, true, nil })
	_, u, _ = serve(t, again, get())
	require.Equal(t, []string{"dev", "system:authenticated"}, u.Groups, "once")
}

func TestS5_AnExpiredUserIsRejected(t *testing.T) {
	until := func(at time.Time) authn.Authenticator {
		return authn.Func(func(*http.Request) (authn.User, bool, error) {
			return authn.User{Name: "alice", Expires: at}, true, nil
		})
	}
	refused(t, until(time.Now().Add(-time.Second)), get("Authorization", "Bearer old"))
	_, u, _ := serve(t, until(time.Now().Add(time.Hour)), get("Authorization", "Bearer new"))
	require.Equal(t, "alice", u.Name)
	require.False(t, u.Expired(u.Expires))
	require.True(t, u.Expired(u.Expires.Add(time.Nanosecond)))
	require.False(t, authn.User{}.Expired(time.Now()), "zero never ends")
}

func TestUserWithoutANameIsRejected(t *testing.T) {
	refused(t, accept(""), get())
}

func TestZ14_ImpersonationIsRejectedUnlessSomebodyCarriesItOut(t *testing.T) {
	for _, header := range []string{"Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-Scopes", "impersonate-user"} {
		r := get()
		r.Header[header] = []string{"admin"}
		w, _, inner := serve(t, accept("alice"), r)
		require.Nil(t, inner, header)
		require.Equal(t, 403, w.Code, header)
		var s meta.Status
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &s))
		require.EqualValues(t, 403, s.Code)
		require.Contains(t, s.Message, "impersonation")
	}
	refused(t, fail("bad"), get("Impersonate-User", "admin"))

	var inner http.Header
	authn.Middleware(accept("alice"), authn.WithImpersonation())(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		inner = r.Header
	})).ServeHTTP(httptest.NewRecorder(), get("Impersonate-User", "admin"))
	require.Equal(t, "admin", inner.Get("Impersonate-User"))
}

func TestA5_NoTokenInLogsOrAnswers(t *testing.T) {
	var log bytes.Buffer
	logger := funcr.New(func(prefix, args string) { log.WriteString(prefix + args + "\n") }, funcr.Options{Verbosity: 10})
	chain := authn.Union(tokens(map[string]string{"s3cret-good": "alice"}), authn.Anonymous())
	for _, r := range []*http.Request{
		get("Authorization", "Bearer s3cret-good"), get("Authorization", "Bearer s3cret-bad"), get("Authorization", "Bearer s3cret two"),
		get("Authorization", "Basic s3cret"), get("Authorization", "Bearer s3cret", "Authorization", "Bearer s3cret"),
		get("Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.s3cret!"),
		get("Authorization", "Bearer s3cret-good", "Impersonate-User", "admin"),
	} {
		w, _, _ := serve(t, chain, r, authn.WithLogger(logger))
		require.NotContains(t, w.Body.String(), "s3cret")
	}
	require.NotEmpty(t, log.String())
	require.NotContains(t, log.String(), "s3cret")
}

func TestWithRefusal(t *testing.T) {
	var got meta.Status
	w, _, inner := serve(t, fail("bad"), get(), authn.WithRefusal(func(w http.ResponseWriter, _ *http.Request, s meta.Status) {
		got = s
		w.WriteHeader(int(s.Code))
	}))
	require.Nil(t, inner)
	require.Equal(t, 401, w.Code)
	require.Equal(t, meta.ReasonUnauthorized, got.Reason)
}

func TestUserFrom(t *testing.T) {
	_, ok := authn.UserFrom(context.Background())
	require.False(t, ok)
	u, ok := authn.UserFrom(authn.WithUser(context.Background(), authn.User{Name: "loop-back"}))
	require.True(t, ok, "A13: in-process callers carry their identity in the context")
	require.Equal(t, "loop-back", u.Name)
}
