package rbac

import (
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/meta"
)

// Policy is a set of roles and bindings that a server creates when it starts, and repairs.
// Source: RBAC-09.
type Policy struct {
	ClusterRoles        []ClusterRole        `json:"clusterRoles,omitempty"`
	ClusterRoleBindings []ClusterRoleBinding `json:"clusterRoleBindings,omitempty"`
	Roles               []Role               `json:"roles,omitempty"`
	RoleBindings        []RoleBinding        `json:"roleBindings,omitempty"`
}

// AutoUpdate is the annotation of roles and bindings that says whether the server repairs them. Its
// value "false" forbids it.
const AutoUpdate = "rbac.authorization.kubernetes.io/autoupdate"

// bootstrapping is the label of roles and bindings that a server has made.
const bootstrapping = "kubernetes.io/bootstrapping"

// DefaultPolicy returns the roles that every server with RBAC has, for a domain. cluster-admin may do
// everything and belongs to system:masters. admin, edit and view are unions of the ClusterRoles with
// the label rbac.authorization.{domain}/aggregate-to-admin and so on, whose value is "true": kinds of
// one's own become a part of them by such a role. Everybody may read the documents about the server,
// everybody who is known may ask about themselves, and service accounts may read how their tokens are
// checked.
func DefaultPolicy(domain string) Policy {
	group := Group(domain)
	var out Policy
	role := func(name string, rules ...PolicyRule) {
		out.ClusterRoles = append(out.ClusterRoles, ClusterRole{ObjectMeta: initial(name), Rules: rules})
	}
	grant := func(name string, groups ...string) {
		b := ClusterRoleBinding{ObjectMeta: initial(name), RoleRef: RoleRef{APIGroup: group, Kind: KindClusterRole, Name: name}}
		for _, g := range groups {
			b.Subjects = append(b.Subjects, Subject{Kind: KindGroup, APIGroup: group, Name: g})
		}
		out.ClusterRoleBindings = append(out.ClusterRoleBindings, b)
	}
	health := []string{"/healthz", "/livez", "/readyz", "/version", "/version/"}
	get := []string{"get"}
	role("cluster-admin", FullAuthority()...)
	role("system:discovery", PolicyRule{Verbs: get, NonResourceURLs: append([]string{"/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"}, health...)})
	role("system:public-info-viewer", PolicyRule{Verbs: get, NonResourceURLs: health})
	role("system:monitoring", PolicyRule{Verbs: get, NonResourceURLs: []string{"/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics", "/metrics/slis", "/readyz", "/readyz/*"}})
	role("system:basic-user",
		PolicyRule{Verbs: []string{"create"}, APIGroups: []string{"authorization." + domain}, Resources: []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews"}},
		PolicyRule{Verbs: []string{"create"}, APIGroups: []string{"authentication." + domain}, Resources: []string{"selfsubjectreviews"}},
	)
	role("system:service-account-issuer-discovery", PolicyRule{Verbs: get, NonResourceURLs: []string{
		"/.well-known/openid-configuration", "/.well-known/openid-configuration/", "/openid/v1/jwks", "/openid/v1/jwks/",
	}})
	for _, name := range []string{"admin", "edit", "view"} {
		r := ClusterRole{ObjectMeta: initial(name), AggregationRule: &AggregationRule{ClusterRoleSelectors: []meta.LabelSelector{
			{MatchLabels: map[string]string{group + "/aggregate-to-" + name: "true"}},
		}}}
		out.ClusterRoles = append(out.ClusterRoles, r)
	}
	out.ClusterRoles = append(out.ClusterRoles, aggregated(group)...)
	grant("cluster-admin", authn.GroupMasters)
	grant("system:discovery", authn.GroupAuthenticated)
	grant("system:basic-user", authn.GroupAuthenticated)
	grant("system:public-info-viewer", authn.GroupAuthenticated, authn.GroupUnauthenticated)
	grant("system:monitoring", "system:monitoring")
	grant("system:service-account-issuer-discovery", "system:serviceaccounts")
	return out
}

// initial is the metadata of a role or binding that the server makes.
func initial(name string) meta.ObjectMeta {
	return meta.ObjectMeta{Name: name, Labels: map[string]string{bootstrapping: "rbac-defaults"}, Annotations: map[string]string{AutoUpdate: "true"}}
}

// aggregated are the parts of admin, edit and view for the kinds of this module.
func aggregated(group string) []ClusterRole {
	read, write := []string{"get", "list", "watch"}, []string{"create", "delete", "deletecollection", "patch", "update"}
	part := func(of string, also []string, rules ...PolicyRule) ClusterRole {
		r := ClusterRole{ObjectMeta: initial("system:aggregate-to-" + of), Rules: rules}
		for _, one := range append([]string{of}, also...) {
			r.Labels[group+"/aggregate-to-"+one] = "true"
		}
		return r
	}
	core, coordination := []string{""}, []string{"coordination.k8s.io"}
	return []ClusterRole{
		part("admin", nil,
			PolicyRule{Verbs: append(append([]string{}, read...), write...), APIGroups: []string{group}, Resources: []string{"rolebindings", "roles"}}),
		part("edit", []string{"admin"},
			PolicyRule{Verbs: read, APIGroups: core, Resources: []string{"secrets"}},
			PolicyRule{Verbs: []string{"impersonate"}, APIGroups: core, Resources: []string{"serviceaccounts"}},
			PolicyRule{Verbs: []string{"create"}, APIGroups: core, Resources: []string{"serviceaccounts/token"}},
			PolicyRule{Verbs: write, APIGroups: core, Resources: []string{"configmaps", "events", "secrets", "serviceaccounts"}},
			PolicyRule{Verbs: append(append([]string{}, read...), write...), APIGroups: coordination, Resources: []string{"leases"}}),
		part("view", []string{"edit", "admin"},
			PolicyRule{Verbs: read, APIGroups: core, Resources: []string{"configmaps", "events", "namespaces", "namespaces/status", "serviceaccounts"}}),
	}
}
