package program

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/issuer"
)

const authenticationHead = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"

// trusting is the configuration that accepts the tokens of issuers: sub is the name, after a prefix.
func trusting(issuers ...*issuer.Issuer) string {
	text := authenticationHead + "jwt:\n"
	for n, i := range issuers {
		text += fmt.Sprintf("- issuer: {url: %q, audiences: [%s], certificateAuthority: %q}\n", i.URL, issuer.Audience, i.Authorities) +
			fmt.Sprintf("  claimMappings: {username: {claim: sub, prefix: '%d:'}, groups: {claim: groups, prefix: ''}}\n", n)
	}
	return text
}

func TestAUTHN_13_15_17_TokensOfAnIssuerAreAccepted(t *testing.T) {
	i, other := issuer.New(t), issuer.New(t)
	file := writeTo(t, t.TempDir(), "authn.yaml", trusting(i))
	s := serveIn(t, t.TempDir(), "--authentication-config="+file)
	nobody := anonymous(t, s.kubeconfig)
	user := whoami(t, nobody.with(i.Token(map[string]any{"groups": []string{"dev"}})))
	require.Equal(t, "0:alice", user.Username)
	require.Equal(t, []string{"dev", "system:authenticated"}, user.Groups)
	for _, token := range []string{other.Token(nil), i.Token(map[string]any{"aud": "x"}), i.Token(nil) + "x", "e30.e30.e30"} {
		a := nobody.with(token).do(t, "GET", "/healthz", "")
		require.Equal(t, http.StatusUnauthorized, a.code)
		require.Equal(t, "Unauthorized", a.status(t).Message)
	}
	require.NotContains(t, s.errOut.String(), "e30")

	r := refused(t, "--authentication-config="+file, "--oidc-issuer-url="+i.URL, "--oidc-client-id=x")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.errOut, "authentication-config file and oidc-* flags are mutually exclusive")
}

// The rules of a document decide over the tokens of a running server, which logs why it refuses one.
func TestAUTHNCFG_19_28_29_31_37_RulesOfADocument(t *testing.T) {
	i, other := issuer.New(t), issuer.New(t)
	provider := func(i *issuer.Issuer, more string) string {
		return fmt.Sprintf("- issuer: {url: %q, audiences: [%s], certificateAuthority: %q%s}\n", i.URL, issuer.Audience, other.Authorities+i.Authorities, more)
	}
	text := authenticationHead + "jwt:\n" + provider(i, "") + `  claimValidationRules:
  - {claim: hd, requiredValue: example.com}
  - {claim: empty}
  - {expression: "claims.?level.orValue(1.0) < 5.0", message: too high a level}
  claimMappings:
    username: {claim: sub, prefix: ""}
    groups: {claim: roles, prefix: "r:"}
` + provider(&issuer.Issuer{URL: "https://stranger.example.com", Authorities: other.Authorities}, fmt.Sprintf(", discoveryURL: %q", other.URL+"/.well-known/openid-configuration")) +
		"  claimMappings: {username: {claim: sub, prefix: ''}}\n"
	s := serveIn(t, t.TempDir(), "--authentication-config="+writeTo(t, t.TempDir(), "authn.yaml", text), "-v=2")
	nobody := anonymous(t, s.kubeconfig)
	with := func(more map[string]any) *client {
		all := map[string]any{"hd": "example.com", "empty": ""}
		for name, v := range more {
			all[name] = v
		}
		return nobody.with(i.Token(all))
	}
	for _, none := range []any{"", []string{}, nil} { // AUTHNCFG-37
		require.Equal(t, []string{"system:authenticated"}, whoami(t, with(map[string]any{"roles": none})).Groups)
	}
	require.Equal(t, []string{"r:a", "system:authenticated"}, whoami(t, with(map[string]any{"roles": []string{"a"}})).Groups)
	for row, claims := range map[string]map[string]any{
		"AUTHNCFG-28, missing": {"hd": nil}, "AUTHNCFG-28": {"hd": "x"}, "AUTHNCFG-28, no text": {"hd": []string{"example.com"}},
		"AUTHNCFG-29, missing": {"empty": nil}, "AUTHNCFG-29": {"empty": "x"},
		"AUTHNCFG-31": {"level": 7},
	} {
		require.Equal(t, http.StatusUnauthorized, with(claims).do(t, "GET", "/healthz", "").code, row)
	}
	require.Contains(t, s.errOut.String(), "failed: too high a level", "AUTHNCFG-31")
	// The issuer of the second provider has a document that names another issuer.
	require.Equal(t, http.StatusUnauthorized, nobody.with(other.Token(map[string]any{"iss": "https://stranger.example.com"})).do(t, "GET", "/healthz", "").code)
	require.Contains(t, s.errOut.String(), "is that of another issuer", "AUTHNCFG-19")
}

