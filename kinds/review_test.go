package kinds_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

const (
	tokenReviews = "/apis/authentication.k8s.io/v1/tokenreviews"
	authorizing  = "/apis/authorization.k8s.io/v1/"
)

// byToken knows the bearer tokens of a few users.
var byToken = authn.Func(func(r *http.Request) (authn.User, bool, error) {
	token, ok, err := authn.BearerToken(r)
	if err != nil || !ok {
		return authn.User{}, false, err
	}
	switch token {
	case "alice-secret":
		return authn.User{Name: "alice", UID: "7", Groups: []string{"dev"}, Extra: map[string][]string{"k": {"v"}}}, true, nil
	case "shop-secret":
		u := authn.User{Name: "shop"}
		if asked, ok := authn.AudiencesFrom(r.Context()); ok && slices.Contains(asked, "shop.example.dev") {
			u.Audiences = []string{"shop.example.dev", "another"}
		}
		return u, true, nil
	case "late-secret":
		return authn.User{}, false, errors.New("expired: late-secret")
	}
	return authn.User{}, false, nil
})

func TestREVIEW_06_TokenReview(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := serve(t, b, nil, kindwright.Authenticate(byToken))
		out := h.must(201, "POST", tokenReviews, `{"spec":{"token":"alice-secret"}}`)
		require.Equal(t, map[string]any{
			"authenticated": true,
			"user":          map[string]any{"username": "alice", "uid": "7", "groups": []any{"dev", "system:authenticated"}, "extra": map[string]any{"k": []any{"v"}}},
		}, out["status"])
		require.Equal(t, "authentication.k8s.io/v1", out["apiVersion"])
		require.Equal(t, "TokenReview", out["kind"])
		require.Equal(t, map[string]any{"token": "alice-secret"}, out["spec"])

		for _, token := range []string{"wrong", "late-secret", "alice-secret ", " alice-secret", "a b", "é", "alice-secret\\nX-User: admin", strings.Repeat("x", 1<<17)} {
			out := h.must(201, "POST", tokenReviews, `{"spec":{"token":"`+token+`"},"status":{"authenticated":true,"user":{"username":"me"}}}`)
			require.Nil(t, at(out, "status", "authenticated"), token)
			require.Empty(t, at(out, "status", "user"), token)
			require.NotEmpty(t, at(out, "status", "error"))
			require.NotContains(t, at(out, "status", "error"), "late-secret")
			require.NotContains(t, at(out, "status", "error"), "expired", "the reason must not be disclosed")
		}
		for _, body := range []string{`{}`, `{"spec":{}}`, `{"spec":{"token":""}}`, `{"spec":{"audiences":["a"]}}`} {
			require.Contains(t, h.must(400, "POST", tokenReviews, body)["message"], "token is required")
		}
		h.refused("POST", tokenReviews, `{"spec":{"token":7}}`, "spec.token")
		h.must(405, "GET", tokenReviews, "")
		for _, method := range []string{"GET", "PUT", "DELETE"} { // reviews have no names, so there is no such path
			h.must(404, method, tokenReviews+"/x", "")
		}
		h.must(403, "POST", tokenReviews, `{"spec":{"token":"alice-secret"}}`, "X-Groups", "dev")
	})
}

func TestREVIEW_06_Audiences(t *testing.T) {
	h := serve(t, memory.New(), nil, kindwright.Authenticate(byToken))
	for audiences, want := range map[string]any{
		`["shop.example.dev"]`:              []any{"shop.example.dev"},
		`["first","shop.example.dev","un"]`: []any{"shop.example.dev"},
	} {
		out := h.must(201, "POST", tokenReviews, `{"spec":{"token":"shop-secret","audiences":`+audiences+`}}`)
		require.Equal(t, true, at(out, "status", "authenticated"))
		require.Equal(t, want, at(out, "status", "audiences"))
	}
	for _, spec := range []string{`{"token":"shop-secret","audiences":["shop.example"]}`, `{"token":"alice-secret","audiences":["shop.example.dev"]}`} {
		out := h.must(201, "POST", tokenReviews, `{"spec":`+spec+`}`)
		require.Nil(t, at(out, "status", "authenticated"), "nobody vouches for the audience")
		require.Contains(t, at(out, "status", "error"), "audiences")
	}
	out := h.must(201, "POST", tokenReviews, `{"spec":{"token":"shop-secret"}}`)
	require.Equal(t, true, at(out, "status", "authenticated"))
	require.Nil(t, at(out, "status", "audiences"))
}

