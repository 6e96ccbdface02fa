package kinds

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kindwright/kindwright/authz/rbac"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// RBAC serves Role, ClusterRole, RoleBinding and ClusterRoleBinding of rbac.authorization.{domain}/v1,
// with the rules of [WithRBAC]. The server makes the roles of rbac.DefaultPolicy and those of more. They
// have an effect when the server authorizes by them:
//
//	kindwright.New(db, kindwright.Serve(kinds.ControlPlane(), kinds.RBAC(), …), kindwright.Authorize(rbac.New("")))
//
// Source: RBAC-01.
func RBAC(more ...rbac.Policy) registry.Definition { return rbacKinds{more} }

type rbacKinds struct{ more []rbac.Policy }

// Define implements registry.Definition.
func (k rbacKinds) Define(env registry.Env) (registry.Bundle, error) {
	group := rbac.Group(env.GroupDomain)
	still := registry.WriteRules{NoGeneration: true, CreateOnUpdate: true}
	created := registry.Table{Columns: []openapi.Column{
		{Name: "Name", Type: "string", Format: "name", Description: "The name of the object.", Path: []string{"metadata", "name"}},
		{Name: "Created At", Type: "date", Description: "When the role was made.", Path: []string{"metadata", "creationTimestamp"}},
	}}
	policy := rbac.DefaultPolicy(env.GroupDomain)
	for _, p := range k.more {
		policy.ClusterRoles = append(policy.ClusterRoles, p.ClusterRoles...)
		policy.ClusterRoleBindings = append(policy.ClusterRoleBindings, p.ClusterRoleBindings...)
		policy.Roles = append(policy.Roles, p.Roles...)
		policy.RoleBindings = append(policy.RoleBindings, p.RoleBindings...)
	}
	return WithRBAC(RBACOptions{Policy: policy}, all{
		registry.Kind[rbac.ClusterRole]{
			Group: group, Version: "v1", Plural: "clusterroles", Scope: registry.ClusterScoped, Writes: still, Table: created,
			Rules: registry.Rules[rbac.ClusterRole]{
				Name: meta.CheckPathSegment,
				Validate: func(_ context.Context, r *rbac.ClusterRole, f *status.Fields) {
					rbac.CheckRules(r.Rules, f, true)
					rbac.CheckAggregation(r.AggregationRule, f)
				},
			},
		},
		registry.Kind[rbac.Role]{
			Group: group, Version: "v1", Plural: "roles", Writes: still, Table: created,
			Rules: registry.Rules[rbac.Role]{
				Name:     meta.CheckPathSegment,
				Validate: func(_ context.Context, r *rbac.Role, f *status.Fields) { rbac.CheckRules(r.Rules, f, false) },
			},
		},
		registry.Kind[rbac.ClusterRoleBinding]{
			Group: group, Version: "v1", Plural: "clusterrolebindings", Scope: registry.ClusterScoped, Writes: still, Table: bindingTable(),
			Rules: registry.Rules[rbac.ClusterRoleBinding]{
				Name:    meta.CheckPathSegment,
				Default: func(_ context.Context, b *rbac.ClusterRoleBinding) { rbac.FillBinding(group, &b.RoleRef, b.Subjects) },
				Validate: func(_ context.Context, b *rbac.ClusterRoleBinding, f *status.Fields) {
					rbac.CheckBinding(group, b.RoleRef, b.Subjects, f, true)
				},
				ValidateUpdate: func(_ context.Context, b, old *rbac.ClusterRoleBinding, f *status.Fields) {
					rbac.CheckRoleRef(b.RoleRef, old.RoleRef, f)
				},
			},
		},
		registry.Kind[rbac.RoleBinding]{
			Group: group, Version: "v1", Plural: "rolebindings", Writes: still, Table: bindingTable(),
			Rules: registry.Rules[rbac.RoleBinding]{
				Name:    meta.CheckPathSegment,
				Default: func(_ context.Context, b *rbac.RoleBinding) { rbac.FillBinding(group, &b.RoleRef, b.Subjects) },
				Validate: func(_ context.Context, b *rbac.RoleBinding, f *status.Fields) {
					rbac.CheckBinding(group, b.RoleRef, b.Subjects, f, false)
				},
				ValidateUpdate: func(_ context.Context, b, old *rbac.RoleBinding, f *status.Fields) {
					rbac.CheckRoleRef(b.RoleRef, old.RoleRef, f)
				},
			},
		},
	}).Define(env)
}

