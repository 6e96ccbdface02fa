package policy_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission/policy"
)

const manifest = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: keep.static.k8s.io}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: ["*"], apiVersions: ["*"], operations: ["DELETE"], resources: ["*"]}
  validations:
  - {expression: "request.userInfo.username == 'root'", message: "only root deletes"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: keep.static.k8s.io}
spec: {policyName: keep.static.k8s.io, validationActions: [Deny]}
`

// TestPOL_01_ManifestsAreReadStrictly refuses what the API would, and parameters.
func TestPOL_01_ManifestsAreReadStrictly(t *testing.T) {
	files := func(text string) fstest.MapFS { return fstest.MapFS{"policies.yaml": {Data: []byte(text)}} }
	m, err := policy.ReadManifests(files(manifest))
	require.NoError(t, err)
	p, err := policy.Static(policy.Options{}, m)
	require.NoError(t, err)
	require.Equal(t, policy.StaticName, p.Name)

	const head = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: b}\n"
	for text, want := range map[string]string{
		head + "spec: {policy: x}":                                  `policies.yaml, document 1: unknown field "spec.policy"`,
		"apiVersion: v1\nkind: ConfigMap\n":                         `apiVersion "v1": must be admissionregistration.k8s.io/v1`,
		"apiVersion: admissionregistration.k8s.io/v1\nkind: Else\n": `kind "Else": must be ValidatingAdmissionPolicy or ValidatingAdmissionPolicyBinding`,
	} {
		_, err := policy.ReadManifests(files(text))
		require.ErrorContains(t, err, want)
	}
	m, err = policy.ReadManifests(files(head + "spec: {policyName: x, paramRef: {name: limits}, validationActions: [Shout]}"))
	require.NoError(t, err)
	_, err = policy.Static(policy.Options{}, m)
	require.ErrorContains(t, err, `ValidatingAdmissionPolicyBinding "b": spec.validationActions[0]: `)
	require.ErrorContains(t, err, "spec.paramRef: a static policy has no parameters")
	require.ErrorContains(t, err, "spec.policyName: must be the name of a static policy")
}