// AUTHN-07: a token that has no audience is one for the server, so a service that asks about a name of the
// server hears who it is.
func TestREVIEW_06_TheAudiencesOfTheServer(t *testing.T) {
	h := serve(t, memory.New(), nil, kindwright.Authenticate(byToken), kindwright.Access{Audiences: []string{"https://api.example.dev", "api"}})
	for audiences, want := range map[string]any{
		`[]`: []any{"https://api.example.dev", "api"}, `["other","api"]`: []any{"api"}, `["other"]`: nil, `["API"]`: nil,
	} {
		out := h.must(201, "POST", tokenReviews, `{"spec":{"token":"alice-secret","audiences":`+audiences+`}}`)
		require.Equal(t, want, at(out, "status", "audiences"), audiences)
		require.Equal(t, want != nil, at(out, "status", "authenticated") == true, audiences)
	}
}

// hostUser is a context key by which an embedding host identifies the caller.
type hostUser struct{}

func TestREVIEW_06_TheCallerIsNotTheOwnerOfTheToken(t *testing.T) {
	byContext := authn.Func(func(r *http.Request) (authn.User, bool, error) {
		if u, ok := authn.UserFrom(r.Context()); ok {
			return u, true, nil
		}
		u, ok := r.Context().Value(hostUser{}).(authn.User)
		return u, ok, nil
	})
	everybody := authn.Func(func(*http.Request) (authn.User, bool, error) {
		return authn.User{Name: authn.UserAnonymous, Groups: []string{authn.GroupUnauthenticated}}, true, nil
	})
	h := serve(t, memory.New(), nil, kindwright.Authenticate(byContext, everybody))
	ctx := context.WithValue(t.Context(), hostUser{}, authn.User{Name: "admin", Groups: []string{authn.GroupMasters}})
	for _, headers := range [][]string{nil, {"X-User", ""}} {
		w := &answer{header: http.Header{}}
		h.ServeHTTP(w, newRequest(ctx, "POST", tokenReviews, `{"spec":{"token":"wrong"}}`, headers...))
		require.Equal(t, 201, w.code, w.String())
		require.NotContains(t, w.String(), `"authenticated"`)
		require.NotContains(t, w.String(), `"admin"`)
	}
}

// answer is a minimal http.ResponseWriter.
type answer struct {
	bytes.Buffer
	header http.Header
	code   int
}

func (a *answer) Header() http.Header  { return a.header }
func (a *answer) WriteHeader(code int) { a.code = code }

func TestA5_TokensUnderReviewAreInNoLog(t *testing.T) {
	var log bytes.Buffer
	logger := funcr.New(func(prefix, args string) { log.WriteString(prefix + args + "\n") }, funcr.Options{Verbosity: 10})
	h := serve(t, memory.New(), nil, kindwright.Authenticate(byToken), kindwright.LogTo(logger))
	for _, body := range []string{
		`{"spec":{"token":"alice-secret"}}`, `{"spec":{"token":"late-secret"}}`, `{"spec":{"token":"wrong-secret"}}`, `{"spec":{"token":"blank secret"}}`,
		`{"spec":{"token":["list-secret"]}}`, `{"spec":{"token":"x"},"token":"misplaced-secret"}`, `{"spec":{"token":"cut-secret`,
	} {
		h.do("POST", tokenReviews, body)
		h.do("POST", tokenReviews, body, "X-Groups", "")
	}
	h.do("POST", tokenReviews, `{}`, "X-User", "", "Authorization", "Bearer wrong") // log something
	require.NotEmpty(t, log.String())
	require.NotContains(t, log.String(), "secret")
}

// byRules allows the users of the test and cannot list their rules.
var byRules = authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
	switch {
	case a.Verb == "crash":
		return authz.Allow, "", errors.New("secret reason")
	case a.Verb == "delete":
		return authz.Deny, "never", nil
	case a.User.Name == "alice" && a.Verb == "get":
		return authz.Allow, "alice may look", nil
	case a.User.In("ops"), a.User.UID == "7" && len(a.User.Extra["scopes"]) == 1:
		return authz.Allow, "", nil
	case a.Verb == "list" && a.Labels.String() == "team=a" && a.Fields.String() == "metadata.name=x,spec.owner!=b":
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "", nil
})