// bindingTable shows a binding as kubectl does.
func bindingTable() registry.Table {
	subjects := func(kind string) func(time.Time, []any) any {
		return func(_ time.Time, v []any) any {
			var names []string
			list, _ := v[0].([]any)
			for _, one := range list {
				s, _ := one.(map[string]any)
				name, _ := s["name"].(string)
				if namespace, _ := s["namespace"].(string); kind == rbac.KindServiceAccount {
					name = namespace + "/" + name
				}
				if s["kind"] == kind {
					names = append(names, name)
				}
			}
			return strings.Join(names, ", ")
		}
	}
	column := func(name, doc, kind string) openapi.Column {
		return openapi.Column{Name: name, Type: "string", Priority: 1, Description: doc, Paths: [][]string{{"subjects"}}, Cell: subjects(kind), Lasting: true}
	}
	return registry.Table{Columns: []openapi.Column{
		{Name: "Name", Type: "string", Format: "name", Description: "The name of the object.", Path: []string{"metadata", "name"}},
		{Name: "Role", Type: "string", Description: "What is granted.", Paths: [][]string{{"roleRef", "kind"}, {"roleRef", "name"}}, Lasting: true, Cell: func(_ time.Time, v []any) any {
			return fmt.Sprintf("%v/%v", v[0], v[1])
		}},
		{Name: "Age", Type: "date", Description: "How long the object has existed.", Path: []string{"metadata", "creationTimestamp"}},
		column("Users", "The users.", rbac.KindUser),
		column("Groups", "The groups.", rbac.KindGroup),
		column("ServiceAccounts", "The service accounts.", rbac.KindServiceAccount),
	}}
}

// RBACOptions say what comes with the kinds of roles and bindings.
type RBACOptions struct {
	// Policy are the roles and bindings that exist when the server has started.
	// Source: RBAC-09.
	Policy rbac.Policy

	// NoAggregation leaves the rules of roles with an aggregationRule to another program.
	NoAggregation bool
}

// WithRBAC is for a program that brings its own Go types of these kinds, such as those of
// k8s.io/api; [RBAC] has some. It gives the kinds of a definition that have the group
// rbac.authorization.{domain} what belongs to them:
//
//   - A user who writes a role or a binding must have all that it grants, or the verb escalate on
//     the role or bind on the role that is bound, or be in system:masters.
//   - A ClusterRole with an aggregationRule is the union of those that it selects.
//   - The roles of a policy exist and are repaired.
//
// The kinds bring their own validation, for which package rbac has functions.
// Source: RBAC-06, RBAC-08.
func WithRBAC(o RBACOptions, of registry.Definition) registry.Definition {
	return withRBAC{o, of}
}

type withRBAC struct {
	RBACOptions
	of registry.Definition
}

// Define implements registry.Definition.
func (w withRBAC) Define(env registry.Env) (registry.Bundle, error) {
	b, err := define("WithRBAC", w.of, env)
	if err != nil {
		return b, err
	}
	group := rbac.Group(env.GroupDomain)
	b.Resources = slices.Clone(b.Resources)
	for i, r := range b.Resources {
		if r.Group != group {
			continue
		}
		g := guardian{group: group, plural: r.Plural, next: r.Hooks.Complete}
		guarded := *r
		switch r.Plural {
		case "clusterroles", "roles":
			guarded.Hooks.Complete = g.role
		case "clusterrolebindings", "rolebindings":
			guarded.Hooks.Complete = g.binding
		}
		b.Resources[i] = &guarded
	}
	p := policyKeeper{group: group, policy: w.Policy}
	hooks := []registry.Hook{{Name: "rbac/bootstrap-roles", Start: p.reconcile}}
	if !w.NoAggregation {
		a := aggregator{resource: meta.GroupVersionResource{Group: group, Version: "v1", Resource: "clusterroles"}}
		hooks = append(hooks, registry.Hook{Name: "rbac/aggregate-roles", Run: a.run, Leader: true})
	}
	addHooks(&b, hooks...)
	return b, nil
}
