package policy_test

import (
	"fmt"

	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/admission/policy"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/status"
)

// A policy is checked before it is stored. This one misspells a variable.
func Example() {
	p := &policy.ValidatingAdmissionPolicy{Spec: policy.ValidatingAdmissionPolicySpec{
		MatchConstraints: &match.Resources{ResourceRules: []match.NamedRule{{RuleWithOperations: match.RuleWithOperations{
			Operations: []string{"CREATE"},
			Rule:       match.Rule{APIGroups: []string{"example.dev"}, APIVersions: []string{"v1"}, Resources: []string{"widgets"}},
		}}}},
		Validations: []policy.Validation{{Expression: "objekt.spec.size < 10"}},
	}}
	p.Default()
	var f status.Fields
	p.Validate(nil, cel.RuleOptions{}, &f)
	for _, problem := range f.Errors() {
		fmt.Println(problem.Field)
	}
	// Output: spec.validations[0].expression
}