func TestREVIEW_01_SubjectAccessReview(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := serve(t, b, nil, kindwright.Authorize(byRules))
		get, remove := `"resourceAttributes":{"verb":"get","resource":"pods","namespace":"default"}`, `"resourceAttributes":{"verb":"delete","resource":"pods"}`
		for spec, want := range map[string]map[string]any{
			`"user":"alice",` + get:                                                 {"allowed": true, "reason": "alice may look"},
			`"user":"bob",` + get:                                                   {"allowed": false},
			`"user":"bob","groups":["ops"],` + get:                                  {"allowed": true},
			`"groups":["ops"],` + get:                                               {"allowed": true},
			`"groups":["system:masters"],` + remove:                                 {"allowed": true},
			`"user":"alice",` + remove:                                              {"allowed": false, "denied": true, "reason": "never"},
			`"user":"bob","uid":"7","extra":{"scopes":["a"]},` + get:                {"allowed": true},
			`"user":"bob","nonResourceAttributes":{"path":"/healthz","verb":"get"}`: {"allowed": true},
			`"user":"bob","nonResourceAttributes":{"path":"/metrics","verb":"get"}`: {"allowed": false},
			`"user":"bob","resourceAttributes":{"verb":"crash","resource":"pods"}`:  {"allowed": false, "denied": true, "evaluationError": "the authorizer failed; nothing is allowed"},
			`"user":"bob","resourceAttributes":{"verb":"list","labelSelector":{"rawSelector":"team=a"},"fieldSelector":{"rawSelector":"metadata.name=x,spec.owner!=b"}}`: {"allowed": true},
			`"user":"bob","resourceAttributes":{"verb":"list","labelSelector":{"requirements":[{"key":"team","operator":"In","values":["a"]}]},"fieldSelector":{"requirements":[
				{"key":"metadata.name","operator":"In","values":["x"]},{"key":"spec.owner","operator":"NotIn","values":["b"]},{"key":"spec.any","operator":"Exists"},{"key":"spec.any","operator":"In","values":["a","b"]}]}}`: {
				"allowed": true, "evaluationError": "spec.resourceAttributes.fieldSelector partially ignored due to parse error",
			},
		} {
			out := h.must(201, "POST", authorizing+"subjectaccessreviews", `{"spec":{`+spec+`},"status":{"allowed":true,"reason":"because"}}`)
			require.Equal(t, want, out["status"], spec)
			require.Equal(t, "SubjectAccessReview", out["kind"])
		}
	})
}

func TestREVIEW_01_InvalidReviews(t *testing.T) {
	h := serve(t, memory.New(), nil, kindwright.Authorize(byRules))
	for spec, fields := range map[string][]string{
		`{}`:                                    {"spec.resourceAttributes", "spec.user"},
		`{"user":"a"}`:                          {"spec.resourceAttributes"},
		`{"resourceAttributes":{"verb":"get"}}`: {"spec.user"},
		`{"user":"a","resourceAttributes":{},"nonResourceAttributes":{}}`:                                                                                                        {"spec.nonResourceAttributes"},
		`{"user":"a","resourceAttributes":{"verb":7}}`:                                                                                                                           {"spec.resourceAttributes.verb"},
		`{"user":"a","resourceAttributes":{"labelSelector":{}}}`:                                                                                                                 {"spec.resourceAttributes.labelSelector.requirements"},
		`{"user":"a","resourceAttributes":{"fieldSelector":{"requirements":[]}}}`:                                                                                                {"spec.resourceAttributes.fieldSelector.requirements"},
		`{"user":"a","resourceAttributes":{"labelSelector":{"rawSelector":"a","requirements":[{"key":"a","operator":"Exists"}]}}}`:                                               {"spec.resourceAttributes.labelSelector.rawSelector"},
		`{"user":"a","resourceAttributes":{"fieldSelector":{"requirements":[{"key":"","operator":"In"}]}}}`:                                                                      {"spec.resourceAttributes.fieldSelector.requirements[0].key", "spec.resourceAttributes.fieldSelector.requirements[0].values"},
		`{"user":"a","resourceAttributes":{"fieldSelector":{"requirements":[{"key":"a","operator":"Exists","values":["a"]}]}}}`:                                                  {"spec.resourceAttributes.fieldSelector.requirements[0].values"},
		`{"user":"a","resourceAttributes":{"fieldSelector":{"requirements":[{"key":"a=b","operator":"In","values":["a"]}]}}}`:                                                    {"spec.resourceAttributes.fieldSelector.requirements"},
		`{"user":"a","resourceAttributes":{"fieldSelector":{"requirements":[` + strings.Repeat(`{"key":"a","operator":"Exists"},`, 1000) + `{"key":"a","operator":"Exists"}]}}}`: {"spec.resourceAttributes.fieldSelector.requirements"},
	} {
		h.refused("POST", authorizing+"subjectaccessreviews", `{"spec":`+spec+`}`, fields...)
	}
	h.must(201, "POST", authorizing+"subjectaccessreviews", `{"metadata":{"namespace":"x"},"spec":{"user":"a","resourceAttributes":{}}}`)
	h.must(400, "POST", authorizing+"subjectaccessreviews", `{"metadata":[],"spec":{"user":"a","resourceAttributes":{}}}`)
}