func TestFLAG_13_TheFlagsOfOpenIDConnect(t *testing.T) {
	i := issuer.New(t)
	ca := writeTo(t, t.TempDir(), "ca.crt", i.Authorities)
	s := serveIn(t, t.TempDir(), "--oidc-issuer-url="+i.URL, "--oidc-client-id="+issuer.Audience, "--oidc-ca-file="+ca,
		"--oidc-groups-claim=roles", "--oidc-groups-prefix=r:", "--oidc-required-claim=hd=example.com", "--api-audiences=api")
	nobody := anonymous(t, s.kubeconfig)
	user := whoami(t, nobody.with(i.Token(map[string]any{"hd": "example.com", "roles": "dev"})))
	require.Equal(t, i.URL+"#alice", user.Username)
	require.Equal(t, []string{"r:dev", "system:authenticated"}, user.Groups)
	require.Equal(t, http.StatusUnauthorized, nobody.with(i.Token(nil)).do(t, "GET", "/healthz", "").code)
	review := `{"spec":{"token":"` + i.Token(map[string]any{"hd": "example.com"}) + `","audiences":["api"]}}`
	a := admin(t, s.kubeconfig).do(t, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
	require.Equal(t, http.StatusCreated, a.code)
	var reviewed authn.TokenReview
	require.NoError(t, json.Unmarshal(a.body, &reviewed))
	require.Equal(t, []string{"api"}, reviewed.Status.Audiences, "the token is for the server, as --api-audiences names it")
	i.Publish(issuer.ECDSA(t, "new"))
	require.Equal(t, http.StatusUnauthorized, nobody.with(i.Token(map[string]any{"hd": "example.com"})).do(t, "GET", "/healthz", "").code, "only RS256 by default")
}

func TestAUTHN_04_05_14_FLAG_02_FilesAndFlagsThatContradictEachOther(t *testing.T) {
	dir := t.TempDir()
	some := writeTo(t, dir, "some.yaml", authenticationHead+"anonymous: {enabled: true, conditions: [{path: /healthz}]}\n")
	for want, args := range map[string][]string{
		"--anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file": {"--authentication-config=" + some, "--anonymous-auth=true"},
		"anonymous is not supported when AnonymousAuthConfigurableEndpoints feature gate is disabled": {
			"--authentication-config=" + some, "--emulated-version=1.31", "--feature-gates=StructuredAuthenticationConfiguration=true",
		},
		"set --feature-gates=StructuredAuthenticationConfiguration=true to use authentication-config file": {"--authentication-config=" + some, "--emulated-version=1.29"},
		"authentication configuration " + dir + "/none":                                                    {"--authentication-config=" + dir + "/none"},
		"anon: Forbidden: unknown field":                                                                   {"--authentication-config=" + writeTo(t, dir, "wrong.yaml", authenticationHead+"jwt: []\nanon: {}\n")},
		"jwt[0].issuer.egressSelectorType: Forbidden: egress selection is not used": {
			"--authentication-config=" + writeTo(t, dir, "egress.yaml", strings.Replace(trusting(issuer.New(t)), "audiences:", "egressSelectorType: cluster, audiences:", 1)),
		}, // READ-31
		"jwt[0].issuer.url: Invalid value": {"--oidc-issuer-url=http://login.example.com", "--oidc-client-id=x"},
		"--oidc-ca-file":                   {"--oidc-issuer-url=https://login.example.com", "--oidc-client-id=x", "--oidc-ca-file=" + dir + "/none"},
		"must be specified together":       {"--oidc-issuer-url=https://login.example.com"},
		"--oidc-signing-algs":              {"--oidc-issuer-url=https://login.example.com", "--oidc-client-id=x", "--oidc-signing-algs=HS256"},
	} {
		r := refused(t, append(args, "--listen=127.0.0.1:0", "--data-dir="+dir+"/data")...)
		require.NotZero(t, r.code, want)
		require.Contains(t, r.errOut, want)
		require.NoDirExists(t, dir+"/data")
	}
}

func TestAUTHN_01_02_AnonymousRequests(t *testing.T) {
	open, shut := anonymous(t, serveIn(t, t.TempDir(), "--authorization-mode=RBAC").kubeconfig), anonymous(t, serveIn(t, t.TempDir(), "--anonymous-auth=false").kubeconfig)
	a := open.do(t, "GET", widgetsPath, "")
	require.Equal(t, http.StatusForbidden, a.code)
	require.Contains(t, a.status(t).Message, `User "system:anonymous"`)
	require.Equal(t, http.StatusOK, open.do(t, "GET", "/healthz", "").code)
	for _, path := range []string{"/healthz", widgetsPath} {
		require.Equal(t, http.StatusUnauthorized, shut.do(t, "GET", path, "").code)
	}
}

func TestAUTHNCFG_07_08_09_AnonymousRequestsByPath(t *testing.T) {
	dir := t.TempDir()
	config := writeTo(t, dir, "some.yaml", authenticationHead+"jwt: []\nanonymous: {enabled: true, conditions: [{path: /livez}, {path: /readyz}]}\n")
	s := serveIn(t, t.TempDir(), "--authentication-config="+config)
	nobody := anonymous(t, s.kubeconfig)
	for path, code := range map[string]int{
		"/livez": http.StatusOK, "/readyz": http.StatusOK, "/livez?verbose": http.StatusOK, "/healthz": http.StatusUnauthorized, "/livez/": http.StatusUnauthorized,
		"/livez/ping": http.StatusUnauthorized, "/LIVEZ": http.StatusUnauthorized, widgetsPath: http.StatusUnauthorized,
	} {
		require.Equal(t, code, nobody.do(t, "GET", path, "").code, path)
	}
	require.Equal(t, http.StatusUnauthorized, nobody.with("guess").do(t, "GET", "/livez", "").code, "a bad credential is not anonymous")
	require.Equal(t, http.StatusOK, admin(t, s.kubeconfig).do(t, "GET", widgetsPath, "").code, "AUTHNCFG-03")

	config = writeTo(t, dir, "none.yaml", authenticationHead+"jwt: []\nanonymous: {enabled: false}\n")
	nobody = anonymous(t, serveIn(t, t.TempDir(), "--authentication-config="+config).kubeconfig)
	require.Equal(t, http.StatusUnauthorized, nobody.do(t, "GET", "/livez", "").code)
	config = writeTo(t, dir, "all.yaml", authenticationHead+"jwt: []\nanonymous: {enabled: true}\n")
	nobody = anonymous(t, serveIn(t, t.TempDir(), "--authentication-config="+config).kubeconfig)
	require.Equal(t, http.StatusForbidden, nobody.do(t, "GET", widgetsPath, "").code)
}

// A changed file takes effect while the server runs. A bad one does not, and health says so.
func TestAuthenticationConfigurationIsReadAgain(t *testing.T) {
	first, second := issuer.New(t), issuer.New(t)
	path := writeTo(t, t.TempDir(), "authn.yaml", trusting(first))
	s := serveIn(t, t.TempDir(), "--authentication-config="+path)
	kube := admin(t, s.kubeconfig)
	nobody := anonymous(t, s.kubeconfig)
	rewrite := func(text string) {
		require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
		require.NoError(t, os.Rename(path+".new", path))
	}
	code := func(token string) int { return nobody.with(token).do(t, "GET", "/healthz", "").code }
	require.Equal(t, http.StatusOK, code(first.Token(nil)))
	require.Equal(t, http.StatusUnauthorized, code(second.Token(nil)))

	rewrite(trusting(second))
	require.Eventually(t, func() bool { return code(second.Token(nil)) == http.StatusOK }, waitLimit, 10*time.Millisecond)
	require.Equal(t, http.StatusUnauthorized, code(first.Token(nil)), "the first one counts no longer")

	rewrite(authenticationHead + "jwt: [{}]")
	check := "/healthz/authentication-config"
	require.Eventually(t, func() bool { return kube.do(t, "GET", check, "").code != http.StatusOK }, waitLimit, 10*time.Millisecond)
	require.Contains(t, string(kube.do(t, "GET", check, "").body), "jwt[0].issuer.url: Required value")
	require.Equal(t, http.StatusOK, kube.do(t, "GET", "/readyz", "").code)
	require.Equal(t, http.StatusOK, nobody.with(second.Token(nil)).do(t, "GET", "/readyz", "").code, "the last good one stays")
	metrics := string(kube.do(t, "GET", "/metrics", "").body)
	for _, series := range []string{
		`apiserver_authentication_config_controller_automatic_reloads_total{apiserver_id_hash="",status="success"} 1`,
		`apiserver_authentication_config_controller_automatic_reloads_total{apiserver_id_hash="",status="failure"} 1`,
		`apiserver_authentication_config_controller_last_config_info{`,
	} {
		assert.Contains(t, metrics, series)
	}
	require.Eventually(t, func() bool { return strings.Contains(s.errOut.String(), "the last good one stays in effect") }, waitLimit, time.Millisecond)
}

// signingKey writes a key, and returns the path.
func signingKey(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	return writeTo(t, t.TempDir(), "sa.key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
}

// robotToken makes an account, and asks for a token of it.
func robotToken(t *testing.T, boss *client, spec string) (token string) {
	t.Helper()
	const path = "/api/v1/namespaces/default/serviceaccounts"
	require.Contains(t, []int{http.StatusCreated, http.StatusConflict}, boss.do(t, "POST", path, `{"metadata":{"name":"robot"}}`).code)
	a := boss.do(t, "POST", path+"/robot/token", `{"spec":{`+spec+`}}`)
	require.Equal(t, http.StatusCreated, a.code, "%s", a.body)
	var issued struct{ Status struct{ Token string } }
	require.NoError(t, json.Unmarshal(a.body, &issued))
	return issued.Status.Token
}

func TestSAT_05_SAT_06_FLAG_09_ServiceAccounts(t *testing.T) {
	data, key := t.TempDir(), signingKey(t)
	own := []string{"--service-account-issuer=https://new.example.dev", "--service-account-issuer=https://old.example.dev", "--service-account-signing-key-file=" + key}
	s := serveIn(t, data, append(own, "--api-audiences=api,more", "--service-account-max-token-expiration=2h", "--service-account-jwks-uri=https://keys.example.dev/jwks")...)
	boss, nobody := admin(t, s.kubeconfig), anonymous(t, s.kubeconfig)
	token := robotToken(t, boss, `"expirationSeconds":86400`)
	user := whoami(t, nobody.with(token))
	require.Equal(t, "system:serviceaccount:default:robot", user.Username)
	require.Equal(t, []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"}, user.Groups)
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	require.NoError(t, err)
	var claims struct {
		Issuer   string   `json:"iss"`
		Audience []string `json:"aud"`
		Issued   int64    `json:"iat"`
		Expires  int64    `json:"exp"`
	}
	require.NoError(t, json.Unmarshal(text, &claims))
	require.Equal(t, "https://new.example.dev", claims.Issuer)
	require.Equal(t, []string{"api", "more"}, claims.Audience)
	require.EqualValues(t, 7200, claims.Expires-claims.Issued)

	a := nobody.with(token).do(t, "GET", "/.well-known/openid-configuration", "")
	require.Equal(t, http.StatusOK, a.code, "%s", a.body)
	require.Contains(t, string(a.body), `"jwks_uri":"https://keys.example.dev/jwks"`)
	require.Equal(t, http.StatusOK, nobody.with(token).do(t, "GET", "/openid/v1/jwks", "").code)
	require.Equal(t, http.StatusForbidden, nobody.do(t, "GET", "/openid/v1/jwks", "").code)
	require.Equal(t, http.StatusOK, boss.do(t, "DELETE", "/api/v1/namespaces/default/serviceaccounts/robot", "").code)
	require.Equal(t, http.StatusUnauthorized, nobody.with(token).do(t, "GET", "/healthz", "").code)
}

func TestSAT_05_WrongFlagsOfServiceAccounts(t *testing.T) {
	key, dir := signingKey(t), t.TempDir()
	const some = "--service-account-issuer=https://a.example.dev"
	for want, args := range map[string][]string{
		"--service-account-signing-key-file and --service-account-issuer belong together": {"--service-account-signing-key-file=" + key},
		"--service-account-key-file and --service-account-issuer belong together":         {"--service-account-key-file=" + key},
		"should not be an empty string":                                                   {"--service-account-issuer="},
		`"https://a.example.dev" is already specified`:                                    {some, some},
		"contained a ':' but was not a valid URL":                                         {"--service-account-issuer=https://a b:c"},
		"--service-account-jwks-uri requires https scheme":                                {some, "--service-account-jwks-uri=http://x"},
		"--service-account-jwks-uri must be a valid URL":                                  {some, "--service-account-jwks-uri=https://%zz"},
		"must be between 1 hour and 2^32 seconds":                                         {some, "--service-account-max-token-expiration=59m"},
		"no such file": {some, "--service-account-key-file=" + dir + "/none"},
		"the signing key " + dir + "/bad: no private key in PEM format": {some, "--service-account-signing-key-file=" + writeTo(t, dir, "bad", "x")},
		"no key in PEM format":  {some, "--service-account-key-file=" + writeTo(t, dir, "bad2", "x")},
		"invalid boolean value": {"--service-account-lookup=maybe"},
	} {
		r := refused(t, append(args, "--listen=127.0.0.1:0", "--data-dir="+dir+"/data")...)
		require.NotZero(t, r.code, want)
		require.Contains(t, r.errOut, want)
		require.Contains(t, r.errOut, "service-account-", want)
		require.NoDirExists(t, dir+"/data")
	}
}

func TestAUTHN_12_FLAG_09_BootstrapTokens(t *testing.T) {
	const token = "abcdef.0123456789abcdef"
	secret := `{"metadata":{"name":"bootstrap-token-abcdef"},"type":"bootstrap.kubernetes.io/token",
		"stringData":{"token-id":"abcdef","token-secret":"0123456789abcdef","usage-bootstrap-authentication":"true"}}`
	s := serveIn(t, t.TempDir(), "--enable-bootstrap-token-auth")
	boss, nobody := admin(t, s.kubeconfig), anonymous(t, s.kubeconfig)
	require.Contains(t, []int{http.StatusCreated, http.StatusConflict}, boss.do(t, "POST", "/api/v1/namespaces", `{"metadata":{"name":"kube-system"}}`).code)
	require.Equal(t, http.StatusUnauthorized, nobody.with(token).do(t, "GET", "/healthz", "").code)
	require.Equal(t, http.StatusCreated, boss.do(t, "POST", "/api/v1/namespaces/kube-system/secrets", secret).code)
	require.Equal(t, "system:bootstrap:abcdef", whoami(t, nobody.with(token)).Username)

	without := serveIn(t, t.TempDir())
	require.Equal(t, http.StatusUnauthorized, anonymous(t, without.kubeconfig).with(token).do(t, "GET", "/healthz", "").code)
	require.Equal(t, http.StatusNotFound, admin(t, without.kubeconfig).do(t, "GET", "/api/v1/namespaces/kube-system/secrets", "").code)
}
