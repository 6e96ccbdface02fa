package kinds_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authz/rbac"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
)

var revocations = flag.Int("revocations", 50, "how often a right is revoked on a busy server")

const (
	rbacPath            = "/apis/rbac.authorization.k8s.io/v1/"
	clusterRolesPath    = rbacPath + "clusterroles"
	clusterBindingsPath = rbacPath + "clusterrolebindings"
	rolesPath           = rbacPath + "namespaces/default/roles"
	bindingsPath        = rbacPath + "namespaces/default/rolebindings"
)

// serveRBAC serves config maps and secrets to those whom roles allow it.
func serveRBAC(t *testing.T, b storage.Backend) *host {
	t.Helper()
	return serve(t, b, nil, kindwright.Serve(kinds.RBAC(), kinds.ConfigMaps(), kinds.Secrets()), kindwright.Authorize(rbac.New("")))
}

// as names the user of a request.
func as(user string) []string { return []string{"X-User", user, "X-Groups", "system:authenticated"} }

func patched(user string) []string {
	return append(as(user), "Content-Type", "application/merge-patch+json")
}

// userBinding is a binding of a role to one user.
func userBinding(name, kind, role, user string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"roleRef":{"kind":%q,"name":%q},"subjects":[{"kind":"User","name":%q}]}`, name, kind, role, user)
}

// RBAC-01, AUTHZ-10, AUTHZ-12: the four kinds are served, and what they grant counts at once.
func TestRBAC_01_Kinds(t *testing.T) {
	h := serveRBAC(t, memory.New())
	role := `{"metadata":{"name":"reader"},"rules":[{"verbs":["get","list"],"apiGroups":[""],"resources":["configmaps"]}]}`
	h.must(403, "GET", configMapsPath, "", as("ann")...)
	for _, path := range []string{clusterRolesPath, rolesPath} {
		h.must(201, "POST", path, role)
		h.must(409, "POST", path, role)
		h.must(200, "GET", path+"/reader", "")
		h.must(200, "GET", path, "")
	}
	out := h.must(201, "POST", bindingsPath, userBinding("b", "Role", "reader", "ann"))
	require.Equal(t, "rbac.authorization.k8s.io", at(out, "roleRef", "apiGroup"))
	require.Nil(t, at(out, "metadata", "generation"))
	h.must(200, "GET", configMapsPath, "", as("ann")...)
	h.must(403, "GET", "/api/v1/configmaps", "", as("ann")...)
	h.must(403, "GET", "/api/v1/namespaces/kube-system/configmaps", "", as("ann")...)
	h.must(201, "POST", clusterBindingsPath, userBinding("b", "ClusterRole", "reader", "ann"))
	h.must(200, "GET", "/api/v1/configmaps", "", as("ann")...)
	no := h.must(403, "POST", configMapsPath+"?dryRun=All", `{"metadata":{"name":"a"}}`, as("ann")...)
	require.Equal(t, `configmaps is forbidden: User "ann" cannot create resource "configmaps" in API group "" in the namespace "default"`, no["message"])
	h.must(200, "DELETE", clusterBindingsPath+"/b", "")
	h.must(403, "GET", "/api/v1/configmaps", "", as("ann")...)
	h.must(200, "GET", configMapsPath, "", as("ann")...)

	review := h.must(201, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{"namespace":"default","verb":"get","resource":"configmaps"}}}`, as("ann")...)
	require.Equal(t, `RBAC: allowed by RoleBinding "b/default" of Role "reader" to User "ann"`, at(review, "status", "reason"))
	rules := h.must(201, "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", `{"spec":{"namespace":"default"}}`, as("ann")...)
	require.Contains(t, fmt.Sprint(at(rules, "status", "resourceRules")), "configmaps")
	require.Equal(t, false, at(rules, "status", "incomplete"))
	h.must(200, "DELETE", rolesPath+"/reader", "")
	no = h.must(403, "GET", configMapsPath, "", as("ann")...)
	require.Contains(t, no["message"], `: RBAC: role.rbac.authorization.k8s.io "reader" not found`)
}

