package interop

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oauth2-proxy/mockoidc"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/authn/jwt"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/selfsigned"
)

// identityProvider is an OpenID Connect provider of somebody else, at one address for the whole test.
type identityProvider struct {
	*mockoidc.MockOIDC

	address     string
	certificate tls.Certificate
	client      *http.Client
}

// start starts the provider with a new key.
func (p *identityProvider) start(t *testing.T) {
	t.Helper()
	id, secret := "", ""
	if p.MockOIDC != nil {
		id, secret = p.ClientID, p.ClientSecret
	}
	m, err := mockoidc.NewServer(nil)
	require.NoError(t, err)
	m.Keypair, err = mockoidc.RandomKeypair(2048)
	require.NoError(t, err)
	if id != "" {
		m.ClientID, m.ClientSecret = id, secret
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", p.address)
	require.NoError(t, err)
	p.address = listener.Addr().String()
	conf := &tls.Config{Certificates: []tls.Certificate{p.certificate}, MinVersion: tls.VersionTLS12}
	require.NoError(t, m.Start(tls.NewListener(listener, conf), conf))
	p.MockOIDC = m
}

// login has a user log in with a browser, and returns the identity token.
func (p *identityProvider) login(t *testing.T) string {
	t.Helper()
	const redirect = "https://app.example.com/callback"
	ask := func(r *http.Request) *http.Response {
		answer, err := p.client.Do(r)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, answer.Body.Close()) })
		return answer
	}
	q := url.Values{
		"scope": {"openid email profile groups"}, "response_type": {"code"}, "redirect_uri": {redirect}, "state": {"s"}, "client_id": {p.ClientID},
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.AuthorizationEndpoint()+"?"+q.Encode(), http.NoBody)
	require.NoError(t, err)
	to, err := ask(r).Location()
	require.NoError(t, err)
	r, err = http.NewRequestWithContext(t.Context(), http.MethodPost, p.TokenEndpoint(), nil)
	require.NoError(t, err)
	r.URL.RawQuery = url.Values{
		"grant_type": {"authorization_code"}, "code": {to.Query().Get("code")}, "redirect_uri": {redirect},
		"client_id": {p.ClientID}, "client_secret": {p.ClientSecret},
	}.Encode()
	answer := ask(r)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s", text)
	var tokens struct {
		ID string `json:"id_token"`
	}
	require.NoError(t, json.Unmarshal(text, &tokens))
	return tokens.ID
}

// A user logs in at a provider, and client-go sends the token that it gives. The provider fails and
// comes back with another key meanwhile.
func TestAUTHN_13_AProviderOfOpenIDConnect(t *testing.T) {
	authority, err := selfsigned.NewAuthority("provider")
	require.NoError(t, err)
	pair, err := authority.Serving("127.0.0.1")
	require.NoError(t, err)
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	p := &identityProvider{address: "127.0.0.1:0", certificate: certificate, client: &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}, //nolint:gosec // our own provider
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	p.start(t)
	t.Cleanup(func() { require.NoError(t, p.Shutdown()) })

	prefix := "sso:"
	signed, err := jwt.New(jwt.Configuration{JWT: []jwt.Provider{{
		Issuer: jwt.Issuer{URL: p.Issuer(), Audiences: []string{p.ClientID}, CertificateAuthority: string(authority.PEM())},
		ClaimMappings: jwt.ClaimMappings{
			Username: jwt.PrefixedClaimOrExpression{Claim: "email", Prefix: &prefix},
			Groups:   jwt.PrefixedClaimOrExpression{Expression: "claims.groups.map(g, 'sso:' + g)"},
		},
	}}}, jwt.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, signed.Close()) })

	everything := authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) { return authz.Allow, "", nil })
	e := apitest.Config{Options: []kindwright.Option{kindwright.Authenticate(signed), kindwright.Authorize(everything)}}.New(t).ListenTLS()
	file := filepath.Join(t.TempDir(), "token")
	client := func(token string) kubernetes.Interface {
		require.NoError(t, os.WriteFile(file, []byte(token), 0o600))
		c, err := kubernetes.NewForConfig(&rest.Config{Host: e.URL, BearerTokenFile: file, TLSClientConfig: rest.TLSClientConfig{CAData: e.CA}})
		require.NoError(t, err)
		return c
	}
	who := func(token string) (authenticationv1.UserInfo, error) {
		r, err := client(token).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			return authenticationv1.UserInfo{}, err
		}
		return r.Status.UserInfo, nil
	}
	first := p.login(t)
	u, err := who(first)
	require.NoError(t, err)
	require.Equal(t, "sso:jane.doe@example.com", u.Username)
	require.Equal(t, []string{"sso:engineering", "sso:design", "system:authenticated"}, u.Groups)
	p.QueueUser(&mockoidc.MockUser{Subject: "2", Email: "joe@example.com", Groups: []string{"design"}})
	_, err = who(p.login(t))
	require.True(t, apierrors.IsUnauthorized(err), "%v: an address that is not verified", err)

	require.NoError(t, p.Shutdown())
	_, err = who(first)
	require.NoError(t, err, "the keys stay in use while the provider is away")
	p.start(t)
	second := p.login(t)
	require.Eventually(t, func() bool { // at most one fetch in ten seconds
		_, err := who(second)
		require.True(t, err == nil || apierrors.IsUnauthorized(err), "%v", err)
		return err == nil
	}, time.Minute, 100*time.Millisecond)
	_, err = who(first)
	require.True(t, apierrors.IsUnauthorized(err), "%v: its key is gone", err)
}
