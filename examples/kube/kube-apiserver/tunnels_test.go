package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/egress/egresstest"
	"github.com/kindwright/kindwright/internal/issuer"
)

// egressFile writes an EgressSelectorConfiguration and returns the flag that names it.
func egressFile(t *testing.T, document string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "egress.yaml")
	require.NoError(t, os.WriteFile(path, []byte(document), 0o600))
	return "--" + flagEgress + "=" + path
}

func TestEGRESS_01_04_05_07_11_FLAG_FilesThatTheServerDoesNotStartWith(t *testing.T) {
	const head = "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\n"
	cluster := func(connection string) string {
		return head + "egressSelections: [{name: cluster, connection: {" + connection + "}}]"
	}
	for document, want := range map[string]string{
		"kind: Pod\napiVersion: v1":    `kind: Invalid value: "Pod"`,
		head + "egress: []":            "egress: Forbidden: unknown field",
		cluster("proxyProtocol: Warp"): `egressSelections[0].connection.proxyProtocol: Unsupported value: "Warp"`,
		cluster("proxyProtocol: GRPC"): "egressSelections[0].connection.transport: Required value: transport must be set for GRPC",
		cluster("proxyProtocol: GRPC, transport: {tcp: {url: 'http://a'}}"):                                                               "transport.uds: Required value: UDS must be set with GRPC",
		cluster("proxyProtocol: HTTPConnect, transport: {tcp: {url: 'https://a', tlsConfig: {clientKey: /absent, clientCert: /absent}}}"): "tlsConfig.clientKey: Invalid value: \"/absent\": TLS client key does not exist",
	} {
		said := refused(t, "--data-dir="+t.TempDir(), egressFile(t, document))
		require.Contains(t, said, want)
		require.Contains(t, said, "--"+flagEgress)
	}
	require.Contains(t, refused(t, "--data-dir="+t.TempDir(), "--"+flagEgress+"=/absent/egress.yaml"), "/absent/egress.yaml")

	// Without selections nothing is selected, as in Kubernetes; GRPC needs no server at the start.
	for _, document := range []string{head, cluster("proxyProtocol: GRPC, transport: {uds: {udsName: /absent}}")} {
		require.Zero(t, run(t, "--data-dir="+t.TempDir(), egressFile(t, document)).stop())
	}
}

// connectionTo writes a connection file.
func connectionTo(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "connection.yaml")
	require.NoError(t, os.WriteFile(path, []byte(fmt.Sprintf(
		"{current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: %q}}]}", server)), 0o600))
	return path
}

// Everything that the operator has configured is asked through the tunnel of the control plane, under names
// that are known there alone.
func TestEGRESS_13_WebhooksOfTheOperatorAreReachedThroughATunnel(t *testing.T) {
	tunnel := egresstest.Listen(t)
	answers := map[string]string{
		"tokens.internal:80": `{"apiVersion":"authentication.k8s.io/v1beta1","kind":"TokenReview","status":{"authenticated":true,"user":{"username":"zoe"}}}`,
		"access.internal:80": `{"apiVersion":"authorization.k8s.io/v1beta1","kind":"SubjectAccessReview","status":{"allowed":true}}`,
		"audit.internal:80":  `{}`,
	}
	for at, answer := range answers {
		hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer)
		}))
		t.Cleanup(hook.Close)
		tunnel.Lead(at, hook.Listener.Addr().String())
	}
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]"), 0o600))
	s := run(t, "--data-dir="+t.TempDir(), egressFile(t, tunnel.Document("controlplane")),
		"--authentication-token-webhook-config-file="+connectionTo(t, "http://tokens.internal"), "--authentication-token-webhook-cache-ttl=0",
		"--authorization-mode=RBAC,Webhook", "--authorization-webhook-config-file="+connectionTo(t, "http://access.internal"),
		"--authorization-webhook-cache-authorized-ttl=0", "--audit-policy-file="+policy,
		"--audit-webhook-config-file="+connectionTo(t, "http://audit.internal"), "--audit-webhook-mode=blocking")
	code, said := s.do(t, "of-zoe", "GET", "/api/v1/namespaces/default/secrets", "")
	require.Equal(t, 200, code, said)
	for at := range answers {
		require.True(t, slices.Contains(tunnel.Asked(), at), at)
	}
	require.Contains(t, s.text(t, "master", "/metrics", 200), `apiserver_egress_dialer_dial_start_total{protocol="http_connect",transport="uds"}`)

	tunnel.Close()
	require.Eventually(t, func() bool {
		code, _ := s.do(t, "of-zoe", "GET", "/api/v1/namespaces/default/secrets", "")
		return code == 401
	}, time.Minute, 10*time.Millisecond, "nobody vouches for the token without the tunnel")
}

// READ-31: the field that Kubernetes added in 1.34 says through which tunnel an issuer is reached. It must be
// configured, as in kube-apiserver.
func TestREAD_31_AUTHNCFG_47_EGRESS_13_IssuersBehindATunnel(t *testing.T) {
	i, tunnel := issuer.New(t), egresstest.Listen(t)
	file := func(selector string) string {
		path := filepath.Join(t.TempDir(), "authn.yaml")
		text := fmt.Sprintf("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n"+
			"- issuer: {url: %q, audiences: [%s], egressSelectorType: %s, certificateAuthority: %q}\n"+
			"  claimMappings: {username: {claim: sub, prefix: 'oidc:'}}\n", i.URL, issuer.Audience, selector, i.Authorities)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return "--authentication-config=" + path
	}
	for _, selector := range []string{"controlplane", "cluster"} {
		tunnel.Forget()
		s := run(t, "--data-dir="+t.TempDir(), file(selector), egressFile(t, tunnel.Document(selector)))
		code, out := s.do(t, i.Token(nil), "POST", selfReviews, "{}")
		require.Equal(t, http.StatusCreated, code)
		require.Equal(t, "oidc:alice", out["status"].(map[string]any)["userInfo"].(map[string]any)["username"])
		require.Contains(t, tunnel.Asked(), strings.TrimPrefix(i.URL, "https://"))
		s.stop()
	}
	both := egressFile(t, tunnel.Document("controlplane", "cluster"))
	for want, args := range map[string][]string{
		`jwt[0].issuer.egressSelectorType: Invalid value: "etcd": egress selector must be either controlplane or cluster`:     {file("etcd")},
		`jwt[0].issuer.egressSelectorType: Invalid value: "cluster": egress lookup for "cluster" is not configured`:           {file("cluster")},
		`jwt[0].issuer.egressSelectorType: Invalid value: "controlplane": egress lookup for "controlplane" is not configured`: {file("controlplane"), egressFile(t, tunnel.Document("cluster"))},
		"jwt[0].issuer.egressSelectorType: Forbidden":                                                                         {both, file("cluster"), "--feature-gates=" + gateIssuerEgress + "=false"},
		"jwt[0].issuer.egressSelectorType: Forbidden:":                                                                        {both, file("cluster"), "--emulated-version=1.33"},
	} {
		require.Contains(t, refused(t, append(args, "--data-dir="+t.TempDir())...), want)
	}
}
