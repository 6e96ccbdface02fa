package config_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/config"
	"github.com/kindwright/kindwright/internal/metrics"
)

const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n"

// connectionFile makes a connection file for a URL.
func connectionFile(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "connection.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`{current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "`+url+`"}}]}`), 0o600))
	return path
}

// hook is a webhook that is right, with changes.
func hook(path string, changes ...string) string {
	fields := map[string]string{
		"timeout": "3s", "subjectAccessReviewVersion": "v1", "matchConditionSubjectAccessReviewVersion": "v1", "failurePolicy": "Deny",
		"connectionInfo": "{type: KubeConfigFile, kubeConfigFile: " + path + "}",
	}
	for _, c := range changes {
		name, value, _ := strings.Cut(c, "=")
		fields[name] = value
	}
	var out []string
	for name, value := range fields {
		if value != "-" {
			out = append(out, name+": "+value)
		}
	}
	return "{" + strings.Join(out, ", ") + "}"
}

func one(webhook string) string {
	return head + "authorizers: [{type: Webhook, name: hook, webhook: " + webhook + "}]"
}

func validate(document string, rules config.AuthorizationRules) error {
	c, err := config.ParseAuthorization([]byte(document))
	if err != nil {
		return err
	}
	return c.Validate(rules)
}

var rules = config.AuthorizationRules{Types: []string{"RBAC", "AlwaysDeny"}}

func TestCFG_01_02_04_VersionsAndGroups(t *testing.T) {
	body := "\nkind: AuthorizationConfiguration\nauthorizers: [{type: RBAC, name: rbac}]"
	for _, version := range []string{"v1", "v1beta1", "v1alpha1"} {
		for _, group := range []string{"apiserver.config.k8s.io", "apiserver.example.dev"} {
			require.NoError(t, validate("apiVersion: "+group+"/"+version+body, rules))
		}
	}
	require.ErrorContains(t, validate("apiVersion: apiserver.config.k8s.io/v2"+body, rules), `apiVersion: Invalid value: "apiserver.config.k8s.io/v2": must be apiserver.config.k8s.io/v1 or`)
	require.ErrorContains(t, validate("apiVersion: audit.k8s.io/v1"+body, rules), `for the kind "AuthorizationConfiguration"`)
	require.ErrorContains(t, validate("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration", rules), `kind: Invalid value: "AuthenticationConfiguration"`)
}

