package authz_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// answer is an authorizer with a constant answer.
func answer(d authz.Decision, reason string, err error) authz.Authorizer {
	return authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) { return d, reason, err })
}

func panics() authz.Authorizer {
	return authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) { panic("broken rule") })
}

var widget = authz.Attributes{
	Verb: "update", Group: "example.dev", Version: "v1", Resource: "widgets", Namespace: "a", Name: "x", ResourceRequest: true,
	Path: "/apis/example.dev/v1/namespaces/a/widgets/x",
}

func fixed(a authz.Attributes) authz.AttributesFunc {
	return func(*http.Request) (authz.Attributes, error) { return a, nil }
}

// serve sends a request of alice through the middleware.
func serve(z authz.Authorizer, a authz.AttributesFunc, opts ...authz.Option) (w *httptest.ResponseRecorder, served bool) {
	w = httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/", nil)
	r = r.WithContext(authn.WithUser(r.Context(), authn.User{Name: "alice", Groups: []string{"dev"}}))
	authz.Middleware(z, a, opts...)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true })).ServeHTTP(w, r)
	return w, served
}

func decide(t *testing.T, z authz.Authorizer, a authz.Attributes) (authz.Decision, string) {
	t.Helper()
	d, reason, err := z.Authorize(t.Context(), a)
	require.NoError(t, err)
	return d, reason
}

// A review that names no version asks about all of them, and tells authorizers so in the word of Kubernetes:
// a webhook compares versions, and none is called "".
func TestREVIEW_01_NoVersionIsEveryVersion(t *testing.T) {
	for said, want := range map[string]string{"": "*", "*": "*", "v1beta1": "v1beta1"} {
		a, problems := authz.SubjectAccessReviewSpec{User: "a", ResourceAttributes: &authz.ResourceAttributes{Verb: "get", Version: said}}.Attributes()
		require.Empty(t, problems)
		require.Equal(t, want, a.Version)
	}
	a, problems := authz.SelfSubjectAccessReviewSpec{NonResourceAttributes: &authz.NonResourceAttributes{Path: "/"}}.Attributes(authn.User{})
	require.Empty(t, problems)
	require.Empty(t, a.Version, "a path has none")
}

func TestAUTHZ_03_Order(t *testing.T) {
	allow, deny, none := answer(authz.Allow, "rule 1", nil), answer(authz.Deny, "rule 2", nil), answer(authz.NoOpinion, "rule 3", nil)
	for _, c := range []struct {
		chain  []authz.Authorizer
		want   authz.Decision
		reason string
	}{
		{[]authz.Authorizer{none, allow, deny}, authz.Allow, "rule 1"},
		{[]authz.Authorizer{none, deny, allow}, authz.Deny, "rule 2"},
		{[]authz.Authorizer{none, none}, authz.NoOpinion, "rule 3"},
		{[]authz.Authorizer{none, answer(authz.NoOpinion, "", nil)}, authz.NoOpinion, "rule 3"},
		{nil, authz.NoOpinion, ""},
	} {
		d, reason := decide(t, authz.Union(c.chain...), widget)
		require.Equal(t, c.want, d)
		require.Equal(t, c.reason, reason)
	}
	w, served := serve(authz.Union(none), fixed(widget))
	require.False(t, served, "no opinion at all is a rejection")
	require.Equal(t, 403, w.Code)
}

func TestAUTHZ_01_02_Constants(t *testing.T) {
	d, _ := decide(t, authz.AlwaysAllow(), widget)
	require.Equal(t, authz.Allow, d)
	d, reason := decide(t, authz.AlwaysDeny(), widget)
	require.Equal(t, authz.Deny, d)
	require.NotEmpty(t, reason)
}

func TestAUTHZ_16_Masters(t *testing.T) {
	chain := authz.Union(authz.Masters(), authz.AlwaysDeny())
	a := widget
	a.User = authn.User{Name: "root", Groups: []string{"dev", "system:masters"}}
	d, _ := decide(t, chain, a)
	require.Equal(t, authz.Allow, d)
	for _, u := range []authn.User{{Name: "system:masters"}, {Name: "a", Groups: []string{"system:masters2", "masters", "System:Masters"}}, {}} {
		a.User = u
		d, _ = decide(t, chain, a)
		require.Equal(t, authz.Deny, d)
	}
}

func TestZ10_UnionFailsClosed(t *testing.T) {
	for name, broken := range map[string]authz.Authorizer{
		"error":          answer(authz.NoOpinion, "", errors.New("lost")),
		"error on allow": answer(authz.Allow, "", errors.New("lost")),
		"panic":          panics(),
		"unknown":        answer(authz.Decision(7), "", nil),
		"negative":       answer(authz.Decision(-1), "", nil),
		"nil":            nil,
	} {
		d, _, err := authz.Union(broken, authz.AlwaysAllow()).Authorize(t.Context(), widget)
		require.Error(t, err, name)
		require.Equal(t, authz.Deny, d, name)
	}
}

