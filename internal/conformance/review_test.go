package conformance

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
)

const (
	authorizationPath  = "/apis/authorization.k8s.io/v1"
	authenticationPath = "/apis/authentication.k8s.io/v1"
)

// houseRules allows members of the group ops everything but "crash", alice to see pods in default
// with label team=a or name x, and everyone to create reviews. Deleting pods is denied.
var houseRules = authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
	switch {
	case a.Verb == "delete" && a.Resource == "pods":
		return authz.Deny, "never", nil
	case a.Verb == "create" && strings.HasSuffix(a.Resource, "reviews"):
		return authz.Allow, "", nil
	case slices.Contains(a.User.Groups, "ops"):
		return authz.Allow, "ops", nil
	case a.User.Name == "alice" && a.Verb == "get" && a.Resource == "pods" && a.Subresource == "log" && a.Group == "g" && a.Version == "v1" && a.Namespace == "default" && a.Name == "x":
		return authz.Allow, "alice may look", nil
	case a.User.Name == "alice" && a.Verb == "list" && a.Labels.String() == "team=a" && a.Fields.String() == "metadata.name=x":
		return authz.Allow, "", nil
	case a.User.UID == "7" && slices.Equal(a.User.Extra["scopes"], []string{"s1", "s2"}) && !a.ResourceRequest && a.Path == "/metrics" && a.Verb == "get":
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "", nil
})

// asked returns the status of a review.
func (s *server) asked(path, spec string, headers ...string) map[string]any {
	s.t.Helper()
	a := s.do("POST", path, `{"spec":{`+spec+`},"status":{"allowed":true,"authenticated":true,"reason":"I say so"}}`, headers...).is(201)
	state, ok := a.at("status").(map[string]any)
	require.True(s.t, ok, "%s", a)
	return state
}

func TestREVIEW_01_SubjectAccessReview(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		const path = authorizationPath + "/subjectaccessreviews"
		const whole = `"resourceAttributes":{"namespace":"default","verb":"get","group":"g","version":"v1","resource":"pods","subresource":"log","name":"x"}`
		for spec, want := range map[string]map[string]any{
			`"user":"alice",` + whole:   {"allowed": true, "reason": "alice may look"},
			`"user":"bob",` + whole:     {"allowed": false},
			`"groups":["ops"],` + whole: {"allowed": true, "reason": "ops"},
			`"user":"alice","resourceAttributes":{"verb":"delete","resource":"pods"}`:                                                                                                                                                        {"allowed": false, "denied": true, "reason": "never"},
			`"user":"u","uid":"7","extra":{"scopes":["s1","s2"]},"nonResourceAttributes":{"path":"/metrics","verb":"get"}`:                                                                                                                   {"allowed": true},
			`"user":"u","uid":"8","extra":{"scopes":["s1","s2"]},"nonResourceAttributes":{"path":"/metrics","verb":"get"}`:                                                                                                                   {"allowed": false},
			`"user":"alice","resourceAttributes":{"verb":"list","labelSelector":{"rawSelector":"team=a"},"fieldSelector":{"rawSelector":"metadata.name=x"}}`:                                                                                 {"allowed": true},
			`"user":"alice","resourceAttributes":{"verb":"list","labelSelector":{"requirements":[{"key":"team","operator":"In","values":["a"]}]},"fieldSelector":{"requirements":[{"key":"metadata.name","operator":"In","values":["x"]}]}}`: {"allowed": true},
		} {
			require.Equal(t, want, s.asked(path, spec), spec)
		}
		for spec, field := range map[string]string{
			`"user":"a"`: "spec.resourceAttributes",
			`"user":"a","resourceAttributes":{"verb":"get"},"nonResourceAttributes":{"path":"/"}`: "spec.nonResourceAttributes",
			whole: "spec.user",
		} {
			s.do("POST", path, `{"spec":{`+spec+`}}`).refused(422, "Invalid", field)
		}
		s.do("POST", path, `{"metadata":{"name":"x"},"spec":{"user":"a",`+whole+`}}`).refused(422, "Invalid", "metadata").because("FieldValueInvalid", "metadata", "must be empty")
		s.do("POST", path, `{"metadata":{"creationTimestamp":null},"spec":{"user":"a",`+whole+`}}`).is(201)
		// Reviews are not stored, and only POST is allowed.
		s.get(path).refused(405, "MethodNotAllowed", "")
		s.get(path+"/x").refused(404, "NotFound", "")
		s.do("DELETE", path, "").refused(405, "MethodNotAllowed", "")
	}, kindwright.Authorize(houseRules))
}