func TestLIM_06_07_EveryFieldIsChecked(t *testing.T) {
	path := connectionFile(t, "https://example.dev")
	for _, c := range []struct{ row, document, want string }{
		{"AUTHZCFG-01", head, "authorizers: Required value: at least one authorization mode must be defined"},
		{"AUTHZCFG-01", head + "authorizers: []", "authorizers: Required value"},
		{"AUTHZCFG-02", head + "authorizers: [{name: a}]", "authorizers[0].type: Required value"},
		{"AUTHZCFG-02", head + "authorizers: [{type: Guess, name: a}]", `authorizers[0].type: Unsupported value: "Guess": supported values: "AlwaysDeny", "RBAC", "Webhook"`},
		{"AUTHZCFG-19", head + "authorizers: [{type: RBAC, name: a}, {type: RBAC, name: b}]", `authorizers[1].type: Duplicate value: "RBAC"`},
		{"AUTHZCFG-19", head + "authorizers: [{type: RBAC, name: a}, {type: AlwaysDeny, name: a}]", `authorizers[1].name: Duplicate value: "a"`},
		{"AUTHZCFG-03", head + "authorizers: [{type: RBAC}]", "authorizers[0].name: Required value"},
		{"AUTHZCFG-03", head + "authorizers: [{type: RBAC, name: A_B}]", `authorizers[0].name: Invalid value: "A_B": authorizer name is invalid: `},
		{"AUTHZCFG-04", head + "authorizers: [{type: Webhook, name: a}]", "authorizers[0].webhook: Required value: required when type=Webhook"},
		{"AUTHZCFG-04", head + "authorizers: [{type: RBAC, name: a, webhook: " + hook(path) + "}]", `authorizers[0].webhook: Invalid value: "non-null": may only be specified when type=Webhook`},
		{"AUTHZCFG-05", one(hook(path, "authorizedTTL=-1s")), `authorizers[0].webhook.authorizedTTL: Invalid value: "-1s": must be > 0s`},
		{"AUTHZCFG-06", one(hook(path, "unauthorizedTTL=-1s")), `authorizers[0].webhook.unauthorizedTTL: Invalid value: "-1s": must be > 0s`},
		{"AUTHZCFG-05", one(hook(path, "authorizedTTL=5")), `authorizers[0].webhook.authorizedTTL: Invalid value: 5`},
		{"AUTHZCFG-07", one(hook(path, "timeout=-")), "authorizers[0].webhook.timeout: Required value"},
		{"AUTHZCFG-07", one(hook(path, "timeout=31s")), `authorizers[0].webhook.timeout: Invalid value: "31s": must be > 0s and <= 30s`},
		{"AUTHZCFG-07", one(hook(path, "timeout=-1s")), `authorizers[0].webhook.timeout: Invalid value: "-1s"`},
		{"AUTHZCFG-08", one(hook(path, "subjectAccessReviewVersion=-")), "authorizers[0].webhook.subjectAccessReviewVersion: Required value"},
		{"AUTHZCFG-08", one(hook(path, "subjectAccessReviewVersion=v2")), `authorizers[0].webhook.subjectAccessReviewVersion: Unsupported value: "v2": supported values: "v1", "v1beta1"`},
		{"AUTHZCFG-09", one(hook(path, "matchConditionSubjectAccessReviewVersion=-")), "authorizers[0].webhook.matchConditionSubjectAccessReviewVersion: Required value"},
		{"AUTHZCFG-09", one(hook(path, "matchConditionSubjectAccessReviewVersion=v1beta1")), `authorizers[0].webhook.matchConditionSubjectAccessReviewVersion: Unsupported value: "v1beta1": supported values: "v1"`},
		{"AUTHZCFG-10", one(hook(path, "failurePolicy=-")), "authorizers[0].webhook.failurePolicy: Required value"},
		{"AUTHZCFG-10", one(hook(path, "failurePolicy=Ignore")), `authorizers[0].webhook.failurePolicy: Unsupported value: "Ignore": supported values: "NoOpinion", "Deny"`},
		{"AUTHZCFG-11", one(hook(path, "connectionInfo=-")), "authorizers[0].webhook.connectionInfo.type: Required value"},
		{"AUTHZCFG-17", one(hook(path, "connectionInfo={type: URL}")), `authorizers[0].webhook.connectionInfo.type: Unsupported value: "URL": supported values: "InClusterConfig", "KubeConfigFile"`},
		{"AUTHZCFG-12", one(hook(path, "connectionInfo={type: KubeConfigFile}")), "authorizers[0].webhook.connectionInfo.kubeConfigFile: Required value"},
		{"AUTHZCFG-12", one(hook(path, "connectionInfo={type: KubeConfigFile, kubeConfigFile: ''}")), "authorizers[0].webhook.connectionInfo.kubeConfigFile: Required value"},
		{"AUTHZCFG-12", one(hook(path, "connectionInfo={type: KubeConfigFile, kubeConfigFile: a.yaml}")), `kubeConfigFile: Invalid value: "a.yaml": must be an absolute path`},
		{"AUTHZCFG-12", one(hook(path, "connectionInfo={type: KubeConfigFile, kubeConfigFile: "+path+".no}")), `kubeConfigFile: Invalid value: "` + path + `.no": error loading file: `},
		{"AUTHZCFG-12", one(hook(path, "connectionInfo={type: KubeConfigFile, kubeConfigFile: "+filepath.Dir(path)+"}")), `: must be a regular file`},
		{"AUTHZCFG-12", one(hook(path, "connectionInfo={type: KubeConfigFile, kubeConfigFile: "+path+", connectionFile: "+path+"}")), `connectionFile: Forbidden`},
		{"AUTHZCFG-12", one(hook(path, "connectionInfo={type: InClusterConfig, kubeConfigFile: "+path+"}")), `can only be set when type=KubeConfigFile`},
		{"AUTHZCFG-14", one(hook(path, "matchConditions=["+strings.Repeat("{expression: 'true'},", 65)+"]")), "authorizers[0].webhook.matchConditions: Too many: 65: must have at most 64 items"},
		{"AUTHZCFG-15", one(hook(path, "matchConditions=[{}]")), "authorizers[0].webhook.matchConditions[0].expression: Required value"},
		{"AUTHZCFG-15", one(hook(path, "matchConditions=[{expression: ' '}]")), "matchConditions[0].expression: Required value"},
		{"AUTHZCFG-15", one(hook(path, "matchConditions=[{expression: 'true'}, {expression: 'true'}]")), `matchConditions[1].expression: Duplicate value: "true"`},
		{"AUTHZCFG-15", one(hook(path, "matchConditions=[{expression: 'request.usr'}]")), `matchConditions[0].expression: Invalid value: "request.usr": compilation failed`},
		{"AUTHZCFG-15", one(hook(path, "matchConditions=[{expression: 'request.user'}]")), `must evaluate to bool`},
		{"AUTHZCFG-15", one(hook(path, "matchConditions=[{expr: 'true'}]")), `matchConditions[0].expr: Forbidden: unknown field`},
		{"CFG-04", head + "authorisers: []", `authorisers: Forbidden: unknown field, did you mean "authorizers"?`},
		{"CFG-04", one(hook(path) + "}, {type: RBAC, name: rbac, name: x"), "authorizers[1].name: Forbidden: duplicate field"},
	} {
		err := validate(c.document, rules)
		require.ErrorContains(t, err, c.want, "%s: %s", c.row, c.document)
	}
	require.NoError(t, validate(one(hook(path)), rules))
	require.NoError(t, validate(one(hook(path, "connectionInfo={type: KubeConfigFile, connectionFile: "+path+"}")), rules), "AUTHZCFG-12")
	require.NoError(t, validate(one(hook(path, "matchConditions=[]", "connectionInfo={type: InClusterConfig}")), rules))
	require.NoError(t, validate(head+"authorizers: [{type: RBAC, name: a.b}]", rules))
	require.ErrorContains(t, validate(head+"authorizers: [{type: RBAC, name: a.b}]", config.AuthorizationRules{Types: rules.Types, LabelNames: true}), "authorizer name is invalid")
	require.NoError(t, validate(one(hook(path, "matchConditionSubjectAccessReviewVersion=-", "matchConditions=-")), config.AuthorizationRules{TypeNames: true}))
	require.ErrorContains(t, validate(head+"authorizers: [{type: RBAC, name: other}]", config.AuthorizationRules{Types: rules.Types, TypeNames: true}), "expected name rbac for authorizer RBAC instead of other")
}

