package program

import (
	"github.com/kindwright/kindwright/authz/rbac"
	"github.com/kindwright/kindwright/meta"
)

// modeRBAC authorizes by roles and bindings.
const modeRBAC = "RBAC"

// policy makes the kinds of this program a part of the roles view, edit and admin. The first
// administrator is in system:masters: the kubeconfig in the data directory has their certificate.
func policy() rbac.Policy {
	part := func(name, of string, verbs ...string) rbac.ClusterRole {
		labels := map[string]string{}
		for _, role := range map[string][]string{"view": {"view", "edit", "admin"}, "edit": {"edit", "admin"}}[of] {
			labels["rbac.authorization.k8s.io/aggregate-to-"+role] = "true"
		}
		return rbac.ClusterRole{
			ObjectMeta: meta.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{rbac.AutoUpdate: "true"}},
			Rules: []rbac.PolicyRule{{
				Verbs: verbs, APIGroups: []string{group},
				Resources: []string{"widgets", "widgets/scale", "widgets/status", "gadgets"},
			}},
		}
	}
	return rbac.Policy{ClusterRoles: []rbac.ClusterRole{
		part("example.dev:view", "view", "get", "list", "watch"),
		part("example.dev:edit", "edit", "create", "update", "patch", "delete", "deletecollection"),
	}}
}