func TestREVIEW_02_LocalSubjectAccessReview(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		const path = authorizationPath + "/namespaces/default/localsubjectaccessreviews"
		ask := func(namespace string) string {
			return fmt.Sprintf(`"groups":["ops"],"resourceAttributes":{"verb":"get","resource":"pods","namespace":%q}`, namespace)
		}
		require.Equal(t, map[string]any{"allowed": true, "reason": "ops"}, s.asked(path, ask("default")))
		for _, other := range []string{"", "other"} {
			s.do("POST", path, `{"spec":{`+ask(other)+`}}`).refused(422, "Invalid", "").because("FieldValueInvalid", "spec.resourceAttributes.namespace", "")
		}
		s.do("POST", path, `{"spec":{"user":"a","nonResourceAttributes":{"path":"/"}}}`).refused(422, "Invalid", "spec.nonResourceAttributes")
		s.do("POST", path, `{"metadata":{"namespace":"other"},"spec":{`+ask("other")+`}}`).refused(400, "BadRequest", "namespace")
		s.do("POST", path, `{"metadata":{"namespace":"default","labels":{"a":"b"}},"spec":{`+ask("default")+`}}`).refused(422, "Invalid", "metadata")
		s.do("POST", authorizationPath+"/localsubjectaccessreviews", `{"spec":{`+ask("default")+`}}`).refused(405, "MethodNotAllowed", "")
		s.do("POST", authorizationPath+"/namespaces/default/subjectaccessreviews", `{"spec":{`+ask("default")+`}}`).is(404)
	}, kindwright.Authorize(houseRules))
}

func TestREVIEW_03_SelfSubjectAccessReview(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		const path, pods = authorizationPath + "/selfsubjectaccessreviews", `"resourceAttributes":{"verb":"get","resource":"pods"}`
		require.Equal(t, map[string]any{"allowed": true, "reason": "ops"}, s.asked(path, pods, "X-User", "carol", "X-Groups", "ops"))
		require.Equal(t, map[string]any{"allowed": false}, s.asked(path, pods, "X-User", "bob", "X-Groups", ""))
		// The review is about the caller, whatever its spec says.
		require.Equal(t, map[string]any{"allowed": false}, s.asked(path, `"groups":["ops"],"user":"carol",`+pods, "X-User", "bob", "X-Groups", ""))
		s.do("POST", path, `{"spec":{}}`).refused(422, "Invalid", "spec.resourceAttributes")
		s.do("POST", path, `{"metadata":{"name":"x"},"spec":{`+pods+`}}`).refused(422, "Invalid", "metadata")
	}, kindwright.Authorize(houseRules))
}

func TestREVIEW_04_SelfSubjectRulesReview(t *testing.T) {
	const path = authorizationPath + "/selfsubjectrulesreviews"
	onEach(t, func(t *testing.T, s *server) {
		all := s.asked(path, `"namespace":"default"`)
		require.Equal(t, []any{map[string]any{"verbs": []any{"*"}, "apiGroups": []any{"*"}, "resources": []any{"*"}}}, all["resourceRules"], "system:masters")
		require.Equal(t, []any{map[string]any{"verbs": []any{"*"}, "nonResourceURLs": []any{"*"}}}, all["nonResourceRules"])
		require.Equal(t, false, all["incomplete"])
		some := s.asked(path, `"namespace":"default"`, "X-User", "bob", "X-Groups", "")
		require.Equal(t, true, some["incomplete"], "an authorizer that is a function cannot list what it allows")
		require.NotEmpty(t, some["evaluationError"])
		require.Equal(t, []any{}, some["resourceRules"], "a list, not null")
		s.do("POST", path, `{"spec":{}}`).refused(400, "BadRequest", "no namespace on request")
	}, kindwright.Authorize(houseRules))
}