func TestAUTHZCFG_19_Defaults(t *testing.T) {
	c, err := config.ParseAuthorization([]byte(one(hook("/x", "authorizedTTL=0s", "cacheUnauthorizedRequests=false"))))
	require.NoError(t, err)
	w := c.Authorizers[0].Webhook
	require.Equal(t, 5*time.Minute, w.AuthorizedTTL.Duration)
	require.Equal(t, 30*time.Second, w.UnauthorizedTTL.Duration)
	require.True(t, *w.CacheAuthorizedRequests)
	require.False(t, *w.CacheUnauthorizedRequests)
}

// webhookServer answers access reviews, and counts them.
type webhookServer struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []string
	status string
}

func newWebhook(t *testing.T, status string) *webhookServer {
	t.Helper()
	s := &webhookServer{status: status}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = append(s.asked, string(body))
		_, _ = fmt.Fprintf(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":%s}`, s.status)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *webhookServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

// types are those of a program.
func types() map[string]func() (authz.Authorizer, error) {
	return map[string]func() (authz.Authorizer, error){
		"AlwaysAllow": func() (authz.Authorizer, error) { return authz.AlwaysAllow(), nil },
		"AlwaysDeny":  func() (authz.Authorizer, error) { return authz.AlwaysDeny(), nil },
		"Broken":      func() (authz.Authorizer, error) { return nil, errors.New("it is broken") },
		"Names": func() (authz.Authorizer, error) {
			return authz.AllowPaths("/named")
		},
	}
}

func open(t *testing.T, document string) *config.Authorizer {
	t.Helper()
	c, err := config.ParseAuthorization([]byte(document))
	require.NoError(t, err)
	z, err := config.NewAuthorizer(c, config.AuthorizationOptions{Types: types()})
	require.NoError(t, err)
	return z
}

var question = authz.Attributes{User: authn.User{Name: "alice", Groups: []string{"ops"}}, Verb: "get", ResourceRequest: true, Resource: "pods", Namespace: "a"}

func TestAUTHZCFG_01_TheFirstDecisionWins(t *testing.T) {
	for order, want := range map[string]authz.Decision{
		"AlwaysAllow AlwaysDeny": authz.Allow, "AlwaysDeny AlwaysAllow": authz.Deny, "Names AlwaysAllow": authz.Allow, "Names": authz.NoOpinion,
	} {
		var list []string
		for _, kind := range strings.Fields(order) {
			list = append(list, "{type: "+kind+", name: "+strings.ToLower(kind)+"}")
		}
		d, _, err := open(t, head+"authorizers: ["+strings.Join(list, ",")+"]").Authorize(t.Context(), question)
		require.NoError(t, err)
		require.Equal(t, want, d, order)
	}
	c, err := config.ParseAuthorization([]byte(head + "authorizers: [{type: Broken, name: b}]"))
	require.NoError(t, err)
	_, err = config.NewAuthorizer(c, config.AuthorizationOptions{Types: types()})
	require.ErrorContains(t, err, `authorizer "b": it is broken`)
}

func TestAUTHZCFG_03_20_21_CachesAndMetrics(t *testing.T) {
	s := newWebhook(t, `{"allowed":true}`)
	path := connectionFile(t, s.URL)
	z := open(t, head+"authorizers: [{type: Names, name: names}, {type: Webhook, name: cached, webhook: "+hook(path, "matchConditions=[{expression: request.user == 'alice'}]")+
		"}, {type: Webhook, name: plain, webhook: "+hook(path, "cacheAuthorizedRequests=false")+"}]")
	for range 3 {
		d, _, err := z.Authorize(t.Context(), question)
		require.NoError(t, err)
		require.Equal(t, authz.Allow, d)
	}
	require.Equal(t, 1, s.count())
	bob := question
	bob.User.Name = "bob"
	for range 2 {
		_, _, err := z.Authorize(t.Context(), bob)
		require.NoError(t, err)
	}
	require.Equal(t, 3, s.count(), "AUTHZCFG-16: the second webhook alone is asked, and remembers nothing")
	var r metrics.Registry
	z.CollectMetrics(&r)
	var text bytes.Buffer
	require.NoError(t, metrics.Write(&text, r.Families()))
	for _, want := range []string{
		`apiserver_authorization_decisions_total{type="Webhook",name="cached",decision="allowed"} 3`,
		`apiserver_authorization_decisions_total{type="Webhook",name="plain",decision="allowed"} 2`,
		`apiserver_authorization_match_condition_exclusions_total{type="Webhook",name="cached"} 2`,
		`apiserver_authorization_webhook_evaluations_total{name="plain",result="success"} 2`,
	} {
		require.Contains(t, text.String(), want)
	}
}

func TestAUTHZCFG_13_15_16_18_Conditions(t *testing.T) {
	resource := question
	paths := authz.Attributes{User: question.User, Verb: "get", Path: "/healthz"}
	for _, c := range []struct {
		conditions string
		a          authz.Attributes
		policy     string
		want       authz.Decision
	}{
		{"request.resourceAttributes.resource == 'pods' && request.resourceAttributes.namespace == 'a'", resource, "Deny", authz.Allow},
		{"request.resourceAttributes.resource == 'nodes'", resource, "Deny", authz.NoOpinion},
		{"has(request.resourceAttributes)", paths, "Deny", authz.NoOpinion},
		{"!has(request.resourceAttributes) && request.nonResourceAttributes.path == '/healthz'", paths, "Deny", authz.Allow},
		{"request.resourceAttributes.resource == 'pods'", paths, "Deny", authz.Deny},
		{"request.resourceAttributes.resource == 'pods'", paths, "NoOpinion", authz.NoOpinion},
		{"request.resourceAttributes.resource == 'pods'\nfalse", paths, "Deny", authz.NoOpinion},
		{"false\nrequest.resourceAttributes.resource == 'pods'", paths, "Deny", authz.NoOpinion},
		{"'ops' in request.groups\nrequest.user == 'alice'\nrequest.uid == ''", resource, "Deny", authz.Allow},
		{"has(request.extra) && request.extra == {}", resource, "Deny", authz.Allow}, // as in kube-apiserver 1.36
		{"!('k' in request.extra)", paths, "Deny", authz.Allow},
		{"request.user.find('a.*') == 'alice'", resource, "Deny", authz.Allow},
		{"has(request.resourceAttributes.labelSelector)", resource, "Deny", authz.NoOpinion},
		{"", resource, "Deny", authz.Allow},
	} {
		var list []string
		for e := range strings.FieldsFuncSeq(c.conditions, func(r rune) bool { return r == '\n' }) {
			list = append(list, fmt.Sprintf("{expression: %q}", e))
		}
		s := newWebhook(t, `{"allowed":true}`)
		z := open(t, one(hook(connectionFile(t, s.URL), "failurePolicy="+c.policy, "matchConditions=["+strings.Join(list, ",")+"]")))
		d, _, err := z.Authorize(t.Context(), c.a)
		require.NoError(t, err)
		require.Equal(t, c.want, d, c.conditions)
		require.Equal(t, c.want == authz.Allow, s.count() == 1)
	}
}

// A file and what it names do not change at once. The file that came first counts when the other is there.
func TestCFG_05_AConnectionFileMayComeAfterTheFileThatNamesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, named := filepath.Join(t.TempDir(), "authz.yaml"), filepath.Join(t.TempDir(), "late.yaml")
		write := func(path, document string) {
			require.NoError(t, os.WriteFile(path+".new", []byte(document), 0o600))
			require.NoError(t, os.Rename(path+".new", path))
			time.Sleep(2 * time.Second)
		}
		write(path, head+"authorizers: [{type: Names, name: names}]")
		z, err := config.OpenAuthorization(path, config.AuthorizationOptions{Types: types(), ServerID: "me"})
		require.NoError(t, err)
		asks := func() bool { // whether the new configuration is in effect
			d, _, err := z.Authorize(t.Context(), question)
			require.NoError(t, err)
			return d == authz.Deny
		}
		write(path, head+"authorizers: [{type: AlwaysDeny, name: deny}, {type: Names, name: names}, {type: Webhook, name: hook, webhook: "+hook(named)+"}]")
		for range 3 {
			require.False(t, asks())
			require.ErrorContains(t, z.Healthy(t.Context()), "late.yaml")
			time.Sleep(2 * time.Second)
		}
		write(named, "{")
		require.False(t, asks())
		text, err := os.ReadFile(connectionFile(t, "https://example.dev"))
		require.NoError(t, err)
		write(named, string(text))
		require.True(t, asks())
		require.NoError(t, z.Healthy(t.Context()))
		var r metrics.Registry
		z.CollectMetrics(&r)
		var out bytes.Buffer
		require.NoError(t, metrics.Write(&out, r.Families()))
		require.Regexp(t, `automatic_reloads_total\{.*,status="failure"\} 2\n`, out.String(), "the same failure counts once")
		require.Regexp(t, `automatic_reloads_total\{.*,status="success"\} 1\n`, out.String())
	})
}

