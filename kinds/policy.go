package kinds

import (
	"context"
	"strings"
	"time"

	"github.com/kindwright/kindwright/admission/policy"
	"github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/internal/typed"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Policies serves ValidatingAdmissionPolicy, MutatingAdmissionPolicy and their bindings of
// admissionregistration.{domain}/v1, with what [WithPolicies] adds: policies that clients write are in
// force.
//
//	kindwright.New(db, kindwright.Serve(kinds.ControlPlane(), kinds.Policies(), …))
//
// Source: POL-01, POL-03, POL-05.
func Policies() registry.Definition { return WithPolicies(policyKinds{}) }

type policyKinds struct{}

// Define implements registry.Definition.
func (policyKinds) Define(env registry.Env) (registry.Bundle, error) {
	group := policy.Group(env.GroupDomain)
	names := registry.Names{Categories: []string{"api-extensions"}}
	writes := registry.WriteRules{RequireVersion: true}
	return all{
		registry.Kind[policy.ValidatingAdmissionPolicy]{
			Group: group, Version: "v1", Plural: "validatingadmissionpolicies", Scope: registry.ClusterScoped, Names: names, Writes: writes,
			Doc:    "A ValidatingAdmissionPolicy says what must hold for writes to be admitted.",
			Status: registry.Status{Metadata: []string{"labels", "annotations", "finalizers", "ownerReferences"}},
			Table:  policyTable(validationsColumn(), paramKindColumn()),
			Rules: registry.Rules[policy.ValidatingAdmissionPolicy]{
				Default: func(_ context.Context, p *policy.ValidatingAdmissionPolicy) { p.Default() },
			},
		},
		registry.Kind[policy.ValidatingAdmissionPolicyBinding]{
			Group: group, Version: "v1", Plural: "validatingadmissionpolicybindings", Scope: registry.ClusterScoped, Names: names, Writes: writes,
			Doc:   "A ValidatingAdmissionPolicyBinding puts a ValidatingAdmissionPolicy in force.",
			Table: policyTable(policyNameColumn(), paramRefColumn()),
			Rules: registry.Rules[policy.ValidatingAdmissionPolicyBinding]{
				Default: func(_ context.Context, b *policy.ValidatingAdmissionPolicyBinding) { b.Default() },
			},
		},
		registry.Kind[policy.MutatingAdmissionPolicy]{
			Group: group, Version: "v1", Plural: "mutatingadmissionpolicies", Scope: registry.ClusterScoped, Names: names, Writes: writes,
			Doc:   "A MutatingAdmissionPolicy changes the objects of writes before they are stored.",
			Table: policyTable(mutationsColumn(), paramKindColumn()),
			Rules: registry.Rules[policy.MutatingAdmissionPolicy]{
				Default: func(_ context.Context, p *policy.MutatingAdmissionPolicy) { p.Default() },
			},
		},
		registry.Kind[policy.MutatingAdmissionPolicyBinding]{
			Group: group, Version: "v1", Plural: "mutatingadmissionpolicybindings", Scope: registry.ClusterScoped, Names: names, Writes: writes,
			Doc:   "A MutatingAdmissionPolicyBinding puts a MutatingAdmissionPolicy in force.",
			Table: policyTable(policyNameColumn(), paramRefColumn()),
			Rules: registry.Rules[policy.MutatingAdmissionPolicyBinding]{
				Default: func(_ context.Context, b *policy.MutatingAdmissionPolicyBinding) { b.Default() },
			},
		},
	}.Define(env)
}

// policyTable has some columns between the name and the age.
func policyTable(between ...openapi.Column) registry.Table {
	columns := []openapi.Column{{Name: "Name", Type: "string", Format: "name", Description: "The name of the object.", Path: []string{"metadata", "name"}}}
	columns = append(columns, between...)
	return registry.Table{Columns: append(columns, openapi.Column{
		Name: "Age", Type: "date", Description: "How long the object has existed.", Path: []string{"metadata", "creationTimestamp"},
	})}
}

func validationsColumn() openapi.Column {
	return openapi.Column{
		Name: "Validations", Type: "integer", Description: "How many things must hold.", Paths: [][]string{{"spec", "validations"}},
		Lasting: true,
		Cell:    func(_ time.Time, v []any) any { list, _ := v[0].([]any); return int64(len(list)) },
	}
}

func mutationsColumn() openapi.Column {
	return openapi.Column{
		Name: "Mutations", Type: "integer", Description: "How many changes the policy makes.", Paths: [][]string{{"spec", "mutations"}},
		Lasting: true,
		Cell:    func(_ time.Time, v []any) any { list, _ := v[0].([]any); return int64(len(list)) },
	}
}

func paramKindColumn() openapi.Column {
	return openapi.Column{
		Name: "ParamKind", Type: "string", Description: "The kind of the parameters.", Paths: [][]string{{"spec", "paramKind"}},
		Lasting: true,
		Cell: func(_ time.Time, v []any) any {
			kind, ok := v[0].(map[string]any)
			if !ok {
				return "<unset>"
			}
			version, _ := kind["apiVersion"].(string)
			name, _ := kind["kind"].(string)
			return version + "/" + name
		},
	}
}

func policyNameColumn() openapi.Column {
	return openapi.Column{Name: "PolicyName", Type: "string", Description: "The policy.", Path: []string{"spec", "policyName"}}
}

func paramRefColumn() openapi.Column {
	return openapi.Column{
		Name: "ParamRef", Type: "string", Description: "The parameters.", Paths: [][]string{{"spec", "paramRef"}},
		Lasting: true,
		Cell: func(_ time.Time, v []any) any {
			ref, ok := v[0].(map[string]any)
			name, _ := ref["name"].(string)
			namespace, _ := ref["namespace"].(string)
			switch {
			case !ok:
				return "<unset>"
			case name == "":
				return "<selector>"
			case namespace == "":
				return "*/" + name
			}
			return namespace + "/" + name
		},
	}
}

// WithPolicies is for a program that brings its own Go types of these kinds, such as those of
// k8s.io/api; [Policies] has some. It gives the kinds of a definition that have the group
// admissionregistration.{domain} what belongs to admission policies: their validation, and the plugin
// that evaluates them. The kinds bring their own defaults.
//
// Source: POL-01.
func WithPolicies(of registry.Definition, options ...PolicyOption) registry.Definition {
	w := &withPolicies{of: of, stats: &PolicyStats{}}
	for _, o := range options {
		if o != nil {
			o(w)
		}
	}
	return w
}

type withPolicies struct {
	of    registry.Definition
	stats *PolicyStats
}

// CollectMetrics registers what is counted about policies.
func (w *withPolicies) CollectMetrics(r *metrics.Registry) { w.stats.CollectMetrics(r) }

// Define implements registry.Definition.
func (w *withPolicies) Define(env registry.Env) (registry.Bundle, error) {
	b, err := define("WithPolicies", w.of, env)
	if err != nil {
		return b, err
	}
	group := policy.Group(env.GroupDomain)
	resources := append([]*registry.Resource{}, b.Resources...)
	for i, r := range resources {
		if r.Group != group {
			continue
		}
		own := *r
		params := paramGuard{meta.GroupVersionResource{Group: group, Version: "v1", Resource: "validatingadmissionpolicies"}}
		if strings.HasPrefix(r.Plural, "mutating") {
			params.policies.Resource = "mutatingadmissionpolicies"
		}
		switch r.Plural {
		case "validatingadmissionpolicies":
			addRules(&own.Hooks, func(p, old *policy.ValidatingAdmissionPolicy, f *status.Fields) { p.Validate(old, env.Expressions, f) })
			params.guard(&own.Hooks, params.policy, "paramKind")
			addStatusRules(&own.Hooks)
		case "validatingadmissionpolicybindings":
			addBindingRules(&own.Hooks)
			params.guard(&own.Hooks, params.binding, "paramRef")
		case "mutatingadmissionpolicies":
			addRules(&own.Hooks, func(p, old *policy.MutatingAdmissionPolicy, f *status.Fields) { p.Validate(old, env.Expressions, f) })
			params.guard(&own.Hooks, params.policy, "paramKind")
		case "mutatingadmissionpolicybindings":
			addMutatingBindingRules(&own.Hooks)
			params.guard(&own.Hooks, params.binding, "paramRef")
		}
		resources[i] = &own
	}
	b.Resources = resources
	checker := typeChecker{meta.GroupVersionResource{Group: group, Version: "v1", Resource: "validatingadmissionpolicies"}}
	addHooks(&b, registry.Hook{Name: "validating-admission-policy-status", Run: checker.run, Leader: true})
	o := policy.Options{GroupDomain: env.GroupDomain, Prices: env.Expressions.Prices, Checked: w.stats.checked, Matched: w.stats.matched}
	b.Plugins = append(b.Plugins[:len(b.Plugins):len(b.Plugins)], policy.Mutations(o), policy.Plugin(o))
	return b, nil
}

// addStatusRules checks the status of a policy when it is written. Other writes keep it as it is.
func addStatusRules(h *registry.Hooks) {
	next := h.ValidateUpdate
	h.ValidateUpdate = func(ctx context.Context, t, old registry.Tree, f *status.Fields) {
		if next != nil {
			next(ctx, t, old, f)
		}
		if registry.SubresourceFrom(ctx) != "status" {
			return
		}
		if p, err := typed.Decode[policy.ValidatingAdmissionPolicy](t); err == nil {
			p.Status.Validate(f)
		}
	}
}

func addMutatingBindingRules(h *registry.Hooks) {
	next := h.Validate
	h.Validate = func(ctx context.Context, t registry.Tree, f *status.Fields) {
		if next != nil {
			next(ctx, t, f)
		}
		if b, err := typed.Decode[policy.MutatingAdmissionPolicyBinding](t); err == nil {
			b.Validate(f)
		}
	}
}

func addBindingRules(h *registry.Hooks) {
	next := h.Validate
	h.Validate = func(ctx context.Context, t registry.Tree, f *status.Fields) {
		if next != nil {
			next(ctx, t, f)
		}
		if b, err := typed.Decode[policy.ValidatingAdmissionPolicyBinding](t); err == nil {
			b.Validate(f)
		}
	}
}
