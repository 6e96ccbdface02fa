package jwt_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn/jwt"
	"github.com/kindwright/kindwright/internal/issuer"
)

// endpoint is an issuer that answers with something at a path of its own as well.
type endpoint struct {
	*issuer.Issuer

	mu     sync.Mutex
	answer http.HandlerFunc
	asked  []string // the headers Authorization
}

func newEndpoint(t *testing.T) *endpoint {
	e := &endpoint{Issuer: issuer.New(t)}
	e.Instead(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/groups" {
			e.ServeHTTP(w, r)
			return
		}
		e.mu.Lock()
		answer := e.answer
		e.asked = append(e.asked, r.Header.Get("Authorization"))
		e.mu.Unlock()
		answer(w, r)
	}))
	return e
}

func (e *endpoint) with(answer http.HandlerFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer, e.asked = answer, nil
}

func (e *endpoint) requests() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked
}

// elsewhere are claims that only say where the groups are.
func elsewhere(at string) map[string]any {
	return map[string]any{
		"_claim_names":   map[string]any{"groups": "src1"},
		"_claim_sources": map[string]any{"src1": map[string]any{"endpoint": at, "access_token": "for-the-endpoint"}},
	}
}

func saying(token string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, token+"\n") }
}

func TestDistributedGroups(t *testing.T) {
	e, other := newEndpoint(t), issuer.New(t)
	a := open(t, jwt.Options{}, provider(e.Issuer), provider(other))
	at := e.URL + "/groups"
	groups := map[string]any{"groups": []string{"dev"}, "sub": "mallory", "jti": "x"}
	e.with(saying(e.Token(groups)))
	token := e.Token(elsewhere(at))
	u := accepted(t, a, token)
	require.Equal(t, "alice", u.Name)
	require.Equal(t, []string{"dev"}, u.Groups)
	require.Equal(t, "Bearer for-the-endpoint", e.requests()[0])
	require.Equal(t, u, accepted(t, a, token))
	require.Len(t, e.requests(), 1, "remembered")

	e.with(saying(other.Token(groups)))
	require.Equal(t, []string{"dev"}, accepted(t, a, e.Token(elsewhere(at))).Groups, "another issuer that is configured")

	e.with(saying("never asked"))
	for _, claims := range []map[string]any{
		{"groups": []string{"own"}, "_claim_names": map[string]any{"groups": "src1"}},
		{"_claim_names": map[string]any{"roles": "src1"}},
		{"_claim_names": map[string]any{"groups": "src1"}, "_claim_sources": map[string]any{"src1": map[string]any{"JWT": "aggregated"}}},
	} {
		accepted(t, a, e.Token(claims))
	}
	require.Empty(t, e.requests())
}

// The claim is forgotten soon, and with the token that it is in.
func TestDistributedGroupsAreAskedForAgain(t *testing.T) {
	e := newEndpoint(t)
	a := open(t, jwt.Options{}, provider(e.Issuer))
	token := e.Token(elsewhere(e.URL + "/groups"))
	for life := 2 * time.Second; ; life *= 2 { // long enough for this machine
		e.with(saying(e.Token(map[string]any{"groups": "dev", "exp": time.Now().Add(life).Unix()})))
		if u, ok, _ := a.Authenticate(request(t, token)); ok {
			require.Equal(t, []string{"dev"}, u.Groups)
			break
		}
	}
	e.with(saying(e.Token(map[string]any{"groups": "ops"})))
	require.Eventually(t, func() bool { return accepted(t, a, token).Groups[0] == "ops" }, time.Minute, 50*time.Millisecond)
}