// RBAC-06: nobody grants what they do not have, in any way of writing.
func TestRBAC_06_Z5_Z6_Escalation(t *testing.T) {
	h := serveRBAC(t, memory.New())
	h.must(201, "POST", clusterRolesPath, `{"metadata":{"name":"keeper"},"rules":[
		{"verbs":["get","create","update","patch","delete"],"apiGroups":["rbac.authorization.k8s.io"],"resources":["roles","rolebindings","clusterroles","clusterrolebindings"]},
		{"verbs":["get","list"],"apiGroups":[""],"resources":["configmaps"]},
		{"verbs":["get"],"apiGroups":[""],"resources":["secrets"],"resourceNames":["mine"]}]}`)
	h.must(201, "POST", clusterRolesPath, `{"metadata":{"name":"secrets"},"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["secrets"]}]}`)
	h.must(201, "POST", clusterBindingsPath, userBinding("keeper", "ClusterRole", "keeper", "kim"))
	kim, patch := as("kim"), patched("kim")
	own := `{"metadata":{"name":"own"},"rules":[{"verbs":["get","list"],"apiGroups":[""],"resources":["configmaps"]}]}`
	more := `{"metadata":{"name":"own"},"rules":[{"verbs":["get","list","watch"],"apiGroups":[""],"resources":["configmaps"]}]}`
	for path, kind := range map[string]string{clusterRolesPath: "ClusterRole", rolesPath: "Role"} {
		for _, query := range []string{"", "?dryRun=All"} {
			no := h.must(403, "POST", path+query, more, kim...)
			require.Contains(t, no["message"], `user "kim" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:`)
			require.Contains(t, no["message"], `{APIGroups:[""], Resources:["configmaps"], Verbs:["watch"]}`)
			h.must(403, "PUT", path+"/own"+query, more, kim...)
			applied := strings.Replace(more, "{", fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":%q,`, kind), 1)
			h.must(403, "PATCH", path+"/own?fieldManager=m"+strings.Replace(query, "?", "&", 1), applied, append(as("kim"), "Content-Type", "application/apply-patch+yaml")...)
		}
		h.must(201, "POST", path, own, kim...)
		h.must(403, "PUT", path+"/own", more, kim...)
		h.must(403, "PATCH", path+"/own", `{"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["secrets"]}]}`, patch...)
		h.must(403, "PATCH", path+"/own", `{"rules":[{"verbs":["*"],"apiGroups":[""],"resources":["configmaps"]}]}`, patch...)
		h.must(200, "PATCH", path+"/own", `{"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["secrets"],"resourceNames":["mine"]}]}`, patch...)
	}
	for _, path := range []string{clusterBindingsPath, bindingsPath} {
		no := h.must(403, "POST", path, userBinding("x", "ClusterRole", "secrets", "kim"), kim...)
		require.Contains(t, no["message"], `{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`)
		h.must(404, "POST", path, userBinding("x", "ClusterRole", "absent", "kim"), kim...)
		h.must(201, "POST", path, userBinding("x", "ClusterRole", "own", "lee"), kim...)
	}
	h.must(201, "POST", bindingsPath, userBinding("y", "Role", "own", "lee"), kim...)

	// The garbage collector's fields may change whatever the role holds; labels may not.
	h.must(200, "PATCH", clusterRolesPath+"/secrets", `{"metadata":{"finalizers":["example.com/x"]}}`, patch...)
	h.must(403, "PATCH", clusterRolesPath+"/secrets", `{"metadata":{"labels":{"a":"b"}}}`, patch...)
	h.must(200, "PATCH", clusterRolesPath+"/secrets", `{"metadata":{"finalizers":null}}`, patch...)

	// The verbs escalate and bind do without.
	h.must(201, "POST", clusterRolesPath, `{"metadata":{"name":"free"},"rules":[
		{"verbs":["escalate"],"apiGroups":["rbac.authorization.k8s.io"],"resources":["roles"],"resourceNames":["own"]},
		{"verbs":["bind"],"apiGroups":["rbac.authorization.k8s.io"],"resources":["clusterroles"],"resourceNames":["secrets"]}]}`)
	h.must(201, "POST", bindingsPath, userBinding("free", "ClusterRole", "free", "kim"))
	h.must(200, "PUT", rolesPath+"/own", more, kim...)
	h.must(403, "PUT", clusterRolesPath+"/own", more, kim...)
	h.must(403, "POST", rolesPath, strings.Replace(more, `"own"`, `"other"`, 1), kim...)
	h.must(200, "DELETE", rolesPath+"/own", "")
	h.must(403, "POST", rolesPath, more, kim...)
	h.must(201, "PUT", rolesPath+"/own", more, kim...)
	h.must(200, "DELETE", rolesPath+"/own", "")
	applied := strings.Replace(more, "{", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role",`, 1)
	apply := append(as("kim"), "Content-Type", "application/apply-patch+yaml")
	h.must(403, "PATCH", rolesPath+"/other?fieldManager=m", strings.Replace(applied, `"own"`, `"other"`, 1), apply...)
	h.must(201, "PATCH", rolesPath+"/own?fieldManager=m", applied, apply...)
	h.must(201, "POST", bindingsPath, userBinding("z", "ClusterRole", "secrets", "kim"), kim...)
	h.must(403, "POST", clusterBindingsPath, userBinding("z", "ClusterRole", "secrets", "kim"), kim...)
	h.must(403, "POST", bindingsPath, userBinding("z2", "ClusterRole", "cluster-admin", "kim"), kim...)
}

// RBAC-06: a binding to a role that is not there yet is refused in the words of Kubernetes, by which Flux tells
// what to apply again after the role.
func TestRBAC_06_BindingsToRolesThatAreNotThere(t *testing.T) {
	h := serveRBAC(t, memory.New())
	h.must(201, "POST", clusterRolesPath, `{"metadata":{"name":"keeper"},"rules":[
		{"verbs":["create","update","patch"],"apiGroups":["rbac.authorization.k8s.io"],"resources":["rolebindings","clusterrolebindings"]}]}`)
	h.must(201, "POST", clusterBindingsPath, userBinding("keeper", "ClusterRole", "keeper", "kim"))
	for _, c := range []struct{ path, resource, kind string }{
		{bindingsPath, "rolebindings", "Role"},
		{bindingsPath, "rolebindings", "ClusterRole"},
		{clusterBindingsPath, "clusterrolebindings", "ClusterRole"},
	} {
		no := h.must(404, "POST", c.path, userBinding("x", c.kind, "absent", "lee"), as("kim")...)
		require.Equal(t, c.resource+`.rbac.authorization.k8s.io "absent" not found`, no["message"])
		require.Equal(t, map[string]any{"group": "rbac.authorization.k8s.io", "kind": c.resource, "name": "absent"}, no["details"])
		h.must(201, "POST", c.path, userBinding("early", c.kind, "absent", "lee"))
		no = h.must(404, "PATCH", c.path+"/early", `{"subjects":null}`, patched("kim")...)
		require.Equal(t, c.resource+`.rbac.authorization.k8s.io "absent" not found`, no["message"])
		h.must(200, "DELETE", c.path+"/early", "")
	}
}

// RBAC-07 and the validation of the kinds, in the words of Kubernetes.
func TestRBAC_07_Validation(t *testing.T) {
	h := serveRBAC(t, memory.New())
	h.must(201, "POST", bindingsPath, userBinding("b", "ClusterRole", "view", "ann"))
	no := h.must(422, "PUT", bindingsPath+"/b", userBinding("b", "ClusterRole", "edit", "ann"))
	require.Contains(t, no["message"], "cannot change roleRef")
	h.must(200, "PUT", bindingsPath+"/b", userBinding("b", "ClusterRole", "view", "bob"))
	h.must(201, "PUT", bindingsPath+"/new", userBinding("new", "ClusterRole", "view", "bob"))
	for _, c := range []struct{ path, body, field string }{
		{rolesPath, `{"metadata":{"name":"x"},"rules":[{"apiGroups":[""],"resources":["a"]}]}`, "rules[0].verbs"},
		{rolesPath, `{"metadata":{"name":"x"},"rules":[{"verbs":["get"],"resources":["a"]}]}`, "rules[0].apiGroups"},
		{rolesPath, `{"metadata":{"name":"x"},"rules":[{"verbs":["get"],"apiGroups":["a"]}]}`, "rules[0].resources"},
		{rolesPath, `{"metadata":{"name":"x"},"rules":[{"verbs":["get"],"nonResourceURLs":["/a"]}]}`, "rules[0].nonResourceURLs"},
		{clusterRolesPath, `{"metadata":{"name":"x"},"rules":[{"verbs":["get"],"nonResourceURLs":["/a"],"resources":["a"]}]}`, "rules[0].nonResourceURLs"},
		{clusterRolesPath, `{"metadata":{"name":"x"},"aggregationRule":{}}`, "aggregationRule.clusterRoleSelectors"},
		{clusterRolesPath, `{"metadata":{"name":"x"},"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a b":"c"}}]}}`, "aggregationRule.clusterRoleSelectors[0]"},
		{clusterBindingsPath, userBinding("x", "Role", "view", "ann"), "roleRef.kind"},
		{bindingsPath, userBinding("x", "Robot", "view", "ann"), "roleRef.kind"},
		{bindingsPath, userBinding("x", "Role", "", "ann"), "roleRef.name"},
		{bindingsPath, userBinding("x", "Role", "a", ""), "subjects[0].name"},
		{bindingsPath, `{"metadata":{"name":"x"},"roleRef":{"apiGroup":"other","kind":"Role","name":"a"}}`, "roleRef.apiGroup"},
		{bindingsPath, `{"metadata":{"name":"x"},"roleRef":{"kind":"Role","name":"a"},"subjects":[{"kind":"Robot","name":"a"}]}`, "subjects[0].kind"},
		{bindingsPath, `{"metadata":{"name":"x"},"roleRef":{"kind":"Role","name":"a"},"subjects":[{"kind":"User","apiGroup":"x","name":"a"}]}`, "subjects[0].apiGroup"},
		{clusterBindingsPath, `{"metadata":{"name":"x"},"roleRef":{"kind":"ClusterRole","name":"a"},"subjects":[{"kind":"ServiceAccount","name":"a"}]}`, "subjects[0].namespace"},
	} {
		h.refused("POST", c.path, c.body, c.field)
	}
	// Whoever may not grant the role is told the same: nothing is looked up of what cannot be bound.
	h.must(201, "POST", clusterRolesPath, `{"metadata":{"name":"binder"},"rules":[{"verbs":["create"],"apiGroups":["*"],"resources":["rolebindings","clusterrolebindings"]}]}`)
	h.must(201, "POST", clusterBindingsPath, userBinding("binder", "ClusterRole", "binder", "kim"))
	for _, kind := range []string{"Role", "Robot", "clusterrole"} {
		no := h.must(422, "POST", clusterBindingsPath, userBinding("x", kind, "none", "ann"), as("kim")...)
		require.Contains(t, no["message"], "roleRef.kind: Unsupported value")
	}
	h.must(422, "POST", bindingsPath, userBinding("x", "Robot", "none", "ann"), as("kim")...)
	h.must(404, "POST", bindingsPath, userBinding("x", "Role", "none", "ann"), as("kim")...)
	// A right to bind a role of this group is none to bind one of another, so this is a matter of what they have.
	h.must(201, "POST", clusterRolesPath, `{"metadata":{"name":"great"},"rules":[{"verbs":["get"],"apiGroups":["*"],"resources":["*"]}]}`)
	h.must(201, "POST", clusterRolesPath, `{"metadata":{"name":"may-bind"},"rules":[
		{"verbs":["bind"],"apiGroups":["rbac.authorization.k8s.io"],"resources":["clusterroles"],"resourceNames":["great"]}]}`)
	h.must(201, "POST", clusterBindingsPath, userBinding("may-bind", "ClusterRole", "may-bind", "kim"))
	elsewhere := strings.Replace(userBinding("x", "ClusterRole", "great", "ann"), `"kind":"ClusterRole"`, `"apiGroup":"other","kind":"ClusterRole"`, 1)
	for _, path := range []string{bindingsPath, clusterBindingsPath} {
		h.must(201, "POST", path, userBinding("x", "ClusterRole", "great", "ann"), as("kim")...)
		h.must(200, "DELETE", path+"/x", "")
		h.must(403, "POST", path, elsewhere, as("kim")...)
		h.must(422, "POST", path, elsewhere)
	}
	h.must(201, "POST", clusterRolesPath, `{"metadata":{"name":"empty"},"rules":null}`)
	h.must(201, "POST", clusterRolesPath, `{"metadata":{"name":"system:odd:name"}}`)
}

// awaitRules waits until the rules of a ClusterRole mention all words and none of the others.
func (h *host) awaitRules(name string, words, absent []string) {
	h.t.Helper()
	w := httptest.NewRecorder()
	ctx, cancel := context.WithCancel(h.t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.ServeHTTP(&watched{ResponseRecorder: w, told: func(line string) {
			var event struct {
				Type   string
				Object struct{ Rules json.RawMessage }
			}
			if json.Unmarshal([]byte(line), &event) != nil || event.Type == "BOOKMARK" {
				return
			}
			for _, word := range words {
				if !strings.Contains(string(event.Object.Rules), word) {
					return
				}
			}
			for _, word := range absent {
				if strings.Contains(string(event.Object.Rules), word) {
					return
				}
			}
			cancel()
		}}, newRequest(ctx, "GET", clusterRolesPath+"?watch=true&fieldSelector=metadata.name%3D"+name, ""))
	}()
	<-done
}

// watched hands on each line of a watch.
type watched struct {
	*httptest.ResponseRecorder
	told func(line string)
	rest string
}

func (w *watched) Write(b []byte) (int, error) {
	w.rest += string(b)
	for {
		line, rest, ok := strings.Cut(w.rest, "\n")
		if !ok {
			return len(b), nil
		}
		w.rest = rest
		w.told(line)
	}
}

// RBAC-08: an aggregated role is the union of those that it selects, and kept so.
func TestRBAC_08_Aggregation(t *testing.T) {
	h := serveRBAC(t, memory.New())
	h.awaitRules("view", []string{"configmaps"}, []string{"gadgets"})
	h.awaitRules("admin", []string{"configmaps", "secrets", "rolebindings"}, nil)
	h.must(201, "POST", clusterRolesPath, `{"metadata":{"name":"gadgets","labels":{"rbac.authorization.k8s.io/aggregate-to-view":"true"}},"rules":[{"verbs":["get"],"apiGroups":["x"],"resources":["gadgets"]}]}`)
	h.awaitRules("view", []string{"configmaps", "gadgets"}, nil)
	h.must(200, "PATCH", clusterRolesPath+"/gadgets", `{"metadata":{"labels":null}}`, "Content-Type", "application/merge-patch+json")
	h.awaitRules("view", []string{"configmaps"}, []string{"gadgets"})

	// Who sets or changes an aggregationRule needs everything.
	h.must(201, "POST", clusterRolesPath, `{"metadata":{"name":"writer"},"rules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]}`)
	h.must(201, "POST", clusterRolesPath, `{"metadata":{"name":"keeper"},"rules":[{"verbs":["create","update","patch"],"apiGroups":["rbac.authorization.k8s.io"],"resources":["clusterroles"]}]}`)
	h.must(201, "POST", clusterBindingsPath, userBinding("keeper", "ClusterRole", "keeper", "kim"))
	union := `{"metadata":{"name":"union"},"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}}`
	no := h.must(403, "POST", clusterRolesPath, union, as("kim")...)
	require.Contains(t, no["message"], "must have cluster-admin privileges to use the aggregationRule")
	h.must(201, "POST", clusterRolesPath, union)
	h.must(403, "PATCH", clusterRolesPath+"/union", `{"aggregationRule":null}`, patched("kim")...)
	h.must(403, "PATCH", clusterRolesPath+"/union", `{"metadata":{"annotations":{"a":"b"}}}`, patched("kim")...)
}

// RBAC-06, Z6: the rules of an aggregated role are written a moment after its parts, or later while the controller is
// busy or away. Whoever binds the role meanwhile gets what it will hold, so they need that.
func TestRBAC_06_RBAC_08_Z6_ARoleIsBoundWithWhatItWillHold(t *testing.T) {
	away := admission.Plugin{Name: "away", Rules: []admission.Rule{{Groups: []string{"rbac.authorization.k8s.io"}}}, Validator: admission.ValidatorFunc(
		func(_ context.Context, r *admission.Request) error {
			if strings.HasSuffix(r.User.Name, ":clusterrole-aggregation-controller") {
				return errors.New("the controller is away")
			}
			return nil
		})}
	h := serve(t, memory.New(), nil, kindwright.Serve(kinds.RBAC(), kinds.ConfigMaps(), kinds.Secrets()), kindwright.Authorize(rbac.New("")), kindwright.Admit(away))
	const part = `"labels":{"part":"true"}`
	h.must(201, "POST", clusterRolesPath, `{"metadata":{"name":"keeper"},"rules":[
		{"verbs":["create","update","patch"],"apiGroups":["rbac.authorization.k8s.io"],"resources":["rolebindings","clusterrolebindings"]},
		{"verbs":["get"],"apiGroups":[""],"resources":["configmaps"]}]}`)
	h.must(201, "POST", clusterBindingsPath, userBinding("keeper", "ClusterRole", "keeper", "kim"))
	h.must(201, "POST", clusterRolesPath, `{"metadata":{"name":"inner",`+part+`},"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"inner":"true"}},{"matchLabels":{"part":"true"}}]}}`)
	h.must(201, "POST", clusterRolesPath, `{"metadata":{"name":"outer"},"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"part":"true"}}]}}`)
	h.must(201, "POST", clusterRolesPath, `{"metadata":{"name":"first",`+part+`},"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["configmaps"]}]}`)
	kim := as("kim")
	require.Empty(t, h.must(200, "GET", clusterRolesPath+"/outer", "")["rules"], "nobody has written them")
	for i, path := range []string{clusterBindingsPath, bindingsPath} {
		h.must(201, "POST", path, userBinding("before", "ClusterRole", "outer", "lee"), kim...)
		no := h.must(403, "POST", path, userBinding("x", "ClusterRole", "admin", "kim"), kim...)
		require.Contains(t, no["message"], "is attempting to grant RBAC permissions not currently held")
		h.must(201, "POST", clusterRolesPath, fmt.Sprintf(`{"metadata":{"name":"second-%d","labels":{"inner":"true"}},"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["secrets"]}]}`, i))
		no = h.must(403, "POST", path, userBinding("x", "ClusterRole", "outer", "kim"), kim...)
		require.Contains(t, no["message"], `{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`, "a part of a part")
		h.must(403, "PATCH", path+"/before", `{"metadata":{"labels":{"a":"b"}}}`, patched("kim")...)
		h.must(200, "DELETE", fmt.Sprint(clusterRolesPath, "/second-", i), "")
	}
}

// RBAC-09: default roles exist, are repaired at the next start, and respect the annotation.
func TestRBAC_09_Defaults(t *testing.T) {
	db := memory.New()
	h := serveRBAC(t, db)
	for _, name := range []string{"cluster-admin", "admin", "edit", "view", "system:discovery", "system:basic-user", "system:public-info-viewer", "system:monitoring"} {
		out := h.must(200, "GET", clusterRolesPath+"/"+name, "")
		require.Equal(t, "true", at(out, "metadata", "annotations").(map[string]any)[rbac.AutoUpdate], name)
	}
	h.must(200, "GET", "/apis", "", as("ann")...)
	h.must(403, "GET", "/apis", "", "X-User", "", "X-Groups", "")
	h.must(200, "GET", "/version", "", "X-User", "", "X-Groups", "")
	h.must(403, "GET", "/metrics", "", as("ann")...)

	merge := []string{"Content-Type", "application/merge-patch+json"}
	h.must(200, "DELETE", clusterRolesPath+"/system:monitoring", "")
	h.must(200, "PATCH", clusterRolesPath+"/system:basic-user", `{"rules":[{"verbs":["get"],"apiGroups":["x"],"resources":["y"]}]}`, merge...)
	h.must(200, "PATCH", clusterRolesPath+"/system:discovery", `{"rules":[],"metadata":{"annotations":{"`+rbac.AutoUpdate+`":"false"}}}`, merge...)
	h.must(200, "PATCH", clusterBindingsPath+"/system:basic-user", `{"subjects":[{"kind":"User","name":"ann"}]}`, merge...)
	h.must(200, "PATCH", clusterBindingsPath+"/cluster-admin", `{"subjects":null,"metadata":{"annotations":{"`+rbac.AutoUpdate+`":"false"}}}`, merge...)
	h.must(200, "DELETE", clusterBindingsPath+"/system:public-info-viewer", "")
	h.must(200, "PATCH", clusterBindingsPath+"/system:discovery", `{"subjects":[{"kind":"User","name":"zoe"}],"metadata":{"annotations":{"`+rbac.AutoUpdate+`":"false"}}}`, merge...)
	h.must(200, "DELETE", clusterBindingsPath+"/system:monitoring", "")
	h.must(201, "POST", clusterBindingsPath, userBinding("system:monitoring", "ClusterRole", "view", "ann"))

	again := serveRBAC(t, db)
	again.must(200, "GET", clusterRolesPath+"/system:monitoring", "")
	basic := fmt.Sprint(again.must(200, "GET", clusterRolesPath+"/system:basic-user", "")["rules"])
	require.Contains(t, basic, "selfsubjectaccessreviews")
	require.Contains(t, basic, "resources:[y]", "what somebody added stays")
	require.Empty(t, again.must(200, "GET", clusterRolesPath+"/system:discovery", "")["rules"])
	require.Len(t, again.must(200, "GET", clusterBindingsPath+"/system:basic-user", "")["subjects"], 2)
	require.Nil(t, again.must(200, "GET", clusterBindingsPath+"/cluster-admin", "")["subjects"])
	public := again.must(200, "GET", clusterBindingsPath+"/system:public-info-viewer", "")
	require.Contains(t, fmt.Sprint(public["subjects"]), "zoe")
	require.Equal(t, "false", at(public, "metadata", "annotations").(map[string]any)[rbac.AutoUpdate], "it is not repaired later either")
	require.Equal(t, "system:monitoring", at(again.must(200, "GET", clusterBindingsPath+"/system:monitoring", ""), "roleRef", "name"))
}

// A right is gone when its revocation is answered, however it is revoked, and wherever the roles are
// kept: also if the answers go over a socket, on which others may have been read meanwhile.
func TestRevocationCountsAtOnce(t *testing.T) {
	t.Run("in memory", func(t *testing.T) {
		h := serveRBAC(t, memory.New())
		revokes(t, func(r *http.Request) int {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		})
	})
	t.Run("in a file, over a socket", func(t *testing.T) {
		db, err := bbolt.Open(filepath.Join(t.TempDir(), "db"))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		web := httptest.NewServer(serveRBAC(t, db))
		t.Cleanup(web.Close)
		revokes(t, func(r *http.Request) int {
			sent, err := http.NewRequestWithContext(r.Context(), r.Method, web.URL+r.URL.String(), r.Body)
			if err != nil {
				return 0
			}
			sent.Header, sent.ContentLength = r.Header, r.ContentLength
			res, err := web.Client().Do(sent)
			if err != nil {
				return 0
			}
			_, _ = io.Copy(io.Discard, res.Body) // so that the connection is used again
			_ = res.Body.Close()
			return res.StatusCode
		})
	})
}

// revokes grants and revokes a right in many rounds, on a server that is busy with other roles.
func revokes(t *testing.T, send func(*http.Request) int) {
	t.Helper()
	busy, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { // other writes and questions go on
		defer close(done)
		for i := 0; busy.Err() == nil; i++ {
			name := fmt.Sprint("noise", i%20)
			for _, r := range []*http.Request{
				newRequest(t.Context(), "PUT", clusterRolesPath+"/"+name, fmt.Sprintf(`{"metadata":{"name":%q},"rules":[{"verbs":["get"],"apiGroups":["x"],"resources":["r%d"]}]}`, name, i)),
				newRequest(t.Context(), "PUT", clusterBindingsPath+"/"+name, userBinding(name, "ClusterRole", name, "ann")),
				newRequest(t.Context(), "GET", configMapsPath, "", as("ben")...),
			} {
				send(r)
			}
		}
	}()
	defer func() { stop(); <-done }()
	must := func(code int, method, path, body string, headers ...string) {
		t.Helper()
		require.Equal(t, code, send(newRequest(t.Context(), method, path, body, headers...)), "%s %s", method, path)
	}
	const secrets = "/api/v1/secrets"
	role := `{"metadata":{"name":"r"},"rules":[{"verbs":["list"],"apiGroups":[""],"resources":["configmaps"]}]}`
	wide := `{"metadata":{"name":"wide"},"rules":[{"verbs":["list"],"apiGroups":[""],"resources":["secrets"]}]}`
	none := `{"metadata":{"name":"r"},"rules":[]}`
	must(201, "POST", rolesPath, role)
	must(201, "POST", bindingsPath, userBinding("b", "Role", "r", "ann"))
	must(201, "POST", clusterRolesPath, wide)
	must(201, "POST", clusterBindingsPath, userBinding("wide", "ClusterRole", "wide", "ann"))
	for round := range *revocations {
		must(200, "GET", configMapsPath, "", as("ann")...)
		must(200, "GET", secrets, "", as("ann")...)
		switch round % 6 {
		case 0:
			must(200, "DELETE", bindingsPath+"/b", "")
			must(403, "GET", configMapsPath, "", as("ann")...)
			must(201, "POST", bindingsPath, userBinding("b", "Role", "r", "ann"))
		case 1:
			must(200, "DELETE", rolesPath+"/r", "")
			must(403, "GET", configMapsPath, "", as("ann")...)
			must(201, "POST", rolesPath, role)
		case 2:
			must(200, "PUT", rolesPath+"/r", none)
			must(403, "GET", configMapsPath, "", as("ann")...)
			must(200, "PUT", rolesPath+"/r", role)
		case 3:
			must(200, "PUT", bindingsPath+"/b", userBinding("b", "Role", "r", "bob"))
			must(403, "GET", configMapsPath, "", as("ann")...)
			must(200, "PUT", bindingsPath+"/b", userBinding("b", "Role", "r", "ann"))
		case 4: // the binding outlives the role, and counts for the next one of that name
			must(200, "DELETE", clusterRolesPath+"/wide", "")
			must(403, "GET", secrets, "", as("ann")...)
			must(201, "POST", clusterRolesPath, wide)
		case 5: // both go, and the role comes back alone
			must(200, "DELETE", clusterRolesPath+"/wide", "")
			must(200, "DELETE", clusterBindingsPath+"/wide", "")
			must(201, "POST", clusterRolesPath, wide)
			must(403, "GET", secrets, "", as("ann")...)
			must(201, "POST", clusterBindingsPath, userBinding("wide", "ClusterRole", "wide", "ann"))
		}
	}
}