func TestREVIEW_05_SelfSubjectReview(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		const path = authenticationPath + "/selfsubjectreviews"
		a := s.do("POST", path, `{"status":{"userInfo":{"username":"root"}}}`, "X-User", "alice", "X-Groups", "dev").is(201)
		require.Equal(t, map[string]any{"username": "alice", "groups": []any{"dev", "system:authenticated"}}, a.at("status", "userInfo"))
		require.Equal(t, "SelfSubjectReview", a.at("kind"))
		require.Equal(t, "authentication.k8s.io/v1", a.at("apiVersion"))
		a = s.do("POST", path, `{}`, "X-User", "").is(201)
		require.Equal(t, map[string]any{"username": "system:anonymous", "groups": []any{"system:unauthenticated"}}, a.at("status", "userInfo"))
	}, kindwright.Authorize(houseRules))
}

func TestREVIEW_06_TokenReview(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		const path = authenticationPath + "/tokenreviews"
		s.do("POST", path, `{"spec":{}}`).refused(400, "BadRequest", "token is required")
		s.do("POST", path, `{"spec":{"token":""}}`).refused(400, "BadRequest", "token is required")
		// The caller's own credentials do not affect the review of the token.
		unknown := s.asked(path, `"token":"unknown","audiences":["a"]`)
		require.Empty(t, unknown["user"])
		require.NotContains(t, unknown, "authenticated")
		require.Equal(t, map[string]any{
			"authenticated": true, "user": map[string]any{"username": "alice", "uid": "7", "groups": []any{"dev", "system:authenticated"}, "extra": map[string]any{"k": []any{"v"}}},
		}, s.asked(path, `"token":"alice-secret"`))
		require.Equal(t, []any{"shop"}, s.asked(path, `"token":"shop-secret","audiences":["shop","bank"]`)["audiences"])
		require.NotContains(t, s.asked(path, `"token":"shop-secret","audiences":["bank"]`), "authenticated")
		s.do("POST", path, `{"spec":{"token":7}}`).refused(422, "Invalid", "spec.token")
		// The review names the same user as a request with that token.
		require.Equal(t, "alice", s.do("POST", authenticationPath+"/selfsubjectreviews", `{}`, "X-User", "", "Authorization", "Bearer alice-secret").is(201).at("status", "userInfo", "username"))
	}, kindwright.Authenticate(bySecret), kindwright.Authorize(houseRules))
}

// bySecret knows two tokens, one of them only for a shop.
var bySecret = authn.Func(func(r *http.Request) (authn.User, bool, error) {
	token, ok, err := authn.BearerToken(r)
	switch {
	case err != nil || !ok:
		return authn.User{}, false, err
	case token == "alice-secret":
		return authn.User{Name: "alice", UID: "7", Groups: []string{"dev"}, Extra: map[string][]string{"k": {"v"}}}, true, nil
	case token == "shop-secret":
		u := authn.User{Name: "customer"}
		if asked, ok := authn.AudiencesFrom(r.Context()); ok && slices.Contains(asked, "shop") {
			u.Audiences = []string{"shop"}
		}
		return u, true, nil
	}
	return authn.User{}, false, nil
})

// The older forms of webhooks are not served. In the current one, groups are called groups.
func TestREVIEW_07_OlderForms(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		const body = `{"spec":{"group":["ops"],"resourceAttributes":{"verb":"get"}}}`
		s.do("POST", "/apis/authorization.k8s.io/v1beta1/subjectaccessreviews", body).is(404)
		s.do("POST", "/apis/authentication.k8s.io/v1beta1/tokenreviews", `{"spec":{"token":"x"}}`).is(404)
		a := s.do("POST", authorizationPath+"/subjectaccessreviews", body)
		a.refused(422, "Invalid", "spec.user")
		s.do("POST", authorizationPath+"/subjectaccessreviews?fieldValidation=Strict", body).refused(400, "BadRequest", `unknown field "spec.group"`)
		require.Equal(t, true, s.asked(authorizationPath+"/subjectaccessreviews", `"groups":["system:masters"],"resourceAttributes":{"verb":"get"}`)["allowed"])
	})
}
