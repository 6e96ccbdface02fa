package policy

import (
	"strings"

	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/status"
)

// Validate reports what is wrong with a policy, in the words of Kubernetes. old is the policy that it
// replaces, nil for a new one: its expressions may go on using what new ones may not.
//
// Source: POL-05, CEL-25.
func (p *MutatingAdmissionPolicy) Validate(old *MutatingAdmissionPolicy, rules cel.RuleOptions, f *status.Fields) {
	at, spec := f.At("spec"), &p.Spec
	spec.shared().validateTarget(at)
	if spec.MatchConstraints != nil {
		checkOperations(spec.MatchConstraints, at.Child("matchConstraints"))
	}
	c := p.checker(old, rules)
	if old == nil || !sameConditions(spec.shared(), old.Spec.shared()) {
		match.ValidateConditions(spec.MatchConditions, at.Child("matchConditions"), c.condition)
	}
	for i, v := range spec.Variables {
		c.variable(v, at.Child("variables").Index(i))
	}
	if len(spec.Mutations) == 0 {
		at.Child("mutations").Required("mutations must contain at least one item")
	}
	for i, m := range spec.Mutations {
		c.mutation(m, at.Child("mutations").Index(i))
	}
	switch spec.ReinvocationPolicy {
	case Never, IfNeeded:
	case "":
		at.Child("reinvocationPolicy").Required("")
	default:
		at.Child("reinvocationPolicy").NotSupported(spec.ReinvocationPolicy, IfNeeded, Never)
	}
}

// checkOperations rejects operations that have no object to change.
func checkOperations(m *match.Resources, at status.Field) {
	for _, rule := range m.ResourceRules {
		for _, operation := range rule.Operations {
			switch operation {
			case "*", "CREATE", "UPDATE", "CONNECT":
			default:
				at.Child("resourceRules").Child("operations").NotSupported(operation, "*", "CONNECT", "CREATE", "UPDATE")
			}
		}
	}
}

// checker returns what compiles the expressions of the policy.
func (p *MutatingAdmissionPolicy) checker(old *MutatingAdmissionPolicy, rules cel.RuleOptions) *checker {
	var known map[string]bool
	if old != nil {
		known = old.expressions()
	}
	scope, err := cel.NewAdmission(cel.AdmissionOptions{
		Release: rules.Release, Known: func(text string) bool { return known[text] }, Params: p.Spec.ParamKind != nil, Prices: rules.Prices,
	})
	return &checker{scope, err}
}

// expressions returns all expressions of the policy.
func (p *MutatingAdmissionPolicy) expressions() map[string]bool {
	out := map[string]bool{}
	for _, c := range p.Spec.MatchConditions {
		out[c.Expression] = true
	}
	for _, v := range p.Spec.Variables {
		out[v.Expression] = true
	}
	for _, m := range p.Spec.Mutations {
		if m.ApplyConfiguration != nil {
			out[strings.TrimSpace(m.ApplyConfiguration.Expression)] = true
		}
		if m.JSONPatch != nil {
			out[strings.TrimSpace(m.JSONPatch.Expression)] = true
		}
	}
	return out
}

func (c *checker) mutation(m Mutation, at status.Field) {
	configuration, patch := at.Child("applyConfiguration"), at.Child("jsonPatch")
	switch m.PatchType {
	case "":
		at.Child("patchType").Required("")
	case PatchJSON:
		if m.JSONPatch == nil {
			patch.Required("must be specified when patchType is JSONPatch")
		} else {
			c.made(m.JSONPatch.Expression, cel.Patches(), patch.Child("expression"))
		}
		if m.ApplyConfiguration != nil {
			configuration.Invalid("{applyConfiguration}", "must not be specified when patchType is JSONPatch")
		}
	case PatchApplyConfiguration:
		if m.ApplyConfiguration == nil {
			configuration.Required("must be specified when patchType is ApplyConfiguration")
		} else {
			c.made(m.ApplyConfiguration.Expression, cel.Configuration(), configuration.Child("expression"))
		}
		if m.JSONPatch != nil {
			patch.Invalid("{jsonPatch}", "must not be specified when patchType is ApplyConfiguration")
		}
	default:
		at.Child("patchType").NotSupported(m.PatchType, PatchApplyConfiguration, PatchJSON)
	}
}

// made checks an expression that makes a configuration or a patch.
func (c *checker) made(text string, result cel.Type, at status.Field) {
	if text = strings.TrimSpace(text); text == "" {
		at.Required("")
	} else if problem := c.problem(text, true, result); problem != "" {
		at.Invalid(text, problem)
	}
}

// Validate reports what is wrong with a binding, in the words of Kubernetes.
//
// Source: POL-05.
func (b *MutatingAdmissionPolicyBinding) Validate(f *status.Fields) {
	at := f.At("spec")
	checkPolicyName(b.Spec.PolicyName, at.Child("policyName"))
	b.Spec.ParamRef.validate(at.Child("paramRef"))
	b.Spec.MatchResources.Validate(at.Child("matchResources"))
	if b.Spec.MatchResources != nil {
		checkOperations(b.Spec.MatchResources, at.Child("matchResources"))
	}
}