func TestZ10_MiddlewareFailsClosed(t *testing.T) {
	canceled := authz.Func(func(ctx context.Context, _ authz.Attributes) (authz.Decision, string, error) {
		return authz.Allow, "", context.DeadlineExceeded
	})
	for name, c := range map[string]struct {
		z authz.Authorizer
		a authz.AttributesFunc
	}{
		"error":             {answer(authz.Allow, "s3cret", errors.New("s3cret")), fixed(widget)},
		"deadline":          {canceled, fixed(widget)},
		"panic":             {panics(), fixed(widget)},
		"unknown":           {answer(3, "s3cret", nil), fixed(widget)},
		"no authorizer":     {nil, fixed(widget)},
		"attributes error":  {authz.AlwaysAllow(), func(*http.Request) (authz.Attributes, error) { return widget, errors.New("s3cret") }},
		"attributes panic":  {authz.AlwaysAllow(), func(*http.Request) (authz.Attributes, error) { panic("s3cret") }},
		"attributes absent": {authz.AlwaysAllow(), nil},
	} {
		w, served := serve(c.z, c.a)
		require.False(t, served, name)
		require.Equal(t, 500, w.Code, name)
		require.NotContains(t, w.Body.String(), "s3cret", name)
		var s meta.Status
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &s))
		require.Equal(t, meta.ReasonInternalError, s.Reason)
	}
	_, served := serve(authz.AlwaysAllow(), fixed(widget))
	require.True(t, served, "later requests work")
}

func TestAnAuthorizerThatCannotDecideYetAsksForARetry(t *testing.T) {
	w, served := serve(authz.Union(authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) {
		return authz.Allow, "", fmt.Errorf("s3cret: %w", authz.ErrUnavailable)
	}), authz.AlwaysAllow()), fixed(widget))
	require.False(t, served)
	require.Equal(t, 503, w.Code)
	require.NotContains(t, w.Body.String(), "s3cret")
	var s meta.Status
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &s))
	require.Equal(t, meta.ReasonServiceUnavailable, s.Reason)
	require.EqualValues(t, 1, s.Details.RetryAfterSeconds)
}

func TestRequestWithoutUserIsRejected(t *testing.T) {
	for _, ctx := range []context.Context{t.Context(), authn.WithUser(t.Context(), authn.User{})} {
		w := httptest.NewRecorder()
		authz.Middleware(authz.AlwaysAllow(), fixed(widget))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			t.Error("served")
		})).ServeHTTP(w, httptest.NewRequest("GET", "/", nil).WithContext(ctx))
		require.Equal(t, 500, w.Code)
	}
}

func TestUserComesOnlyFromTheContext(t *testing.T) {
	forged := widget
	forged.User = authn.User{Name: "root", Groups: []string{authn.GroupMasters}}
	w, served := serve(authz.Masters(), fixed(forged))
	require.False(t, served)
	require.Contains(t, w.Body.String(), `User \"alice\"`)
}

