package kinds

import "github.com/kindwright/kindwright/registry"

// ControlPlane returns every built-in kind that a general server wants: Namespace with its life cycle,
// SelfSubjectReview and SelfSubjectAccessReview.
func ControlPlane() registry.Definition {
	return all{Namespaces(), SelfSubjectReviews(), SelfSubjectAccessReviews()}
}

// all joins definitions into one.
type all []registry.Definition

// Define makes all a registry.Definition.
func (a all) Define(env registry.Env) (registry.Bundle, error) {
	var out registry.Bundle
	for _, d := range a {
		b, err := d.Define(env)
		if err != nil {
			return registry.Bundle{}, err
		}
		out.Resources = append(out.Resources, b.Resources...)
		out.Hooks = append(out.Hooks, b.Hooks...)
		if b.Gate != nil {
			out.Gate = b.Gate
		}
	}
	return out, nil
}