// The reasons and the texts are those of Kubernetes, whose clients look at them.
func TestREVIEW_01_WhatIsWrongIsSaidAsByKubernetes(t *testing.T) {
	h := serve(t, memory.New(), nil, kindwright.Authorize(byRules))
	const one, fields, labels = "exactly one of nonResourceAttributes or resourceAttributes must be specified", "spec.resourceAttributes.fieldSelector.", "spec.resourceAttributes.labelSelector."
	const none, some = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'", "must be specified when `operator` is 'In' or 'NotIn'"
	selecting := func(s string) string { return `{"user":"a","resourceAttributes":{` + s + `}}` }
	for spec, want := range map[string]string{
		`{"user":"a"}`:                          "spec.resourceAttributes: Invalid value: null: " + one,
		`{"resourceAttributes":{"verb":"get"}}`: `spec.user: Invalid value: "": at least one of user or group must be specified`,
		`{"user":"a","resourceAttributes":{},"nonResourceAttributes":{}}`:                                           "spec.nonResourceAttributes: Invalid value: {}: cannot be specified in combination with resourceAttributes",
		selecting(`"fieldSelector":{"rawSelector":"a=b","requirements":[{"key":"a","operator":"Exists"}]}`):         fields + `rawSelector: Invalid value: "a=b": may not specified at the same time as requirements`,
		selecting(`"fieldSelector":{"requirements":[{"key":"a","operator":"Exists","values":["b"]}]}`):              fields + "requirements[0].values: Forbidden: " + none,
		selecting(`"labelSelector":{"requirements":[{"key":"a","operator":"Exists","values":["b"]}]}`):              labels + "requirements[0].values: Forbidden: " + none,
		selecting(`"labelSelector":{"requirements":[{"key":"a","operator":"Exists"},{"key":"a","operator":"In"}]}`): labels + "requirements[1].values: Required value: " + some,
		selecting(`"fieldSelector":{"requirements":[{"key":"","operator":"Exists"}]}`):                              fields + "requirements[0].key: Required value: must be specified",
	} {
		out := h.must(422, "POST", authorizing+"subjectaccessreviews", `{"spec":`+spec+`}`)
		require.Equal(t, `SubjectAccessReview.authorization.k8s.io "" is invalid: `+want, out["message"])
	}
	h.refused("POST", authorizing+"subjectaccessreviews",
		`{"spec":`+selecting(`"labelSelector":{"requirements":[{"key":"a b","operator":"Near"},{"key":"a","operator":"In","values":["b","c d"]}]}`)+`}`,
		labels+"requirements[0].key", labels+"requirements[1].values[1]")
	h.must(201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"n"}}`)
	out := h.must(422, "POST", authorizing+"namespaces/n/localsubjectaccessreviews", `{"spec":{"user":"a","nonResourceAttributes":{"path":"/x"}}}`)
	require.Contains(t, out["message"], `spec.nonResourceAttributes: Invalid value: {"path":"/x"}: disallowed on this kind of request`)
}

// What a server says of an object may be in a review that is sent again, and is forgotten.
func TestREVIEW_01_SystemFieldsAreForgotten(t *testing.T) {
	h := serve(t, memory.New(), nil, kindwright.Authorize(byRules))
	const metadata = `"metadata":{"uid":"x","selfLink":"/x","creationTimestamp":"2020-01-01T00:00:00Z","deletionTimestamp":"2020-01-01T00:00:00Z","deletionGracePeriodSeconds":5}`
	for path, spec := range map[string]string{
		authorizing + "subjectaccessreviews":     `{"user":"a","resourceAttributes":{}}`,
		authorizing + "selfsubjectaccessreviews": `{"resourceAttributes":{}}`,
		authorizing + "selfsubjectrulesreviews":  `{"namespace":"n"}`,
		tokenReviews:                             `{"token":"x"}`,
	} {
		out := h.must(201, "POST", path, `{`+metadata+`,"spec":`+spec+`}`)
		require.Empty(t, out["metadata"], path)
	}
	out := h.must(201, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{"metadata":{"name":"x","labels":{"a":"b"},"creationTimestamp":"2020-01-01T00:00:00Z"}}`)
	require.Len(t, out["metadata"], 1)
	require.NotEqual(t, "2020-01-01T00:00:00Z", at(out, "metadata", "creationTimestamp"))
}