func TestJ11_EndpointsOfClaimsThatLie(t *testing.T) {
	e, stranger := newEndpoint(t), issuer.New(t)
	a := open(t, jwt.Options{}, provider(e.Issuer))
	at := e.URL + "/groups"
	good := e.Token(map[string]any{"groups": "dev"})
	secret := issuer.RSA(t, "first") // the same name as a published key
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", e.URL+"/elsewhere")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, good)
		}
	}
	for name, lie := range map[string]struct {
		answer http.HandlerFunc
		why    string
	}{
		"a stranger's token":   {saying(stranger.Token(map[string]any{"groups": "dev"})), "no token of an issuer that is configured"},
		"no token":             {saying(`{"groups":["dev"]}`), "no token of an issuer that is configured"},
		"nothing":              {saying(""), "no token of an issuer that is configured"},
		"another key":          {saying(secret.Sign(map[string]any{"alg": "RS256", "kid": "first"}, []byte(`{"iss":"`+e.URL+`","aud":"kindwright","exp":9999999999,"groups":"dev"}`))), "signature"},
		"no signature":         {saying("eyJhbGciOiJub25lIn0." + strings.Split(good, ".")[1] + "."), ""},
		"expired":              {saying(e.Token(map[string]any{"groups": "dev", "exp": time.Now().Unix() - 1})), "expired"},
		"another audience":     {saying(e.Token(map[string]any{"groups": "dev", "aud": "films"})), "another audience"},
		"without the claim":    {saying(e.Token(nil)), "lacks it"},
		"of the system":        {saying(e.Token(map[string]any{"groups": "system:masters"})), "a group of the system"},
		"of a wrong type":      {saying(e.Token(map[string]any{"groups": 7})), "must be a string"},
		"itself elsewhere":     {saying(e.Token(elsewhere(at))), "lacks it"},
		"a redirect":           {status(http.StatusFound), "status 302"},
		"a permanent one":      {status(http.StatusPermanentRedirect), "status 308"},
		"a refusal":            {status(http.StatusForbidden), "status 403"},
		"a partial answer":     {status(http.StatusPartialContent), "status 206"},
		"more than a megabyte": {saying(strings.Repeat("x", 2<<20)), "more than"},
	} {
		e.with(lie.answer)
		token := e.Token(elsewhere(at))
		_, ok, err := a.Authenticate(request(t, token))
		require.False(t, ok, name)
		require.ErrorContains(t, err, lie.why, name)
		for _, hidden := range []string{token, good, "for-the-endpoint", "/groups"} {
			require.NotContains(t, err.Error(), hidden, name)
		}
	}
	require.NotContains(t, e.Requests(), "/elsewhere")

	for _, claims := range []map[string]any{
		elsewhere(strings.Replace(at, "https", "http", 1)), elsewhere("file:///etc/passwd"), elsewhere("https://%zz"),
		{"_claim_names": "groups"},
		{"_claim_names": map[string]any{"groups": 1}},
		{"_claim_names": map[string]any{"groups": "src1"}},
		{"_claim_names": map[string]any{"groups": "src1"}, "_claim_sources": map[string]any{"src2": map[string]any{}}},
	} {
		_, ok, err := a.Authenticate(request(t, e.Token(claims)))
		require.False(t, ok, "%v", claims)
		require.Error(t, err)
	}
}

// An endpoint that hangs costs the request that asks, and no other.
func TestJ11_AnEndpointOfAClaimThatHangs(t *testing.T) {
	e := newEndpoint(t)
	a := open(t, jwt.Options{}, provider(e.Issuer))
	accepted(t, a, e.Token(map[string]any{"sub": "bob"}))
	hangs := make(chan struct{})
	defer close(hangs)
	e.with(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hangs:
		case <-r.Context().Done():
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := request(t, e.Token(elsewhere(e.URL+"/groups"))).WithContext(ctx)
	done := make(chan error, 1)
	go func() {
		_, _, err := a.Authenticate(r)
		done <- err
	}()
	require.Eventually(t, func() bool { return len(e.requests()) == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, "carol", accepted(t, a, e.Token(map[string]any{"sub": "carol"})).Name)
	cancel()
	require.Error(t, <-done)
}
