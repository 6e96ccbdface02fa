package jwt_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/jwt"
	"github.com/kindwright/kindwright/internal/issuer"
)

// provider accepts tokens of an issuer: sub is the name, groups are the groups.
func provider(i *issuer.Issuer, change ...func(*jwt.Provider)) jwt.Provider {
	p := jwt.Provider{
		Issuer: jwt.Issuer{URL: i.URL, CertificateAuthority: i.Authorities, Audiences: []string{issuer.Audience}},
		ClaimMappings: jwt.ClaimMappings{
			Username: jwt.PrefixedClaimOrExpression{Claim: "sub", Prefix: new(string)},
			Groups:   jwt.PrefixedClaimOrExpression{Claim: "groups", Prefix: new(string)},
		},
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

func open(t *testing.T, o jwt.Options, providers ...jwt.Provider) *jwt.Authenticator {
	t.Helper()
	if providers == nil {
		providers = []jwt.Provider{}
	}
	a, err := jwt.New(jwt.Configuration{JWT: providers}, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	return a
}

func request(t *testing.T, token string) *http.Request {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil).WithContext(t.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func accepted(t *testing.T, a authn.Authenticator, token string) authn.User {
	t.Helper()
	u, ok, err := a.Authenticate(request(t, token))
	require.NoError(t, err)
	require.True(t, ok)
	return u
}

// rejected checks that a token is an error, as a wrong one of a known issuer is.
func rejected(t *testing.T, a authn.Authenticator, token, why string) {
	t.Helper()
	_, ok, err := a.Authenticate(request(t, token))
	require.False(t, ok)
	require.ErrorContains(t, err, why)
	require.NotContains(t, err.Error(), token)
}

// left checks that a token is left to other authenticators.
func left(t *testing.T, a authn.Authenticator, token string) {
	t.Helper()
	_, ok, err := a.Authenticate(request(t, token))
	require.False(t, ok)
	require.NoError(t, err)
}

func TestAUTHN_13_ATokenStandsForAUser(t *testing.T) {
	i := issuer.New(t)
	a := open(t, jwt.Options{}, provider(i))
	exp := time.Now().Add(time.Hour).Unix()
	u := accepted(t, a, i.Token(map[string]any{"groups": []string{"dev", "ops"}, "jti": "t1", "exp": exp}))
	require.Equal(t, authn.User{
		Name: "alice", Groups: []string{"dev", "ops"}, Method: "jwt", Issuer: i.URL, Audiences: []string{issuer.Audience}, Expires: time.Unix(exp, 0),
		Extra: map[string][]string{"authentication.kubernetes.io/credential-id": {"JTI=t1"}},
	}, u)
	left(t, a, "opaque")
	left(t, a, strings.Repeat(".", 2))
	require.NoError(t, a.Check(t.Context()))
	require.Nil(t, a.Anonymous())
}

func BenchmarkAuthenticate(b *testing.B) {
	i := issuer.New(b)
	a, err := jwt.New(jwt.Configuration{JWT: []jwt.Provider{provider(i)}}, jwt.Options{})
	require.NoError(b, err)
	defer func() { require.NoError(b, a.Close()) }()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+i.Token(map[string]any{"groups": []string{"dev", "ops"}}))
	_, ok, err := a.Authenticate(r)
	require.NoError(b, err)
	require.True(b, ok)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, _ := a.Authenticate(r); !ok {
			b.Fatal("the token is not accepted")
		}
	}
}