// A newer client may know operators that this server does not know. Its question is answered without
// them, which asks for more rights and never allows too much, and the answer says so.
func TestREVIEW_01_SelectorsThatCannotBeReadAreLeftOut(t *testing.T) {
	var seen authz.Attributes
	h := serve(t, memory.New(), nil, kindwright.Authorize(authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		seen = a
		return authz.Allow, "", nil
	})))
	const fields, labels = "spec.resourceAttributes.fieldSelector", "spec.resourceAttributes.labelSelector"
	const all, part = " ignored due to parse error", " partially ignored due to parse error"
	for selectors, want := range map[string]struct {
		text         string
		label, field int // requirements that are left
	}{
		`"labelSelector":{"rawSelector":"(("}`:                                                                                {labels + all, 0, 0},
		`"fieldSelector":{"rawSelector":"a"}`:                                                                                 {fields + all, 0, 0},
		`"labelSelector":{"requirements":[{"key":"a","operator":"Near"}]}`:                                                    {labels + all, 0, 0},
		`"labelSelector":{"requirements":[{"key":"a","operator":"Near"},{"key":"b","operator":"Exists"}]}`:                    {labels + part, 1, 0},
		`"fieldSelector":{"requirements":[{"key":"a","operator":"Near"}]}`:                                                    {fields + all, 0, 0},
		`"fieldSelector":{"requirements":[{"key":"a","operator":"Exists"}]}`:                                                  {fields + all, 0, 0},
		`"fieldSelector":{"requirements":[{"key":"a","operator":"In","values":["b"]},{"key":"b","operator":"Near"}]}`:         {fields + part, 0, 1},
		`"fieldSelector":{"rawSelector":"a"},"labelSelector":{"rawSelector":"!!"}`:                                            {fields + all + "; " + labels + all, 0, 0},
		`"fieldSelector":{"rawSelector":"a=b"},"labelSelector":{"requirements":[{"key":"a","operator":"In","values":["b"]}]}`: {"", 1, 1},
	} {
		for kind, user := range map[string]string{"subjectaccessreviews": `"user":"a",`, "selfsubjectaccessreviews": "", "namespaces/x/localsubjectaccessreviews": `"user":"a",`} {
			seen = authz.Attributes{}
			out := h.must(201, "POST", authorizing+kind,
				`{"spec":{`+user+`"resourceAttributes":{"verb":"list","resource":"pods","namespace":"x",`+selectors+`}}}`, "X-User", "a", "X-Groups", "")
			require.Equal(t, "list", seen.Verb, "the authorizer has been asked the question")
			wanted := map[string]any{"allowed": true}
			if want.text != "" {
				wanted["evaluationError"] = want.text
			}
			require.Equal(t, wanted, out["status"], selectors)
			require.Len(t, seen.Labels.Requirements(), want.label, selectors)
			require.Len(t, seen.Fields.Requirements(), want.field, selectors)
		}
	}
}

func TestREVIEW_02_LocalSubjectAccessReview(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := serve(t, b, nil, kindwright.Authorize(byRules))
		const path = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews"
		ask := func(namespace string) string {
			return fmt.Sprintf(`{"spec":{"user":"alice","resourceAttributes":{"verb":"get","resource":"pods","namespace":%q}}}`, namespace)
		}
		out := h.must(201, "POST", path, ask("default"))
		require.Equal(t, map[string]any{"allowed": true, "reason": "alice may look"}, out["status"])
		require.Equal(t, "default", at(out, "metadata", "namespace"))
		h.refused("POST", path, ask("other"), "spec.resourceAttributes.namespace")
		h.refused("POST", path, ask(""), "spec.resourceAttributes.namespace")
		h.refused("POST", path, `{"spec":{"user":"alice","nonResourceAttributes":{"path":"/","verb":"get"}}}`, "spec.nonResourceAttributes")
		h.refused("POST", path, `{"spec":{}}`, "spec.resourceAttributes", "spec.user")
		h.must(400, "POST", path, `{"metadata":{"namespace":"other"},`+ask("other")[1:])
		h.must(405, "POST", authorizing+"localsubjectaccessreviews", ask("default"))
	})
}

