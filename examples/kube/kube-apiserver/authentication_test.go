package main

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/issuer"
)

const selfReviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

func TestAUTHN_13_15_FLAG_13_TokensOfAnIssuer(t *testing.T) {
	i := issuer.New(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	ca := write("ca.crt", i.Authorities)
	s := run(t, "--data-dir="+t.TempDir(), "--oidc-issuer-url="+i.URL, "--oidc-client-id="+issuer.Audience, "--oidc-ca-file="+ca,
		"--oidc-username-claim=email", "--oidc-groups-claim=groups", "--oidc-signing-algs=RS256,ES256", "--authorization-mode=RBAC", "--api-audiences=api,more")
	require.NotContains(t, s.log.String(), "no effect")
	// As in Kubernetes, an address counts that the issuer says nothing about.
	code, out := s.do(t, i.Token(map[string]any{"email": "a@example.com", "groups": "dev"}), "POST", selfReviews, "{}")
	require.Equal(t, http.StatusCreated, code)
	user := out["status"].(map[string]any)["userInfo"].(map[string]any)
	require.Equal(t, "a@example.com", user["username"])
	require.Equal(t, []any{"dev", "system:authenticated"}, user["groups"])
	s.text(t, i.Token(map[string]any{"email": "a@example.com", "email_verified": false}), "/livez", http.StatusUnauthorized)
	review := `{"spec":{"token":"` + i.Token(map[string]any{"email": "a@example.com"}) + `","audiences":["other","api"]}}`
	code, out = s.do(t, "master", "POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
	require.Equal(t, http.StatusCreated, code)
	require.Equal(t, []any{"api"}, out["status"].(map[string]any)["audiences"], "the token is for the server, as --api-audiences names it")

	const head = "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthenticationConfiguration\n"
	config := write("authn.yaml", head+"anonymous: {enabled: true, conditions: [{path: /livez}]}\n")
	s = run(t, "--data-dir="+t.TempDir(), "--authentication-config="+config)
	s.text(t, "", "/livez", http.StatusOK)
	s.text(t, "", "/readyz", http.StatusUnauthorized)
	s.text(t, "master", "/readyz", http.StatusOK)
	require.NoError(t, os.WriteFile(config, []byte("jwt: ["), 0o600))
	require.Eventually(t, func() bool {
		code, _ := s.do(t, "master", "GET", "/healthz/authentication-config", "")
		return code != http.StatusOK
	}, time.Minute, 10*time.Millisecond)
	s.text(t, "", "/livez", http.StatusOK)
	s.stop()

	for want, args := range map[string][]string{
		"authentication-config file and oidc-* flags are mutually exclusive":                                          {"--authentication-config=" + config, "--oidc-client-id=x"},
		"oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set":                 {"--oidc-username-claim=sub"},
		"--anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file": {"--authentication-config=" + write("some.yaml", head+"anonymous: {enabled: true}"), "--anonymous-auth=true"},
		"URL must not overlap with disallowed issuers": {
			"--oidc-issuer-url=https://kubernetes.default.svc", "--oidc-client-id=x", "--service-account-issuer=https://kubernetes.default.svc",
		},
	} {
		require.Contains(t, refused(t, append(args, "--data-dir="+t.TempDir())...), want)
	}
}

func TestAUTHN_12_BootstrapTokens(t *testing.T) {
	const token = "abcdef.0123456789abcdef"
	dir := t.TempDir()
	s := run(t, "--data-dir="+dir, "--enable-bootstrap-token-auth")
	code, out := s.do(t, "master", "POST", "/api/v1/namespaces/kube-system/secrets", `{"metadata":{"name":"bootstrap-token-abcdef"},
		"type":"bootstrap.kubernetes.io/token","stringData":{"token-id":"abcdef","token-secret":"0123456789abcdef","usage-bootstrap-authentication":"true"}}`)
	require.Equal(t, http.StatusCreated, code, "%v", out)
	code, out = s.do(t, token, "POST", selfReviews, "{}")
	require.Equal(t, http.StatusCreated, code)
	require.Equal(t, "system:bootstrap:abcdef", out["status"].(map[string]any)["userInfo"].(map[string]any)["username"])
	s.stop()

	s = run(t, "--data-dir="+dir)
	code, _ = s.do(t, token, "POST", selfReviews, "{}")
	require.Equal(t, http.StatusUnauthorized, code)
	s.stop()
}
