package main

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// markedAudit keeps metadata of what has credentials in it, as docs/threat-model.md advises.
const markedAudit = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: Metadata
  resources:
  - resources: ["secrets", "serviceaccounts/token"]
  - group: authentication.k8s.io
    resources: ["tokenreviews"]
- level: RequestResponse
`

// A token that is bound to a pod, the data of Secrets and a password are sent and asked for, with
// the log at its highest verbosity.
func TestA5_D2_MarkedCredentialsOfTheStandIn(t *testing.T) {
	dir := t.TempDir()
	tokens, policy, records := filepath.Join(dir, "tokens.csv"), filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	require.NoError(t, os.WriteFile(tokens, []byte("mark3rMaster,root,u1,\"system:masters\"\n"), 0o600))
	require.NoError(t, os.WriteFile(policy, []byte(markedAudit), 0o600))
	key, _ := keyFiles(t)
	private, err := os.ReadFile(key) //nolint:gosec // ours
	require.NoError(t, err)
	s := run(t, "--token-auth-file="+tokens, "--data-dir="+t.TempDir(), "--authorization-mode=Node,RBAC", "-v=10", "--profiling",
		"--audit-policy-file="+policy, "--audit-log-path="+records, "--service-account-issuer=https://127.0.0.1:1/", "--service-account-signing-key-file="+key)

	const in = "/api/v1/namespaces/default"
	var heard strings.Builder
	ask := func(own bool, token, method, path, body string) (int, map[string]any) {
		code, out := s.do(t, token, method, path, body)
		if !own {
			_, _ = fmt.Fprintf(&heard, "%s %s: %d %v\n", method, path, code, out)
		}
		return code, out
	}
	data := base64.StdEncoding.EncodeToString([]byte("mark3rData"))
	secret := `{"metadata":{"name":"s"},"data":{"k":"` + data + `"}}`
	code, _ := ask(true, "mark3rMaster", "POST", in+"/secrets", secret)
	require.Equal(t, http.StatusCreated, code)
	code, _ = ask(false, "mark3rMaster", "POST", in+"/serviceaccounts", `{"metadata":{"name":"robot"}}`)
	require.Equal(t, http.StatusCreated, code)
	code, pod := ask(false, "mark3rMaster", "POST", in+"/pods", `{"metadata":{"name":"p"},"spec":{"serviceAccountName":"robot","containers":[{"name":"c","image":"i"}]}}`)
	require.Equal(t, http.StatusCreated, code)
	uid := pod["metadata"].(map[string]any)["uid"] //nolint:forcetypeassert // or the test fails
	code, issued := ask(true, "mark3rMaster", "POST", in+"/serviceaccounts/robot/token", fmt.Sprintf(`{"spec":{"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"p","uid":%q}}}`, uid))
	require.Equal(t, http.StatusCreated, code)
	bound := issued["status"].(map[string]any)["token"].(string) //nolint:forcetypeassert // or the test fails

	for _, token := range []string{"mark3rMaster", "mark3rWrong", bound, bound + "x", bound[:len(bound)-9], ""} {
		ask(true, token, "GET", in+"/secrets", "")
		ask(true, token, "PUT", in+"/secrets/s", secret)
		ask(true, token, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", fmt.Sprintf(`{"spec":{"token":%q}}`, bound))
		ask(true, token, "POST", in+"/serviceaccounts/robot/token", `{"spec":{}}`)
		for _, body := range []string{
			strings.Replace(secret, `"s"`, `"Bad Name"`, 1), strings.Replace(secret, data, data+"!", 1), strings.Replace(secret, `"k"`, `"no/key"`, 1),
			strings.Replace(secret, `"data"`, `"type":"kubernetes.io/tls","data"`, 1), strings.Replace(secret, `"data"`, `"type":"kubernetes.io/dockerconfigjson","data"`, 1), secret[1:],
		} {
			ask(false, token, "POST", in+"/secrets", body)
		}
		ask(false, token, "GET", in+"/pods", "")
		ask(false, token, "GET", in+"/secrets/absent", "")
		ask(false, token, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}")
		ask(false, token, "DELETE", in+"/secrets/absent", "")
	}
	for _, page := range []string{"/metrics", "/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1", "/debug/pprof/cmdline", "/statusz", "/flagz", "/readyz?verbose"} {
		code, _ = s.do(t, "mark3rMaster", "GET", page, "")
		if code == http.StatusOK {
			heard.WriteString(s.text(t, "mark3rMaster", page, http.StatusOK))
		}
	}
	require.Zero(t, s.stop())

	written, err := os.ReadFile(records) //nolint:gosec // ours
	require.NoError(t, err)
	require.Contains(t, string(written), `"serviceaccounts"`)
	require.Contains(t, heard.String(), "apiserver_request_total")
	signature := bound[strings.LastIndex(bound, ".")+1:]
	block := strings.Split(string(private), "\n")[1]
	for where, text := range map[string]string{"log": s.log.String(), "audit": string(written), "answers and pages": heard.String()} {
		for _, mark := range []string{"mark3rMaster", "mark3rWrong", "mark3rData", data[:12], signature[:40], block} {
			for line := range strings.Lines(text) {
				require.NotContains(t, line, mark, where)
			}
		}
	}
}