func TestREVIEW_03_SelfSubjectAccessReview(t *testing.T) {
	h := serve(t, memory.New(), nil, kindwright.Authorize(byRules, authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.Verb == "create" && strings.HasSuffix(a.Resource, "reviews") {
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "", nil
	})))
	for user, want := range map[string]bool{"alice": true, "bob": false} {
		out := h.must(201, "POST", authorizing+"selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`, "X-User", user, "X-Groups", "")
		require.Equal(t, want, at(out, "status", "allowed"), user)
	}
}

func TestREVIEW_04_SelfSubjectRulesReview(t *testing.T) {
	const path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
	const body = `{"spec":{"namespace":"default"},"status":{"resourceRules":null,"nonResourceRules":null,"incomplete":false}}` // as client-go sends it
	all := []any{map[string]any{"verbs": []any{"*"}, "apiGroups": []any{"*"}, "resources": []any{"*"}}}
	allPaths := map[string]any{"verbs": []any{"*"}, "nonResourceURLs": []any{"*"}}
	health := map[string]any{"verbs": []any{"get"}, "nonResourceURLs": []any{"/healthz", "/livez", "/readyz"}}

	h := serve(t, memory.New(), nil, kindwright.Authorize(authz.AlwaysAllow()))
	out := h.must(201, "POST", path, body, "X-Groups", "")
	require.Equal(t, map[string]any{"resourceRules": all, "nonResourceRules": []any{health, allPaths}, "incomplete": false}, out["status"])
	for _, body := range []string{`{}`, `{"spec":{}}`, `{"spec":{"namespace":""}}`} {
		require.Contains(t, h.must(400, "POST", path, body)["message"], "namespace")
	}
	h.refused("POST", path, `{"spec":{"namespace":[]}}`, "spec.namespace")

	h = serve(t, memory.New(), nil)
	out = h.must(201, "POST", path, body)
	require.Equal(t, map[string]any{"resourceRules": all, "nonResourceRules": []any{allPaths}, "incomplete": false}, out["status"], "system:masters")

	h = serve(t, memory.New(), nil, kindwright.Authorize(authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) {
		return authz.Allow, "", nil
	})))
	out = h.must(201, "POST", path, body, "X-Groups", "")
	require.Equal(t, map[string]any{
		"resourceRules": []any{}, "nonResourceRules": []any{health}, "incomplete": true,
		"evaluationError": "an authorizer of the server cannot list what it allows",
	}, out["status"])
}

func TestREVIEW_05_SelfSubjectReview(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := serve(t, b, nil, kindwright.Authenticate(byToken), kindwright.Authorize(authz.AlwaysAllow()))
		out := h.must(201, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{}`, "X-User", "", "Authorization", "Bearer alice-secret")
		require.Equal(t, map[string]any{"username": "alice", "uid": "7", "groups": []any{"dev", "system:authenticated"}, "extra": map[string]any{"k": []any{"v"}}}, at(out, "status", "userInfo"))
		out = h.must(201, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"userInfo":{"username":"root"}}}`, "X-User", "")
		require.Equal(t, map[string]any{"username": "system:anonymous", "groups": []any{"system:unauthenticated"}}, at(out, "status", "userInfo"))
	})
}

func TestMODEL_21_ReviewsAreNeverStored(t *testing.T) {
	b := memory.New()
	h := serve(t, b, nil)
	before, err := b.Revision(t.Context())
	require.NoError(t, err)
	h.must(201, "POST", authorizing+"selfsubjectrulesreviews", `{"spec":{"namespace":"default"}}`)
	h.must(201, "POST", authorizing+"subjectaccessreviews", `{"spec":{"user":"a","resourceAttributes":{"verb":"get"}}}`)
	h.must(201, "POST", tokenReviews, `{"spec":{"token":"x"}}`)
	after, err := b.Revision(t.Context())
	require.NoError(t, err)
	require.Equal(t, before, after)
	for _, r := range []string{"subjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"} {
		out := h.must(405, "GET", authorizing+r, "")
		require.Equal(t, string(meta.ReasonMethodNotAllowed), out["reason"])
	}
}

func TestReviewsNeedAnAuthenticatorAndAnAuthorizer(t *testing.T) {
	_, err := kinds.TokenReviews().Define(registry.Env{GroupDomain: "k8s.io"})
	require.ErrorContains(t, err, "tokenreviews")
}