func TestCFG_05_AReloadKeepsTheTypesOfTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "authz.yaml")
		write := func(document string) {
			require.NoError(t, os.WriteFile(path+".new", []byte(document), 0o600))
			require.NoError(t, os.Rename(path+".new", path))
			time.Sleep(2 * time.Second)
		}
		o := config.AuthorizationOptions{Types: types(), ServerID: "me"}
		write(head + "authorizers: [{type: Names, name: names}]")
		z, err := config.OpenAuthorization(path, o)
		require.NoError(t, err)
		require.Equal(t, []string{"Names"}, z.Types())
		other := z.Rewrap([]authz.Authorizer{authz.Func(nil)}) // only its decisions count, which are those of AlwaysDeny here
		ask := func() authz.Decision {
			d, _, err := z.Authorize(t.Context(), question)
			require.NoError(t, err)
			return d
		}
		require.Equal(t, authz.NoOpinion, ask())

		write(head + "authorizers: [{type: AlwaysDeny, name: alwaysdeny}, {type: Names, name: names}]")
		require.Equal(t, authz.Deny, ask())
		d, _, err := other.Authorize(t.Context(), question)
		require.NoError(t, err)
		require.Equal(t, authz.Deny, d, "an authorizer that a server has bound follows the file too")
		require.NoError(t, z.Healthy(t.Context()))

		for document, want := range map[string]string{
			head + "authorizers: [{type: AlwaysAllow, name: a}]":                             "missing required type Names, which was enabled at initial server startup",
			head + "authorizers: [{type: Names, name: names}, {type: Broken, name: broken}]": "authorizers[1].type: Forbidden: authorizer type Broken is not allowed if it was not enabled at initial server startup",
			head + "authorizers: []": "authorizers: Required value",
			"{":                      "",
		} {
			write(document)
			require.Equal(t, authz.Deny, ask())
			require.ErrorContains(t, z.Healthy(t.Context()), want)
		}
		write(head + "authorizers: [{type: Names, name: names}, {type: AlwaysAllow, name: alwaysallow}]")
		require.Equal(t, authz.Allow, ask())
		require.NoError(t, z.Healthy(t.Context()))
		var r metrics.Registry
		z.CollectMetrics(&r)
		var text bytes.Buffer
		require.NoError(t, metrics.Write(&text, r.Families()))
		require.Regexp(t, `apiserver_authorization_config_controller_automatic_reloads_total\{apiserver_id_hash="sha256:[0-9a-f]{64}",status="failure"\} 4`, text.String())
		require.Regexp(t, `apiserver_authorization_config_controller_automatic_reloads_total\{apiserver_id_hash="sha256:[0-9a-f]{64}",status="success"\} 2`, text.String())
	})
	_, err := config.OpenAuthorization(filepath.Join(t.TempDir(), "none"), config.AuthorizationOptions{Types: types()})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestREVIEW_04_RulesOfAllAuthorizers(t *testing.T) {
	path := connectionFile(t, "https://127.0.0.1:1")
	rules := authz.RulesOf(t.Context(), open(t, head+"authorizers: [{type: Names, name: names}, {type: Webhook, name: w, webhook: "+hook(path)+"}]"), question.User, "a")
	require.True(t, rules.Incomplete)
	require.Equal(t, "webhook authorizer does not support user rule resolution", rules.Why)
	require.Equal(t, []authz.NonResourceRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/named"}}}, rules.Paths)
	rules = authz.RulesOf(t.Context(), open(t, head+"authorizers: [{type: AlwaysDeny, name: deny}, {type: AlwaysAllow, name: allow}]"), question.User, "a")
	require.Empty(t, rules.Resources, "nobody is asked after a denial of everything")
	require.False(t, rules.Incomplete)
}

func TestABadConnectionFileIsAProblemOfItsField(t *testing.T) {
	path := filepath.Join(t.TempDir(), "connection.yaml")
	require.NoError(t, os.WriteFile(path, []byte("current-context: x"), 0o600))
	c, err := config.ParseAuthorization([]byte(one(hook(path))))
	require.NoError(t, err)
	_, err = config.NewAuthorizer(c, config.AuthorizationOptions{Types: types()})
	require.ErrorContains(t, err, `authorizers[0].webhook.connectionInfo.kubeConfigFile: Invalid value: "`+path+`": connection file `+path+`: contexts: Not found: "x"`)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	c, err = config.ParseAuthorization([]byte(one(hook(path, "connectionInfo={type: InClusterConfig}"))))
	require.NoError(t, err)
	_, err = config.NewAuthorizer(c, config.AuthorizationOptions{Types: types()})
	require.ErrorContains(t, err, "authorizers[0].webhook.connectionInfo.type: Invalid value: \"InClusterConfig\": unable to load in-cluster configuration")
}

// The names cost nothing beside the decision.
func TestADecisionAllocatesNothing(t *testing.T) {
	z := open(t, head+"authorizers: [{type: Names, name: names}, {type: AlwaysAllow, name: alwaysallow}]")
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if d, _, err := z.Authorize(ctx, question); err != nil || d != authz.Allow {
			t.Error(d, err)
		}
	}))
}
