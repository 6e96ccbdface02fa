package kube

import (
	"context"
	_ "embed" // the recorded roles
	"fmt"
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kindwright/kindwright/authz/rbac"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// policy are the kinds that limit how many pods may be unavailable.
func policy(c *cluster) []registry.Definition {
	return []registry.Definition{
		kind[policyv1.PodDisruptionBudget]{cluster: c, Kind: registry.Kind[policyv1.PodDisruptionBudget]{
			Rules: registry.Rules[policyv1.PodDisruptionBudget]{Validate: checked(checkBudget), ValidateUpdate: checkBudgetUpdate, Name: meta.CheckPathSegment},

			Group: "policy", Version: "v1", Plural: "poddisruptionbudgets", Names: registry.Names{ShortNames: []string{"pdb"}},
			Writes: registry.WriteRules{RequireVersion: true},
			Table: registry.Table{Columns: columns(
				or("Min Available", "spec.minAvailable", "N/A", "How many pods must stay."),
				or("Max Unavailable", "spec.maxUnavailable", "N/A", "How many may be away."),
				whole("Allowed Disruptions", "status.disruptionsAllowed", "How many may be taken away now."),
			)},
		}},
	}
}

// recordedRoles are the roles and bindings that kube-apiserver makes; recordroles writes the file.
//
//go:embed roles.json
var recordedRoles []byte

// roleKinds are roles and their bindings, with what kube-apiserver adds to them.
func roleKinds(c *cluster) (registry.Definition, error) {
	var policy rbac.Policy
	if err := json.Unmarshal(recordedRoles, &policy); err != nil {
		return nil, fmt.Errorf("the recorded roles: %w", err)
	}
	if err := c.addGatedRoles(&policy); err != nil {
		return nil, err
	}
	return kinds.WithRBAC(kinds.RBACOptions{Policy: policy, NoAggregation: !c.AggregateRoles}, several(rbacKinds(c))), nil
}

// gatedRoles are the roles and bindings that kube-apiserver makes for gates that are off by default. A role that is
// there without the gate, too, is named with the rules that the gate adds to it.
//
//go:embed gatedroles.json
var gatedRoles []byte

// addGatedRoles adds the roles of the gates that are on.
func (c *cluster) addGatedRoles(to *rbac.Policy) error {
	all := map[string]rbac.Policy{}
	if err := json.Unmarshal(gatedRoles, &all); err != nil {
		return fmt.Errorf("the roles behind gates: %w", err)
	}
	for _, gate := range sortedNames(all) {
		if !c.has(gate) {
			continue
		}
		for _, more := range all[gate].ClusterRoles {
			i := slices.IndexFunc(to.ClusterRoles, func(r rbac.ClusterRole) bool { return r.Name == more.Name })
			if i < 0 {
				to.ClusterRoles = append(to.ClusterRoles, more)
				continue
			}
			to.ClusterRoles[i].Rules = append(to.ClusterRoles[i].Rules, more.Rules...)
		}
		to.ClusterRoleBindings = append(to.ClusterRoleBindings, all[gate].ClusterRoleBindings...)
	}
	return nil
}

// several joins definitions.
type several []registry.Definition

// Define implements registry.Definition.
func (s several) Define(env registry.Env) (registry.Bundle, error) {
	var out registry.Bundle
	for _, d := range s {
		b, err := d.Define(env)
		if err != nil {
			return out, err
		}
		out.Resources = append(out.Resources, b.Resources...)
		out.Hooks = append(out.Hooks, b.Hooks...)
		out.Plugins = append(out.Plugins, b.Plugins...)
	}
	return out, nil
}

func rbacKinds(c *cluster) []registry.Definition {
	const group = "rbac.authorization.k8s.io"
	still := registry.WriteRules{NoGeneration: true, CreateOnUpdate: true}
	created := []openapi.Column{named(), {
		Name: "Created At", Type: "date", Description: "When the role was created.",
		Path: []string{"metadata", "creationTimestamp"},
	}}
	return []registry.Definition{
		kind[rbacv1.Role]{cluster: c, Kind: registry.Kind[rbacv1.Role]{
			Rules: registry.Rules[rbacv1.Role]{Validate: checked(func(r *rbacv1.Role, f *status.Fields) { checkRole(r.Rules, f) }), Name: meta.CheckPathSegment},
			Group: group, Version: "v1", Plural: "roles", Writes: still, Table: registry.Table{Columns: created},
		}},
		kind[rbacv1.ClusterRole]{cluster: c, Kind: registry.Kind[rbacv1.ClusterRole]{
			Rules: registry.Rules[rbacv1.ClusterRole]{Validate: checked(checkClusterRole), Name: meta.CheckPathSegment},

			Group: group, Version: "v1", Plural: "clusterroles", Scope: registry.ClusterScoped, Writes: still,
			Table: registry.Table{Columns: created},
		}},
		kind[rbacv1.RoleBinding]{cluster: c, Kind: registry.Kind[rbacv1.RoleBinding]{
			Rules: registry.Rules[rbacv1.RoleBinding]{
				Validate: checked(func(b *rbacv1.RoleBinding, f *status.Fields) { checkBinding(b.RoleRef, b.Subjects, f, false) }),
				ValidateUpdate: func(_ context.Context, b, old *rbacv1.RoleBinding, f *status.Fields) {
					checkRoleRef(b.RoleRef, old.RoleRef, f)
				},
				Name: meta.CheckPathSegment,
			},

			Group: group, Version: "v1", Plural: "rolebindings", Writes: still, Table: registry.Table{Columns: bindingColumns()},
		}, fill: func(b *rbacv1.RoleBinding) { fillRoleRef(&b.RoleRef, b.Subjects) }},
		kind[rbacv1.ClusterRoleBinding]{cluster: c, Kind: registry.Kind[rbacv1.ClusterRoleBinding]{
			Rules: registry.Rules[rbacv1.ClusterRoleBinding]{
				Validate: checked(func(b *rbacv1.ClusterRoleBinding, f *status.Fields) { checkBinding(b.RoleRef, b.Subjects, f, true) }),
				ValidateUpdate: func(_ context.Context, b, old *rbacv1.ClusterRoleBinding, f *status.Fields) {
					checkRoleRef(b.RoleRef, old.RoleRef, f)
				},
				Name: meta.CheckPathSegment,
			},

			Group: group, Version: "v1", Plural: "clusterrolebindings", Scope: registry.ClusterScoped, Writes: still,
			Table: registry.Table{Columns: bindingColumns()},
		}, fill: func(b *rbacv1.ClusterRoleBinding) { fillRoleRef(&b.RoleRef, b.Subjects) }},
	}
}

func bindingColumns() []openapi.Column {
	subjects := func(kind string) func(v []any) any {
		return func(v []any) any {
			var out []string
			for _, s := range list(v[0]) {
				switch {
				case at(s, "kind") != kind:
				case kind == "ServiceAccount":
					out = append(out, word(at(s, "namespace"))+"/"+word(at(s, "name")))
				default:
					out = append(out, word(at(s, "name")))
				}
			}
			return strings.Join(out, ", ")
		}
	}
	return columns(
		made("Role", "What is allowed.", func(v []any) any { return word(at(v[0], "kind")) + "/" + word(at(v[0], "name")) }, "roleRef"),
		wide(made("Users", "Users it is allowed to.", subjects("User"), "subjects")),
		wide(made("Groups", "Groups it is allowed to.", subjects("Group"), "subjects")),
		wide(made("ServiceAccounts", "Service accounts it is allowed to.", subjects("ServiceAccount"), "subjects")),
	)
}
