package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1beta1 "k8s.io/api/authentication/v1beta1"
	authorizationv1 "k8s.io/api/authorization/v1"
	authorizationv1beta1 "k8s.io/api/authorization/v1beta1"
)

// webhookOf serves a webhook whose documents have a type of Kubernetes. It rejects what the type
// does not have.
func webhookOf[T any](t *testing.T, answer func(*T)) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review T
		in := json.NewDecoder(r.Body)
		in.DisallowUnknownFields()
		if err := in.Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer(&review)
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(srv.Close)
	return inFile(t, fmt.Sprintf(`{current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: %q}}]}`, srv.URL))
}

func inFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// REVIEW-07: the types of Kubernetes read what the webhooks are sent.
func TestAUTHZ_01_AUTHN_09_WebhooksOfTheFlags(t *testing.T) {
	var asked atomic.Pointer[authorizationv1beta1.SubjectAccessReview]
	authorizer := webhookOf(t, func(r *authorizationv1beta1.SubjectAccessReview) {
		asked.Store(r.DeepCopy())
		r.Status.Allowed = r.Spec.User == "wendy" && r.Spec.ResourceAttributes != nil && r.Spec.ResourceAttributes.Verb == "list"
	})
	authenticator := webhookOf(t, func(r *authenticationv1beta1.TokenReview) {
		if r.Spec.Token == "remote" {
			r.Status.Authenticated, r.Status.User.Username, r.Status.User.Groups = true, "wendy", []string{"far"}
		}
	})
	s := run(t, "--data-dir="+t.TempDir(), "--authorization-mode=Node,RBAC,Webhook", "--authorization-webhook-config-file="+authorizer, "--authentication-token-webhook-config-file="+authenticator)
	const maps = "/api/v1/namespaces/default/configmaps"
	code, _ := s.do(t, "remote", "GET", maps+"?labelSelector=a%3Db", "")
	require.Equal(t, 200, code)
	spec := asked.Load().Spec
	require.Equal(t, []string{"far", "system:authenticated"}, spec.Groups)
	require.Equal(t, "a", spec.ResourceAttributes.LabelSelector.Requirements[0].Key)
	code, _ = s.do(t, "remote", "POST", maps, `{"metadata":{"name":"x"}}`)
	require.Equal(t, 403, code)
	code, _ = s.do(t, "unknown", "GET", maps, "")
	require.Equal(t, 401, code)
	code, _ = s.do(t, "user", "GET", maps, "")
	require.Equal(t, 403, code)
}

func TestAUTHZCFG_TheFileOfKubernetes(t *testing.T) {
	hook := webhookOf(t, func(r *authorizationv1.SubjectAccessReview) {
		r.Status.Denied = r.Spec.ResourceAttributes.Namespace == "kube-system"
		r.Status.Reason = "hands off"
	})
	file := inFile(t, `
apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: guard.example.dev
  webhook:
    timeout: 3s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: `+hook+`}
    matchConditions:
    - expression: has(request.resourceAttributes) && request.resourceAttributes.verb in ['create', 'update', 'patch', 'delete', 'deletecollection']
    - expression: "!('system:masters' in request.groups)"
- {type: Node, name: node}
- {type: RBAC, name: rbac}
`)
	s := run(t, "--data-dir="+t.TempDir(), "--authorization-config="+file)
	code, _ := s.do(t, "master", "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
		`{"metadata":{"name":"ann"},"subjects":[{"kind":"User","name":"ann","apiGroup":"rbac.authorization.k8s.io"}],"roleRef":{"kind":"ClusterRole","name":"cluster-admin","apiGroup":"rbac.authorization.k8s.io"}}`)
	require.Equal(t, 201, code)
	code, _ = s.do(t, "user", "POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"x"}}`)
	require.Equal(t, 201, code)
	code, got := s.do(t, "user", "POST", "/api/v1/namespaces/kube-system/configmaps", `{"metadata":{"name":"x"}}`)
	require.Equal(t, 403, code)
	require.Contains(t, got["message"], "hands off")
	code, _ = s.do(t, "user", "GET", "/api/v1/namespaces/kube-system/configmaps", "")
	require.Equal(t, 200, code)
	metrics := s.text(t, "master", "/metrics", 200)
	require.Contains(t, metrics, `apiserver_authorization_decisions_total{type="Webhook",name="guard.example.dev",decision="denied"} 1`)
	require.Contains(t, metrics, `apiserver_authorization_match_condition_exclusions_total{type="Webhook",name="guard.example.dev"}`)
}

func TestAUTHZ_05_ContradictionsAreRefused(t *testing.T) {
	file := inFile(t, "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: RBAC, name: roles}]")
	for want, args := range map[string][]string{
		"--authorization-config can not be specified when --authorization-mode": {"--authorization-config=" + file, "--authorization-webhook-version=v1"},
		"expected name rbac for authorizer RBAC instead of roles":               {"--authorization-config=" + file},
		"mode Webhook needs --authorization-webhook-config-file":                {"--authorization-mode=Webhook"},
		"mode ABAC needs --authorization-policy-file":                           {"--authorization-mode=ABAC"},
		"--authentication-token-webhook-version":                                {"--authentication-token-webhook-version=v2"},
	} {
		said := refused(t, append([]string{"--data-dir=" + t.TempDir()}, args...)...)
		require.Contains(t, said, want)
	}
}

// With AlwaysAllow a review of a user without groups says what requests of that user would get (AUTHZ-02).
func TestFLAG_AlwaysAllowAnswersReviewsOfAnybodyButAnonymous(t *testing.T) {
	s := run(t, "--data-dir="+t.TempDir())
	for user, allowed := range map[string]bool{"abc": true, "system:anonymous": false} {
		code, review := s.do(t, "user", "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews",
			`{"spec":{"user":"`+user+`","resourceAttributes":{"verb":"create","group":"certificates.k8s.io","resource":"certificatesigningrequests","subresource":"nodeclient"}}}`)
		require.Equal(t, 201, code, "%v", review)
		require.Equal(t, allowed, review["status"].(map[string]any)["allowed"], user)
	}
	code, _ := s.do(t, "", "GET", "/api/v1/namespaces", "")
	require.Equal(t, 403, code)
}

// The authorizers decide about the paths that are open by default too: the default roles open them.
func TestFLAG_NoPathIsOpenBesideTheAuthorizers(t *testing.T) {
	s := run(t, "--authorization-mode=RBAC,AlwaysDeny", "--data-dir="+t.TempDir())
	require.Eventually(t, func() bool {
		code, _ := s.do(t, "", "GET", "/readyz", "")
		return code == 200
	}, time.Minute, time.Millisecond, "before it is ready there are no roles")
	for _, path := range []string{"/healthz", "/livez", "/readyz", "/version"} {
		s.text(t, "", path, 200)
	}
	code, _ := s.do(t, "master", "DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:public-info-viewer", "")
	require.Equal(t, 200, code)
	for _, path := range []string{"/healthz", "/version"} {
		s.text(t, "", path, 403)
		s.text(t, "master", path, 200)
	}
}
