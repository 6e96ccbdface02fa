package kindwright_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/bootstrap"
	"github.com/kindwright/kindwright/authn/jwt"
	"github.com/kindwright/kindwright/authn/serviceaccount"
	"github.com/kindwright/kindwright/authn/token"
	"github.com/kindwright/kindwright/internal/issuer"
	"github.com/kindwright/kindwright/internal/selfsigned"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// every returns all ways to check a token that need no other server, as a program has them.
func every(t *testing.T, i *issuer.Issuer) authn.Authenticator {
	t.Helper()
	listed, err := token.Read(strings.NewReader(goodToken + ",alice,u1\n"))
	require.NoError(t, err)
	key, err := selfsigned.NewAuthority("keys")
	require.NoError(t, err)
	keys, err := serviceaccount.NewKeySet(serviceaccount.PublicKey{Key: key.Certificate().PublicKey})
	require.NoError(t, err)
	accounts, err := serviceaccount.New(serviceaccount.Options{Issuers: []string{"https://accounts"}, Keys: keys, Legacy: true})
	require.NoError(t, err)
	gone := func(_ context.Context, _ meta.GroupVersionResource, _, name string) (*watch.Entry, error) {
		return nil, status.NotFound(meta.GroupResource{Resource: "serviceaccounts"}, name)
	}
	signed, err := jwt.New(jwt.Configuration{JWT: []jwt.Provider{{
		Issuer:        jwt.Issuer{URL: i.URL, CertificateAuthority: i.Authorities, Audiences: []string{issuer.Audience}},
		ClaimMappings: jwt.ClaimMappings{Username: jwt.PrefixedClaimOrExpression{Claim: "sub", Prefix: new(string)}},
	}}}, jwt.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, signed.Close()) })
	secrets := bootstrap.Tokens{Read: func(_ context.Context, name string) (bootstrap.Secret, error) {
		return bootstrap.Secret{}, status.NotFound(meta.GroupResource{Resource: "secrets"}, name)
	}}
	return authn.Union(listed, accounts.Authenticator(gone), signed, secrets, authn.Anonymous())
}

// J7, J8: a token that is refused takes at most twice its size in memory, garbage included, whatever
// it looks like and in whichever field it comes.
func TestJ7_J8_ARefusedTokenTakesTwiceItsSize(t *testing.T) {
	i := issuer.New(t)
	all := every(t, i)
	b64 := base64.RawURLEncoding.EncodeToString
	const size = 60 << 10
	filled := func(start string) string { return start + strings.Repeat("a", size*3/4-len(start)-200) + `"}` }
	from := func(header, iss, signature string) string {
		return b64([]byte(header)) + "." + b64([]byte(filled(`{"iss":"`+iss+`","x":"`))) + "." + b64([]byte(signature))
	}
	few := strings.Repeat("s", 64)
	tokens := map[string]string{
		"no dot":                         strings.Repeat("a", size),
		"dots":                           strings.Repeat(".", size),
		"nobody's":                       from(`{"alg":"RS256","kid":"first"}`, "https://nobody", few),
		"no issuer":                      "e30." + b64([]byte(filled(`{"x":"`))) + ".e30",
		"the provider's, unsigned":       from(`{"alg":"RS256"}`, i.URL, few),
		"the provider's, other key":      from(`{"alg":"RS256","kid":"x"}`, i.URL, few),
		"a good signature length":        from(`{"alg":"RS256"}`, i.URL, strings.Repeat("s", 256)),
		"another algorithm":              from(`{"alg":"HS256"}`, i.URL, few),
		"an account's":                   from(`{"alg":"ES256"}`, "https://accounts", few),
		"a legacy account's":             from(`{"alg":"ES256"}`, serviceaccount.LegacyIssuer, few),
		"a long issuer":                  "e30." + b64([]byte(filled(`{"iss":"`))) + ".e30",
		"a long escaped issuer":          "e30." + b64([]byte(`{"iss":"`+strings.Repeat(`\u0061`, size/8)+`"}`)) + ".e30",
		"a long name":                    "e30." + b64([]byte(filled(`{"iss":"a`)[:size/2]+`":1}`)) + ".e30",
		"a long signature":               from(`{"alg":"RS256"}`, i.URL, few)[:1000] + "." + strings.Repeat("a", size-2000),
		"the provider's, long signature": b64([]byte(`{"alg":"RS256"}`)) + "." + b64([]byte(`{"iss":"`+i.URL+`"}`)) + "." + strings.Repeat("a", size-200),
		"a long header":                  b64([]byte(filled(`{"alg":"RS256","x":"`))) + "." + b64([]byte(`{"iss":"`+i.URL+`"}`)) + ".e30",
		"nested":                         b64([]byte(`{"alg":"RS256"}`)) + "." + b64([]byte(`{"x":`+strings.Repeat("[", size/3)+strings.Repeat("]", size/3)+`,"iss":"`+i.URL+`"}`)) + ".e30",
		"a bootstrap token":              "abcdef." + strings.Repeat("a", size),
		"bytes outside ASCII":            strings.Repeat("é", size/2),
		"too long":                       strings.Repeat("a", authn.MaxTokenBytes+1),
	}
	require.Eventually(t, func() bool {
		u, err := authn.Identify(all, bearing(i.Token(nil)))
		return err == nil && u.Name == "alice"
	}, 10*time.Second, time.Millisecond)
	for name, token := range tokens {
		for place, r := range map[string]*http.Request{"header": bearing(token), "subprotocol": offering(b64([]byte(token)))} {
			t.Run(name+" in the "+place, func(t *testing.T) {
				_, err := authn.Identify(all, r) // keys that are fetched, pools that are filled
				require.Error(t, err)
				least := uint64(math.MaxUint64) // a pool may have lost what it had, with the race detector above all
				for range 20 {
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					_, _ = authn.Identify(all, r)
					runtime.ReadMemStats(&after)
					least = min(least, after.TotalAlloc-before.TotalAlloc)
				}
				cost := float64(least) / float64(len(token))
				t.Logf("%.2f", cost)
				require.LessOrEqual(t, cost, 2.0)
			})
		}
	}
}

func bearing(token string) *http.Request {
	r := httptest.NewRequest("GET", "https://h/", nil)
	r.TLS = &tls.ConnectionState{}
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// offering is a handshake of a WebSocket with a token.
func offering(encoded string) *http.Request {
	r := httptest.NewRequest("GET", "https://h/", nil)
	r.Header.Set("Upgrade", "websocket")
	r.Header.Set("Sec-Websocket-Protocol", "v5, base64url.bearer.authorization.k8s.io."+encoded)
	return r
}
