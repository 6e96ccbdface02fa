package kinds

import (
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/registry"
)

// A ControlPlaneOption changes how one of the kinds of ControlPlane is served. NamespaceOption and
// EventOption implement it.
type ControlPlaneOption interface{ apply(*controlPlane) }

// controlPlane collects the options of ControlPlane.
type controlPlane struct {
	namespaces []NamespaceOption
	events     []EventOption
}

func (o NamespaceOption) apply(c *controlPlane) { c.namespaces = append(c.namespaces, o) }

func (o EventOption) apply(c *controlPlane) { c.events = append(c.events, o) }

// ControlPlane returns the built-in kinds that most servers need: Namespace with its life cycle,
// Event, Lease, and the reviews of authentication and authorization. The namespaces default,
// kube-system, kube-public and kube-node-lease exist from the start; [InitialNamespaces] changes
// the list.
func ControlPlane(opts ...ControlPlaneOption) registry.Definition {
	var c controlPlane
	for _, o := range opts {
		if !guard.IsNil(o) {
			o.apply(&c)
		}
	}
	return all{
		Namespaces(c.namespaces...), Events(c.events...), Leases(),
		TokenReviews(), SelfSubjectReviews(),
		SubjectAccessReviews(), LocalSubjectAccessReviews(), SelfSubjectAccessReviews(), SelfSubjectRulesReviews(),
	}
}

// define asks the definition that a wrapper was given for its bundle.
func define(wrapper string, of registry.Definition, env registry.Env) (registry.Bundle, error) {
	if guard.IsNil(of) {
		return registry.Bundle{}, fmt.Errorf("kinds.%s: the definition is nil", wrapper)
	}
	return of.Define(env)
}

// addHooks adds hooks to a bundle, and to each fork of it.
func addHooks(b *registry.Bundle, hooks ...registry.Hook) {
	b.Hooks = append(slices.Clip(b.Hooks), hooks...)
	if fork := b.Fork; fork != nil {
		b.Fork = func() (admission.NamespaceGate, []registry.Hook) {
			gate, own := fork()
			return gate, append(own, hooks...)
		}
	}
}

// all joins several definitions.
type all []registry.Definition

// Define implements registry.Definition.
func (a all) Define(env registry.Env) (registry.Bundle, error) {
	parts := make([]registry.Bundle, len(a))
	var out registry.Bundle
	for i, d := range a {
		b, err := d.Define(env)
		if err != nil {
			return registry.Bundle{}, err
		}
		parts[i] = b
		out.Resources = append(out.Resources, b.Resources...)
		out.Hooks = append(out.Hooks, b.Hooks...)
		out.Plugins = append(out.Plugins, b.Plugins...)
		if b.Gate != nil {
			out.Gate = b.Gate
		}
	}
	out.Fork = func() (gate admission.NamespaceGate, hooks []registry.Hook) {
		for _, b := range parts {
			if b.Fork != nil {
				b.Gate, b.Hooks = b.Fork()
			}
			hooks = append(hooks, b.Hooks...)
			if b.Gate != nil {
				gate = b.Gate
			}
		}
		return gate, hooks
	}
	return out, nil
}
