package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/admission/policy"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// POL-01: conditions that use parameters stayed as they were when the kind of the parameters was taken away. The policy
// then denied all writes that it was about.
func TestPOL_01_05_ConditionsAreCheckedAgainWithoutParameters(t *testing.T) {
	problems := func(validate func(f *status.Fields)) (out []string) {
		f := &status.Fields{}
		validate(f)
		for _, one := range f.Errors() {
			out = append(out, one.Field)
		}
		return out
	}
	conditions := []match.Condition{{Name: "a", Expression: "params.data.x == ''"}}
	kind := &policy.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	rules := &match.Resources{ResourceRules: []match.NamedRule{{RuleWithOperations: match.RuleWithOperations{
		Operations: []string{"CREATE"}, Rule: match.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
	}}}}

	validating := func(k *policy.ParamKind) *policy.ValidatingAdmissionPolicy {
		p := &policy.ValidatingAdmissionPolicy{Spec: policy.ValidatingAdmissionPolicySpec{
			ParamKind: k, MatchConstraints: rules, MatchConditions: conditions, Validations: []policy.Validation{{Expression: "true"}},
		}}
		p.Default()
		return p
	}
	old := validating(kind)
	require.Empty(t, problems(func(f *status.Fields) { old.Validate(nil, cel.RuleOptions{}, f) }))
	same := *kind
	require.Empty(t, problems(func(f *status.Fields) { validating(&same).Validate(old, cel.RuleOptions{}, f) }))
	require.Equal(t, []string{"spec.matchConditions[0].expression"}, problems(func(f *status.Fields) { validating(nil).Validate(old, cel.RuleOptions{}, f) }))

	mutating := func(k *policy.ParamKind) *policy.MutatingAdmissionPolicy {
		p := &policy.MutatingAdmissionPolicy{Spec: policy.MutatingAdmissionPolicySpec{
			ParamKind: k, MatchConstraints: rules, MatchConditions: conditions, ReinvocationPolicy: policy.Never,
			Mutations: []policy.Mutation{{PatchType: policy.PatchApplyConfiguration, ApplyConfiguration: &policy.ApplyConfiguration{Expression: "Object{}"}}},
		}}
		p.Default()
		return p
	}
	before := mutating(kind)
	require.Empty(t, problems(func(f *status.Fields) { before.Validate(nil, cel.RuleOptions{}, f) }))
	require.Empty(t, problems(func(f *status.Fields) { mutating(&same).Validate(before, cel.RuleOptions{}, f) }))
	require.Equal(t, []string{"spec.matchConditions[0].expression"}, problems(func(f *status.Fields) { mutating(nil).Validate(before, cel.RuleOptions{}, f) }))
}

// POL-01, POL-03: names are judged as kube-apiserver does, and in its words.
func TestPOL_01_03_NamesAreJudgedInTheWordsOfKubernetes(t *testing.T) {
	action := policy.AllowAction
	b := &policy.ValidatingAdmissionPolicyBinding{Spec: policy.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: "-a", ValidationActions: []string{policy.Deny}, ParamRef: &policy.ParamRef{Name: "..", ParameterNotFoundAction: &action},
		MatchResources: &match.Resources{
			ObjectSelector: &meta.LabelSelector{MatchLabels: map[string]string{"a/": "b"}},
			ResourceRules: []match.NamedRule{{ResourceNames: []string{"a%", "line\n"}, RuleWithOperations: match.RuleWithOperations{
				Operations: []string{"CREATE"}, Rule: match.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}}},
		},
	}}
	b.Default()
	f := &status.Fields{}
	b.Validate(f)
	var got []string
	for _, one := range f.Errors() {
		got = append(got, one.Field+": "+one.Detail)
	}
	require.Equal(t, []string{
		"spec.policyName: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end " +
			"with an alphanumeric character (e.g. 'example.com', regex used for validation is " +
			`'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		"spec.paramRef.name: may not be '..'",
		"spec.matchResources.objectSelector.matchLabels: name part must be non-empty",
		"spec.matchResources.objectSelector.matchLabels: name part must consist of alphanumeric characters, '-', '_' or '.', " +
			"and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', " +
			"regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
		"spec.matchResources.resourceRules[0].resourceNames[0]: may not contain '%'",
	}, got)
}
