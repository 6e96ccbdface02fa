package kindwright_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/authz"
)

// recorded sends a request as a user and returns its answer with its last audit record.
func (h *host) recorded(m *memo, user, method, path, body string, headers ...string) (int, *audit.Event) {
	h.t.Helper()
	res := h.request(method, path, body, append([]string{"X-User", user, "X-Groups", ""}, headers...)...)
	defer res.Body.Close()
	events := m.of(res.Header.Get("Audit-Id"), audit.StageResponseComplete)
	return res.StatusCode, events[len(events)-1]
}

// metadataOnly records requests without their bodies.
func metadataOnly() audit.Policy {
	return audit.Policy{Rules: []audit.Rule{{Level: audit.LevelMetadata}}}
}

func TestZ1_Z2_VerbsOfCollectionsOnTheServer(t *testing.T) {
	m := &memo{t: t}
	h := dials(t, rules{{"lister", "list", "dials", "a", ""}, {"remover", "delete", "dials", "a", ""}}, kindwright.Audit(metadataOnly(), m))
	for _, c := range []struct {
		user, method, path, verb string
		code                     int
	}{
		{"lister", "GET", dialPath, "list", 200},
		{"lister", "GET", dialPath + "?watch=true", "watch", 403},
		{"lister", "GET", dialPath + "?watch=1", "watch", 403},
		{"remover", "DELETE", dialPath, "deletecollection", 403},
		{"remover", "DELETE", dialPath + "?labelSelector=a%3Db", "deletecollection", 403},
		{"remover", "DELETE", dialPath + "/x", "delete", 200},
	} {
		code, e := h.recorded(m, c.user, c.method, c.path, "")
		require.Equal(t, c.code, code, "%s %s", c.method, c.path)
		require.Equal(t, c.verb, e.Verb)
		require.Equal(t, map[bool]string{true: "allow", false: "forbid"}[c.code == 200], e.Annotations["authorization.k8s.io/decision"])
	}
	code, _ := h.as("lister", "GET", "/apis/example.dev/v1/watch/namespaces/a/dials", "")
	require.NotEqual(t, 200, code, "the old path of watches is not served")
}

// Nothing that an authorizer does wrong allows a request, and the next one is served.
func TestZ10_AFailingAuthorizerAllowsNothing(t *testing.T) {
	m := &memo{t: t}
	broken := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		switch a.User.Name {
		case "error":
			return authz.Allow, "", errors.New("marked cause")
		case "panic":
			panic("marked cause")
		case "unknown":
			return authz.Decision(7), "", nil
		case "good":
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "", nil
	})
	h := run(t, kindwright.Audit(metadataOnly(), m), kindwright.Authorize(broken, authz.AlwaysAllow()))
	for _, user := range []string{"error", "panic", "unknown"} {
		res := h.request("GET", gadgetPath, "", "X-User", user, "X-Groups", "")
		require.Equal(t, 500, res.StatusCode)
		require.NoError(t, res.Body.Close())
		events := m.of(res.Header.Get("Audit-Id"), audit.StageResponseComplete)
		e := events[len(events)-1]
		require.Equal(t, "forbid", e.Annotations["authorization.k8s.io/decision"])
		require.NotContains(t, string(e.AppendJSON(nil)), "marked cause")
		code, _ := h.as("good", "GET", gadgetPath, "")
		require.Equal(t, 200, code)
	}
}

// An authorizer that hangs holds its request for as long as requests may take, and no other.
func TestZ10_AHangingAuthorizerHoldsOneRequest(t *testing.T) {
	hangs := authz.Func(func(ctx context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.User.Name == "slow" {
			<-ctx.Done()
			return authz.Allow, "", context.Cause(ctx)
		}
		return authz.Allow, "", nil
	})
	h := run(t, kindwright.HTTP{RequestTimeout: 300 * time.Millisecond}, kindwright.Authorize(hangs))
	code, _ := h.as("slow", "GET", gadgetPath, "")
	require.GreaterOrEqual(t, code, 500)
	require.Eventually(t, func() bool { // a busy machine may take as long as the limit
		code, _ := h.as("good", "GET", gadgetPath, "")
		return code == 200
	}, time.Minute, time.Millisecond)
}

func TestZ12_OnlyWholePathsAreOpen(t *testing.T) {
	m := &memo{t: t}
	h := run(t, kindwright.Audit(metadataOnly(), m), kindwright.Authorize(rules{}), kindwright.Access{OpenPaths: []string{"/healthz", "/openapi/*"}})
	for path, code := range map[string]int{
		"/healthz": 200, "/healthz/ping": 403, "/healthzz": 403, "/openapi/v2": 200, "/openapi": 403, "/openapiv2": 403, "/metrics": 403,
	} {
		got, e := h.recorded(m, "mallory", "GET", path, "")
		require.Equal(t, code, got, path)
		require.Nil(t, e.ObjectRef)
	}
	for _, path := range []string{"/healthz%2f..%2fmetrics", "/healthz/../metrics", "/openapi/../metrics", "/openapi/%2e%2e/metrics"} {
		code, _ := h.as("mallory", "GET", path, "")
		require.NotEqual(t, 200, code, path)
	}
}

