package program

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authz"
)

const accessReviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

// hook is a webhook of the tests. It answers with what says returns for a document.
type hook struct {
	*httptest.Server
	mu    sync.Mutex
	asked []map[string]any
	says  func(review map[string]any) string
}

func newHook(t *testing.T, says func(review map[string]any) string) *hook {
	t.Helper()
	h := &hook{says: says}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var review map[string]any
		if err != nil || json.Unmarshal(body, &review) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.asked = append(h.asked, review)
		_, _ = fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"status":%s}`, review["apiVersion"], review["kind"], h.says(review))
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) reviews() []map[string]any {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked
}

// connectionTo makes a connection file for a URL.
func connectionTo(t *testing.T, url string) string {
	t.Helper()
	return writeTo(t, t.TempDir(), "connection.yaml", `{current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "`+url+`"}}]}`)
}

// member returns what is at a path of a document.
func member(v any, path ...string) any {
	for _, name := range path {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

func accessReview(t *testing.T, c *client, spec string) authz.AccessReviewStatus {
	t.Helper()
	a := c.do(t, http.MethodPost, accessReviews, `{"spec":{`+spec+`}}`)
	require.Equal(t, http.StatusCreated, a.code, "%s", a.body)
	var review authz.SubjectAccessReview
	require.NoError(t, json.Unmarshal(a.body, &review))
	return review.Status
}

func TestAUTHZ_06_07_17_AWebhookAuthorizes(t *testing.T) {
	authorizer := newHook(t, func(r map[string]any) string {
		switch verb := member(r, "spec", "resourceAttributes", "verb"); {
		case verb == "list":
			return `{"allowed":true}`
		case verb == "delete":
			return `{"denied":true,"reason":"nothing is deleted here"}`
		}
		return `{}`
	})
	tokens := writeTo(t, t.TempDir(), "tokens.csv", "user-token,carol,u-2,devs\n")
	s := serveIn(t, t.TempDir(), "--token-auth-file="+tokens, "--authorization-mode=Webhook,AlwaysDeny", "--authorization-webhook-config-file="+connectionTo(t, authorizer.URL))
	carol := anonymous(t, s.kubeconfig).with("user-token")
	for range 2 {
		a := carol.do(t, "GET", widgetsPath+"?labelSelector=app%3Dx&fieldSelector=metadata.name%21%3Dy", "")
		require.Equal(t, http.StatusOK, a.code, "%s", a.body)
	}
	asked := authorizer.reviews()
	require.Len(t, asked, 1, "the answer is remembered")
	require.Equal(t, "authorization.k8s.io/v1beta1", asked[0]["apiVersion"])
	require.Equal(t, map[string]any{
		"user": "carol", "uid": "u-2", "group": []any{"devs", "system:authenticated"},
		"resourceAttributes": map[string]any{
			"namespace": "default", "verb": "list", "group": "example.dev", "version": "v1", "resource": "widgets",
			"fieldSelector": map[string]any{"requirements": []any{map[string]any{"key": "metadata.name", "operator": "NotIn", "values": []any{"y"}}}},
			"labelSelector": map[string]any{"requirements": []any{map[string]any{"key": "app", "operator": "In", "values": []any{"x"}}}},
		},
	}, asked[0]["spec"])
	a := carol.do(t, "DELETE", widgetsPath+"/x", "")
	require.Equal(t, http.StatusForbidden, a.code)
	require.Contains(t, a.status(t).Message, "nothing is deleted here")
	require.Equal(t, http.StatusForbidden, carol.do(t, "POST", widgetsPath, widget("x")).code)
	require.Equal(t, http.StatusOK, admin(t, s.kubeconfig).do(t, "GET", widgetsPath, "").code, "masters are not asked about")
}

// A webhook that cannot be asked hides no grant of others, and the review says that it failed.
func TestERR_16_REVIEW_01_AFailureHidesNoGrant(t *testing.T) {
	dead := connectionTo(t, "http://127.0.0.1:1")
	policies := writeTo(t, t.TempDir(), "policy.jsonl", `{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"carol","namespace":"*","resource":"widgets","apiGroup":"*","readonly":true}}`)
	tokens := writeTo(t, t.TempDir(), "tokens.csv", "user-token,carol,u-2,devs\n")
	for policy, want := range map[string]int{"NoOpinion": http.StatusOK, "Deny": http.StatusForbidden} {
		file := writeTo(t, t.TempDir(), "authz.yaml", `
apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: corporate
  webhook:
    timeout: 3s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: `+policy+`
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: `+dead+`}
    matchConditions:
    - expression: has(request.resourceAttributes) && request.resourceAttributes.group == 'example.dev'
- {type: ABAC, name: abac}
- {type: AlwaysDeny, name: deny}
`)
		s := serveIn(t, t.TempDir(), "--token-auth-file="+tokens, "--authorization-config="+file, "--authorization-policy-file="+policies)
		carol := anonymous(t, s.kubeconfig).with("user-token")
		require.Equal(t, want, carol.do(t, "GET", widgetsPath, "").code, policy)
		review := accessReview(t, admin(t, s.kubeconfig), `"user":"carol","resourceAttributes":{"verb":"list","group":"example.dev","resource":"widgets"}`)
		require.Equal(t, want == http.StatusOK, review.Allowed)
		require.Equal(t, policy == "Deny", review.Denied)
		require.Equal(t, `the authorization webhook "corporate" failed`, review.EvaluationError)
		require.Equal(t, http.StatusForbidden, carol.do(t, "POST", widgetsPath, widget("x")).code)
		require.Equal(t, http.StatusOK, admin(t, s.kubeconfig).do(t, "GET", "/metrics", "").code)
		text := string(admin(t, s.kubeconfig).do(t, "GET", "/metrics", "").body)
		require.Contains(t, text, `apiserver_authorization_webhook_evaluations_total{name="corporate",result="error"}`)
		// AUTHZCFG-21: evaluations and failures have the name of the authorizer. AUTHZCFG-18 says what they mean.
		fell := map[string]string{"NoOpinion": "open", "Deny": "closed"}[policy]
		require.Contains(t, text, `apiserver_authorization_webhook_evaluations_fail_`+fell+`_total{name="corporate",result="error"}`)
		require.Contains(t, text, `apiserver_authorization_config_controller_last_config_info{`)
	}
}

func TestCFG_05_TheConfigurationIsFollowed(t *testing.T) {
	tokens := writeTo(t, t.TempDir(), "tokens.csv", "user-token,carol,u-2,devs\n")
	dir := t.TempDir()
	path := filepath.Join(dir, "authz.yaml")
	head := "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthorizationConfiguration\nauthorizers:\n- {type: RBAC, name: rbac}\n"
	write := func(text string) { // as a mounted ConfigMap changes
		require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
		require.NoError(t, os.Rename(path+".new", path))
	}
	write(head)
	s := serveIn(t, t.TempDir(), "--token-auth-file="+tokens, "--authorization-config="+path)
	carol, boss := anonymous(t, s.kubeconfig).with("user-token"), admin(t, s.kubeconfig)
	eventually := func(code int) {
		require.Eventually(t, func() bool { return carol.do(t, "GET", widgetsPath, "").code == code }, time.Minute, 50*time.Millisecond)
	}
	require.Equal(t, http.StatusForbidden, carol.do(t, "GET", widgetsPath, "").code)
	write(head + "- {type: AlwaysAllow, name: everybody}\n")
	eventually(http.StatusOK)
	require.Equal(t, "ok", string(boss.do(t, "GET", "/healthz/authorization-config", "").body))

	write("nonsense") // keeps what was
	require.Eventually(t, func() bool { return boss.do(t, "GET", "/healthz/authorization-config", "").code != http.StatusOK }, time.Minute, 50*time.Millisecond)
	require.Equal(t, http.StatusOK, carol.do(t, "GET", widgetsPath, "").code)
	require.Equal(t, http.StatusOK, boss.do(t, "GET", "/readyz", "").code, "the server is as good as before")
	write(strings.Replace(head, "RBAC, name: rbac", "AlwaysDeny, name: deny", 1)) // the types of the start are missing
	require.Equal(t, http.StatusOK, carol.do(t, "GET", widgetsPath, "").code)

	const bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
	write(head)
	eventually(http.StatusForbidden)
	a := boss.do(t, "POST", bindings, `{"metadata":{"name":"devs"},"subjects":[{"kind":"Group","name":"devs","apiGroup":"rbac.authorization.k8s.io"}],"roleRef":{"kind":"ClusterRole","name":"view","apiGroup":"rbac.authorization.k8s.io"}}`)
	require.Equal(t, http.StatusCreated, a.code, "%s", a.body)
	require.Equal(t, http.StatusOK, carol.do(t, "GET", widgetsPath, "").code, "roles count in an authorizer that follows a file")
	text := string(boss.do(t, "GET", "/metrics", "").body)
	require.Contains(t, text, `apiserver_authorization_config_controller_automatic_reloads_total{apiserver_id_hash="",status="failure"} `)
	require.Contains(t, text, `apiserver_authorization_decisions_total{type="RBAC",name="rbac",decision="allowed"}`)
	require.Contains(t, text, `apiserver_authorization_decisions_total{type="AlwaysAllow",name="everybody",decision="allowed"}`)
}

func TestAUTHZ_05_08_FilesAndFlagsThatAreWrong(t *testing.T) {
	policies := writeTo(t, t.TempDir(), "policy.jsonl", "# good\n{\"usr\":\"alice\"}\n")
	document := writeTo(t, t.TempDir(), "authz.yaml", "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: RBAC, nam: rbac}]\n")
	for want, args := range map[string][]string{
		"policy file " + policies + `: line 2: usr: Forbidden: unknown field, did you mean "user"?`:                              {"--authorization-mode=ABAC", "--authorization-policy-file=" + policies},
		"authorization configuration " + document + ": failed to load AuthorizationConfiguration: authorizers[0].nam: Forbidden": {"--authorization-config=" + document},
		"--authorization-config can not be specified when --authorization-mode":                                                  {"--authorization-config=" + document, "--authorization-mode=RBAC"},
		"StructuredAuthorizationConfiguration is disabled":                                                                       {"--authorization-config=" + document, "--emulated-version=1.29"},
	} {
		r := refused(t, append([]string{"--listen=127.0.0.1:0", "--data-dir=" + t.TempDir()}, args...)...)
		require.NotZero(t, r.code)
		require.Contains(t, r.errOut, want)
	}
}

func TestAUTHZ_14_ABAC_01_05_PoliciesAuthorize(t *testing.T) {
	policies := writeTo(t, t.TempDir(), "policy.jsonl", `# carol reads widgets everywhere, devs may do everything in default
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"carol","namespace":"*","resource":"widgets","apiGroup":"example.dev","readonly":true}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"group":"devs","namespace":"default","resource":"*","apiGroup":"*"}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"group":"devs","nonResourcePath":"/open*","readonly":true}}
`)
	tokens := writeTo(t, t.TempDir(), "tokens.csv", "carol-token,carol,1,\ndave-token,dave,2,devs\n")
	s := serveIn(t, t.TempDir(), "--token-auth-file="+tokens, "--authorization-mode=ABAC", "--authorization-policy-file="+policies)
	carol, dave := anonymous(t, s.kubeconfig).with("carol-token"), anonymous(t, s.kubeconfig).with("dave-token")
	for _, c := range []struct {
		who          *client
		method, path string
		body         string
		code         int
	}{
		{carol, "GET", widgetsPath, "", 200},
		{carol, "GET", "/apis/example.dev/v1/widgets", "", 200},
		{carol, "POST", widgetsPath, widget("a"), 403},
		{carol, "GET", gadgetsPath, "", 403},
		{dave, "POST", widgetsPath, widget("a"), 201},
		{dave, "GET", "/apis/example.dev/v1/widgets", "", 403},
		{dave, "GET", "/apis/example.dev/v1/namespaces/other/widgets", "", 403},
		{dave, "GET", "/openapi/v2", "", 200},
		{dave, "GET", "/metrics", "", 403},
		{carol, "GET", "/openapi/v2", "", 403},
	} {
		a := c.who.do(t, c.method, c.path, c.body)
		require.Equal(t, c.code, a.code, "%s %s: %s", c.method, c.path, a.body)
		if c.code == http.StatusForbidden {
			require.Contains(t, a.status(t).Message, "No policy matched.")
		}
	}
	for namespace, want := range map[string]bool{"default": true, "other": false} { // AUTHZ-14
		review := accessReview(t, admin(t, s.kubeconfig), `"user":"dave","groups":["devs"],"resourceAttributes":{"verb":"delete","group":"example.dev","resource":"widgets","namespace":"`+namespace+`"}`)
		require.Equal(t, want, review.Allowed)
	}
}

func TestAUTHN_09_10_11_AWebhookAuthenticatesTokens(t *testing.T) {
	authenticator := newHook(t, func(r map[string]any) string {
		if member(r, "spec", "token") == "good" {
			return `{"authenticated":true,"user":{"username":"wendy","uid":"7","groups":["remote"],"extra":{"k":["v"]}}}`
		}
		return `{"authenticated":false}`
	})
	s := serveIn(t, t.TempDir(), "--authentication-token-webhook-config-file="+connectionTo(t, authenticator.URL))
	nobody := anonymous(t, s.kubeconfig)
	for range 2 {
		user := whoami(t, nobody.with("good"))
		require.Equal(t, "wendy", user.Username)
		require.Equal(t, []string{"remote", "system:authenticated"}, user.Groups)
		require.Equal(t, map[string][]string{"k": {"v"}}, user.Extra)
		require.Equal(t, http.StatusUnauthorized, nobody.with("bad").do(t, "GET", widgetsPath, "").code)
	}
	require.Len(t, authenticator.reviews(), 2, "each token is asked about once")
	require.Equal(t, "authentication.k8s.io/v1beta1", authenticator.reviews()[0]["apiVersion"])
	require.NotContains(t, s.errOut.String(), "good")
}

// Webhooks that lie, hang or flood hurt nobody but those they are asked about.
func TestHostileWebhooks(t *testing.T) {
	var elsewhere sync.Map
	answers := map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			elsewhere.Store(r.URL.Path, true)
			http.Redirect(w, r, "/there", http.StatusTemporaryRedirect)
		},
		"flood": func(w http.ResponseWriter, r *http.Request) {
			for chunk := make([]byte, 1<<20); r.Context().Err() == nil; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		},
		"hang": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // or it would not notice that the server gives up
			<-r.Context().Done()
		},
		"another kind": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"Status","status":{"allowed":true,"authenticated":true,"user":{"username":"root","groups":["system:masters"]}}}`)
		},
		"no JSON":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "allowed: true") },
		"an error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"half": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99")
			_, _ = io.WriteString(w, `{"status":{"allowed":true}}`)
		},
		"both ways": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"status":{"allowed":true,"allowed":false}}`)
		},
		"no one": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"status":{"authenticated":true,"user":{}}}`)
		},
		"the unknown": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"status":{"authenticated":true,"user":{"username":"system:anonymous"}}}`)
		},
	}
	tokens := writeTo(t, t.TempDir(), "tokens.csv", "user-token,carol,u-2,devs\n")
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(answer)
			defer srv.Close()
			connection, timeout := connectionTo(t, srv.URL), "30s"
			if name == "hang" {
				timeout = "300ms"
			}
			file := writeTo(t, t.TempDir(), "authz.yaml", `
apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: hostile
  webhook: {timeout: `+timeout+`, subjectAccessReviewVersion: v1, matchConditionSubjectAccessReviewVersion: v1, failurePolicy: Deny, connectionInfo: {type: KubeConfigFile, kubeConfigFile: `+connection+`}}
- {type: AlwaysAllow, name: everybody}
`)
			s := serveIn(t, t.TempDir(), "--token-auth-file="+tokens, "--authorization-config="+file, "--authentication-token-webhook-config-file="+connection)
			nobody := anonymous(t, s.kubeconfig)
			code := nobody.with("user-token").do(t, "GET", widgetsPath, "").code
			if name == "no one" || name == "the unknown" { // of a user that nobody is; it has no opinion about rights
				require.Equal(t, http.StatusOK, code)
			} else {
				require.Equal(t, http.StatusForbidden, code)
			}
			if name != "hang" { // that takes 30 seconds
				require.Equal(t, http.StatusUnauthorized, nobody.with("remote").do(t, "GET", widgetsPath, "").code)
			}
			require.Equal(t, http.StatusOK, admin(t, s.kubeconfig).do(t, "GET", widgetsPath, "").code)
		})
	}
	_, followed := elsewhere.Load("/there")
	require.False(t, followed)
}