func TestAUTHZ_15_Messages(t *testing.T) {
	change := func(f func(*authz.Attributes)) authz.Attributes {
		a := widget
		a.User.Name = "alice"
		f(&a)
		return a
	}
	for _, c := range []struct {
		a            authz.Attributes
		reason, want string
	}{
		{
			change(func(*authz.Attributes) {}), "",
			`widgets.example.dev "x" is forbidden: User "alice" cannot update resource "widgets" in API group "example.dev" in the namespace "a"`,
		},
		{
			change(func(*authz.Attributes) {}), "no rule matched",
			`widgets.example.dev "x" is forbidden: User "alice" cannot update resource "widgets" in API group "example.dev" in the namespace "a": no rule matched`,
		},
		{
			change(func(a *authz.Attributes) { a.Subresource = "status" }), "",
			`widgets.example.dev "x" is forbidden: User "alice" cannot update resource "widgets/status" in API group "example.dev" in the namespace "a"`,
		},
		{
			change(func(a *authz.Attributes) { a.Verb, a.Namespace, a.Name = "list", "", "" }), "",
			`widgets.example.dev is forbidden: User "alice" cannot list resource "widgets" in API group "example.dev" at the cluster scope`,
		},
		{
			change(func(a *authz.Attributes) { a.Group, a.Resource, a.Name = "", "pods", "p" }), "",
			`pods "p" is forbidden: User "alice" cannot update resource "pods" in API group "" in the namespace "a"`,
		},
		{
			authz.Attributes{User: authn.User{Name: "alice"}, Verb: "get", Path: "/metrics"},
			"",
			`forbidden: User "alice" cannot get path "/metrics"`,
		},
		{
			authz.Attributes{User: authn.User{Name: "<b>\n&"}, Verb: "get", Path: "/x"},
			"see <a>",
			`forbidden: User "&lt;b&gt;\n&amp;" cannot get path "/x": see &lt;a&gt;`,
		},
	} {
		s := authz.Refusal(c.a, c.reason).Status()
		require.Equal(t, c.want, s.Message)
		require.Equal(t, meta.ReasonForbidden, s.Reason)
		require.EqualValues(t, 403, s.Code)
	}
	w, _ := serve(authz.AlwaysDeny(), fixed(widget))
	require.Equal(t, 403, w.Code)
	require.JSONEq(t, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Forbidden","code":403,
		"message":"widgets.example.dev \"x\" is forbidden: User \"alice\" cannot update resource \"widgets\" in API group \"example.dev\" in the namespace \"a\": Everything is forbidden.",
		"details":{"name":"x","group":"example.dev","kind":"widgets"}}`, w.Body.String())
}

// Z11: the response to a user without any rights depends only on the request, because nothing is
// looked up before it.
func TestZ12_MatchPath(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"/healthz", "/healthz", true},
		{"/healthz", "/healthz/x", false},
		{"/healthz", "/healthzz", false},
		{"/healthz", "/healthz/", false},
		{"/healthz", "/healthz/../metrics", false},
		{"/healthz", "/HEALTHZ", false},
		{"/healthz", "/", false},
		{"/a/*", "/a/b", true},
		{"/a/*", "/a/", true},
		{"/a/*", "/a/b/c", true},
		{"/a/*", "/a", false},
		{"/a/*", "/ab", false},
		{"/a*", "/ab", true},
		{"/*", "/metrics", true},
		{"*", "/metrics", true},
		{"/", "/", true},
		{"/", "/a", false},
	} {
		require.Equal(t, c.want, authz.MatchPath(c.pattern, c.path), c)
	}
}

func TestAUTHZ_13_HEALTH_21_AllowPaths(t *testing.T) {
	patterns := []string{"/healthz", "/readyz", "/livez", "/openapi/*"}
	allowed, err := authz.AllowPaths(patterns...)
	require.NoError(t, err)
	patterns[0] = "/metrics" // the caller may modify its slice
	chain := authz.Union(allowed, authz.AlwaysDeny())
	for path, want := range map[string]authz.Decision{
		"/healthz": authz.Allow, "/livez": authz.Allow, "/openapi/v3": authz.Allow, "/healthz/ping": authz.Deny, "/metrics": authz.Deny, "/openapi": authz.Deny,
	} {
		d, _ := decide(t, chain, authz.Attributes{Verb: "get", Path: path})
		require.Equal(t, want, d, path)
	}
	d, _ := decide(t, chain, authz.Attributes{Verb: "post", Path: "/healthz"})
	require.Equal(t, authz.Deny, d)
	d, _ = decide(t, chain, authz.Attributes{Verb: "get", Path: "/healthz", Resource: "widgets", ResourceRequest: true})
	require.Equal(t, authz.Deny, d, "a resource is never allowed by its path")

	for _, bad := range []string{"", "healthz", "*", "/a*b", "/*/x", "/a**"} {
		_, err := authz.AllowPaths("/ok", bad)
		require.Error(t, err, bad)
	}
}

func TestAUTHZ_11_12_17_AttributesReachTheAuthorizer(t *testing.T) {
	labels, err := meta.ParseSelector("app=a")
	require.NoError(t, err)
	a := widget
	a.Subresource, a.Labels = "status", labels
	var seen authz.Attributes
	_, served := serve(authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		seen = a
		return authz.Allow, "", nil
	}), fixed(a))
	require.True(t, served)
	a.User = authn.User{Name: "alice", Groups: []string{"dev"}}
	require.Equal(t, a, seen)
}

func TestOptions(t *testing.T) {
	var log bytes.Buffer
	logger := funcr.New(func(prefix, args string) { log.WriteString(args + "\n") }, funcr.Options{Verbosity: 1})
	type told struct {
		verb, reason string
		d            authz.Decision
	}
	var decisions []told
	opts := []authz.Option{
		authz.WithLogger(logger),
		authz.WithDecision(func(_ *http.Request, a authz.Attributes, d authz.Decision, reason string) {
			decisions = append(decisions, told{a.Verb, reason, d})
		}),
		authz.WithRefusal(func(w http.ResponseWriter, _ *http.Request, err *status.Error) { w.WriteHeader(err.Code() + 1) }),
	}
	w, _ := serve(answer(authz.Deny, "rule 2", nil), fixed(widget), opts...)
	require.Equal(t, 404, w.Code)
	w, _ = serve(panics(), fixed(widget), opts...)
	require.Equal(t, 501, w.Code)
	_, served := serve(answer(authz.Allow, "rule 1", nil), fixed(widget), opts...)
	require.True(t, served)
	_, _ = serve(answer(authz.NoOpinion, "", nil), fixed(widget), opts...)
	require.Equal(t, []told{{"update", "rule 2", authz.Deny}, {"update", "", authz.Deny}, {"update", "rule 1", authz.Allow}, {"update", "", authz.Deny}}, decisions)
	require.Contains(t, log.String(), "broken rule")
	require.Contains(t, log.String(), "rule 2")
}

func TestDecisionString(t *testing.T) {
	require.Equal(t, "no opinion", authz.Decision(0).String())
	require.Equal(t, "allow", authz.Allow.String())
	require.Equal(t, "deny", authz.Deny.String())
	require.Equal(t, "unknown decision 9", authz.Decision(9).String())
}