func TestZ13_MethodsAreNoWayAround(t *testing.T) {
	m := &memo{t: t}
	h := dials(t, rules{{"reader", "get", "dials", "a", ""}, {"none", "", "dials", "a", ""}}, kindwright.Audit(metadataOnly(), m))
	for _, c := range []struct {
		user, method, path string
		headers            []string
		codes              []int
	}{
		{"reader", "PROPFIND", dialPath, nil, []int{403}},
		{"reader", "get", dialPath + "/x", nil, []int{403}},
		{"reader", "HEAD", dialPath, nil, []int{403, 405}},
		{"none", "HEAD", dialPath + "/x", nil, []int{403, 405}},
		{"reader", "TRACE", dialPath + "/x", nil, []int{403}},
		{"reader", "GET", dialPath + "/x", []string{"X-HTTP-Method-Override", "DELETE"}, []int{200}},
		{"reader", "GET", dialPath + "/x?_method=DELETE", nil, []int{200}},
		{"reader", "POST", dialPath + "/x", []string{"X-HTTP-Method-Override", "GET"}, []int{403}},
	} {
		res := h.request(c.method, c.path, "", append([]string{"X-User", c.user, "X-Groups", ""}, c.headers...)...)
		require.NoError(t, res.Body.Close())
		require.Contains(t, c.codes, res.StatusCode, "%s %s", c.method, c.path)
	}
	code, _ := h.do("GET", dialPath+"/x", "")
	require.Equal(t, 200, code, "it has not been deleted")
}

// PATH-23: what a method would do is asked first, so nobody learns by 405 and 404 what there is. A
// method without a verb needs a right to all verbs.
func TestZ13_AMethodThatCannotBeIsJudgedFirst(t *testing.T) {
	m := &memo{t: t}
	everything := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.User.Name == "all" || a.User.Name == "named" && a.Verb != "" && a.Verb != "brew" {
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "", nil
	})
	h := run(t, kindwright.Audit(metadataOnly(), m), kindwright.Authorize(everything), kindwright.Access{NoAnonymous: true})
	for _, c := range []struct {
		method, path, verb string
		named              int // the code for somebody with every verb that there is
	}{
		{"OPTIONS", gadgetPath, "", 403},
		{"TRACE", gadgetPath + "/x", "", 403},
		{"BREW", gadgetPath + "/x/status", "", 403},
		{"get", gadgetPath, "", 403},
		{"BREW", "/apis/none.example.dev/v1/nothings", "", 403},
		{"PUT", gadgetPath, "update", 405},
		{"PATCH", gadgetPath, "patch", 405},
		{"POST", gadgetPath + "/x", "create", 405},
		{"HEAD", gadgetPath + "?watch=1", "watch", 405},
		{"OPTIONS", "/version", "options", 405},
		{"BREW", "/healthz", "brew", 403},
	} {
		path, _, _ := strings.Cut(c.path, "?")
		for user, code := range map[string]int{"": 401, "mallory": 403, "named": c.named, "all": 405} {
			res := h.request(c.method, c.path, "", "X-User", user, "X-Groups", "")
			require.NoError(t, res.Body.Close())
			require.Equal(t, code, res.StatusCode, "%s %s as %q", c.method, c.path, user)
			require.Equal(t, code == 405, res.Header.Get("Allow") != "")
			events := m.of(res.Header.Get("Audit-Id"), audit.StageResponseComplete)
			e := events[len(events)-1]
			require.Equal(t, c.verb, e.Verb)
			require.Equal(t, path, strings.Split(e.RequestURI, "?")[0])
			require.Equal(t, user, e.User.Username)
			require.EqualValues(t, code, e.ResponseStatus.Code)
		}
	}
	res := h.request(strings.Repeat("A", 5000), gadgetPath, "", "X-User", "all", "X-Groups", "")
	require.NoError(t, res.Body.Close())
	require.Equal(t, 405, res.StatusCode)
}

// The group that may do everything comes from a credential alone.
func TestZ16_NobodyJoinsTheMasters(t *testing.T) {
	m := &memo{t: t}
	h := dials(t, rules{
		{"mallory", everyVerb, "dials", "a", ""},
		{"mallory", "impersonate", "users", "", ""},
	}, kindwright.Audit(metadataOnly(), m))
	for _, headers := range [][]string{
		{"Impersonate-User", "admin", "Impersonate-Group", "system:masters"},
		{"Impersonate-User", "mallory", "Impersonate-Group", "system:masters"},
		{"X-Remote-User", "admin", "X-Remote-Group", "system:masters"},
		{"Impersonate-Extra-Groups", "system:masters", "Impersonate-User", "alice"},
	} {
		code, e := h.recorded(m, "mallory", "GET", "/apis/example.dev/v1/namespaces/b/dials", "", headers...)
		require.Equal(t, http.StatusForbidden, code, "%v", headers)
		require.Equal(t, "mallory", e.User.Username)
		require.NotContains(t, strings.Join(e.User.Groups, ","), "masters")
	}
	code, _ := h.as("mallory", "GET", dialPath, "")
	require.Equal(t, 200, code)
}
