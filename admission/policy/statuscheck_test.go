package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission/policy"
	"github.com/kindwright/kindwright/status"
)

// The reference of a warning is a path, as in Kubernetes.
func TestPOL_06_ReferencesOfWarningsArePaths(t *testing.T) {
	for ref, want := range map[string]string{
		"spec.validations[0].expression": "", "spec.variables[1].expression": "", " spec ": "", "a-b['c d']": "",
		"spec.validations[0": "invalid JSONPath: ", "spec[": "invalid JSONPath: ", "{": "invalid JSONPath: ",
	} {
		s := &policy.ValidatingAdmissionPolicyStatus{TypeChecking: &policy.TypeChecking{
			ExpressionWarnings: []policy.ExpressionWarning{{FieldRef: ref, Warning: "w"}},
		}}
		var f status.Fields
		s.Validate(&f)
		if want == "" {
			require.Empty(t, f.Errors(), ref)
			continue
		}
		require.Len(t, f.Errors(), 1, ref)
		require.Equal(t, "status.typeChecking.expressionWarnings[0].fieldRef", f.Errors()[0].Field, ref)
		require.Contains(t, f.Errors()[0].Detail, want, ref)
	}
}
