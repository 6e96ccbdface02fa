package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// runNodes runs the program as kubeadm does, with the users n1 and n2, which are nodes.
func runNodes(t *testing.T, args ...string) *server {
	t.Helper()
	tokens := filepath.Join(t.TempDir(), "nodes.csv")
	require.NoError(t, os.WriteFile(tokens, []byte("master,root,u1,\"system:masters\"\n"+
		"n1,system:node:n1,u2,\"system:nodes\"\nn2,system:node:n2,u3,\"system:nodes\"\n"), 0o600))
	return run(t, append([]string{"--token-auth-file=" + tokens, "--data-dir=" + t.TempDir(), "--authorization-mode=Node,RBAC"}, args...)...)
}

func TestNODEAZ_01_NodesOfTheStandIn(t *testing.T) {
	key, _ := keyFiles(t)
	s := runNodes(t, "--enable-admission-plugins=NodeRestriction", "--service-account-issuer=https://127.0.0.1:1/", "--service-account-signing-key-file="+key)
	require.NotContains(t, s.log.String(), "warning", "both flags have an effect")
	expect := func(code int, who, method, path, body string) map[string]any {
		t.Helper()
		got, out := s.do(t, who, method, path, body)
		require.Equal(t, code, got, "%s %s %s: %v", who, method, path, out)
		return out
	}
	const in, one = "/api/v1/namespaces/default", `{"metadata":{"name":"one"}}`
	for _, n := range []string{"n1", "n2"} {
		expect(201, n, "POST", "/api/v1/nodes", `{"metadata":{"name":"`+n+`","labels":{"kubernetes.io/os":"linux"}}}`)
		expect(200, n, "GET", "/api/v1/nodes/"+n, "")
		expect(201, n, "POST", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", `{"metadata":{"name":"`+n+`"},"spec":{"leaseDurationSeconds":40}}`)
	}
	expect(403, "n1", "GET", "/api/v1/nodes", "")
	expect(403, "n1", "GET", "/api/v1/nodes/n2", "")
	expect(403, "n1", "POST", "/api/v1/nodes", `{"metadata":{"name":"n3"}}`)
	expect(403, "n1", "PUT", "/api/v1/nodes/n2", `{"metadata":{"name":"n2","annotations":{"a":"b"}}}`)
	expect(403, "n1", "PUT", "/api/v1/nodes/n1", `{"metadata":{"name":"n1","labels":{"node-role.kubernetes.io/control-plane":""}}}`)
	checkNodeStatus(t, s)
	for _, name := range []string{"mine", "theirs"} {
		expect(201, "master", "POST", in+"/secrets", `{"metadata":{"name":"`+name+`"}}`)
	}
	expect(201, "master", "POST", in+"/configmaps", one)
	expect(201, "master", "POST", in+"/serviceaccounts", one)
	pod := func(name, node, secret string) string {
		return `{"metadata":{"name":"` + name + `"},"spec":{"nodeName":"` + node + `","serviceAccountName":"one","containers":[{"name":"c","image":"i"}],
			"volumes":[{"name":"s","secret":{"secretName":"` + secret + `"}},{"name":"t","projected":{"sources":[{"serviceAccountToken":{"path":"t","audience":"bank"}}]}}]}}`
	}
	expect(403, "n1", "GET", in+"/secrets/mine", "")
	first := expect(201, "master", "POST", in+"/pods", pod("p1", "n1", "mine"))
	second := expect(201, "master", "POST", in+"/pods", pod("p2", "n2", "theirs"))
	expect(200, "n1", "GET", in+"/secrets/mine", "")
	expect(200, "n1", "GET", in+"/secrets?fieldSelector=metadata.name%3Dmine", "")
	expect(403, "n1", "GET", in+"/secrets/theirs", "")
	expect(403, "n1", "GET", in+"/secrets", "")
	expect(403, "n1", "GET", in+"/configmaps/one", "")
	expect(200, "n1", "GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1", "")
	expect(403, "n1", "GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn2", "")
	expect(403, "n1", "GET", "/api/v1/pods?fieldSelector=spec.nodeName%21%3Dn2", "")
	expect(403, "n1", "GET", "/api/v1/pods", "")

	expect(403, "n1", "DELETE", in+"/pods/p2", "")
	expect(403, "n1", "POST", in+"/pods/p2/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p2","namespace":"default"}}`)
	expect(403, "n1", "POST", in+"/pods", pod("p3", "n1", "theirs"))
	current := expect(200, "n1", "GET", in+"/pods/p1", "")
	current["status"] = map[string]any{"phase": "Failed"}
	text, err := json.Marshal(current)
	require.NoError(t, err)
	expect(403, "n2", "PUT", in+"/pods/p1/status", string(text))
	expect(200, "n1", "PUT", in+"/pods/p1/status", string(text))

	bound := func(p map[string]any) string {
		of, _ := p["metadata"].(map[string]any)
		return fmt.Sprintf(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":["bank"],"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":%q,"uid":%q}}}`, of["name"], of["uid"])
	}
	const token = in + "/serviceaccounts/one/token"
	expect(201, "n1", "POST", token, bound(first))
	expect(403, "n1", "POST", token, bound(second))
	expect(403, "n1", "POST", token, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`)

	expect(200, "n1", "DELETE", in+"/pods/p1?gracePeriodSeconds=0", "")
	expect(403, "n1", "GET", in+"/secrets/mine", "")
	expect(403, "n1", "POST", token, bound(first))
}

// checkNodeStatus writes what a node may not change, on the path that would not store it: a node is told, as by
// kube-apiserver.
func checkNodeStatus(t *testing.T, s *server) {
	t.Helper()
	const path = "/api/v1/nodes/n1/status"
	for body, want := range map[string]string{
		`{"metadata":{"name":"n1"},"spec":{"taints":[{"key":"mine","effect":"NoSchedule"}]},"status":{"phase":"Running"}}`: "not allowed to modify taints",
		`{"metadata":{"name":"n1"},"spec":{"configSource":{"configMap":{"name":"x"}}}}`:                                    "new non-nil configSource",
		`{"metadata":{"name":"n1","labels":{"node-role.kubernetes.io/control-plane":""}}}`:                                 "not allowed to modify labels",
	} {
		for _, form := range []string{"merge-patch", "strategic-merge-patch"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, s.url+path, strings.NewReader(body))
			require.NoError(t, err)
			r.Header.Set("Content-Type", "application/"+form+"+json")
			r.Header.Set("Authorization", "Bearer n1")
			code, out := s.answer(t, r)
			require.Equal(t, 403, code, "%s: %v", body, out)
			require.Contains(t, out["message"], want)
		}
	}
	code, out := s.do(t, "n1", "PUT", path, `{"metadata":{"name":"n1"},"spec":{"taints":[{"key":"mine","effect":"NoSchedule"}]},"status":{}}`)
	require.Equal(t, 403, code, "%v", out)
	_, now := s.do(t, "n1", "GET", "/api/v1/nodes/n1", "")
	now["status"] = map[string]any{"phase": "Running"}
	text, err := json.Marshal(now)
	require.NoError(t, err)
	code, out = s.do(t, "n1", "PUT", path, string(text))
	require.Equal(t, 200, code, "%v", out)
}

// Without the plugin the authorizer alone decides, which does not see objects.
func TestNODEAZ_01_TheRestrictionIsAFlagOfItsOwn(t *testing.T) {
	s := runNodes(t)
	code, out := s.do(t, "n1", "POST", "/api/v1/nodes", `{"metadata":{"name":"n3"}}`)
	require.Equal(t, 201, code, "%v", out)
}
