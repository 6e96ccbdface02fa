package policy_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/policy"
	"github.com/kindwright/kindwright/meta"
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
		"apiVersion: admissionregistration.k8s.io/v1\nkind: Else\n": `kind "Else": must be ValidatingAdmissionPolicy, MutatingAdmissionPolicy or one of their bindings`,
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

// Manifests are replaced as a whole: what is wrong changes nothing, and what stays the same stays compiled.
func TestPOL_01_ManifestsAreReplacedAsAWhole(t *testing.T) {
	read := func(text string) policy.Manifests {
		m, err := policy.ReadManifests(fstest.MapFS{"a.yaml": {Data: []byte(text)}})
		require.NoError(t, err)
		return m
	}
	const mutating = `
apiVersion: v1
kind: List
items:
- apiVersion: admissionregistration.k8s.io/v1
  kind: MutatingAdmissionPolicy
  metadata: {name: m.static.k8s.io}
  spec:
    reinvocationPolicy: Never
    matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
    mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{}"}}]
- apiVersion: admissionregistration.k8s.io/v1
  kind: MutatingAdmissionPolicyBinding
  metadata: {name: m.static.k8s.io}
  spec: {policyName: m.static.k8s.io}
`
	s := policy.NewStatics(policy.Options{})
	require.NoError(t, s.Replace(read(manifest+"---\n"+mutating)))
	delete := &admission.Request{Operation: admission.Delete, Resource: meta.GroupVersionResource{Group: "a", Version: "v1", Resource: "bs"}}
	require.Error(t, s.Validating().Validator.Validate(t.Context(), delete))
	require.ErrorContains(t, s.Replace(read(strings.ReplaceAll(mutating, "policyName: m", "policyName: n"))), "must be the name of a static policy")
	require.Error(t, s.Validating().Validator.Validate(t.Context(), delete), "the last good ones count")
	require.NoError(t, s.Replace(read(mutating)))
	require.NoError(t, s.Validating().Validator.Validate(t.Context(), delete))
	_, err := policy.Static(policy.Options{}, read(mutating))
	require.ErrorContains(t, err, "NewStatics")

	_, err = policy.ReadManifests(fstest.MapFS{"a.yaml": {Data: []byte("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod}]\n")}})
	require.ErrorContains(t, err, "items[0]: apiVersion")
}

func TestPOL_01_MutatingManifests(t *testing.T) {
	m, err := policy.ReadManifests(fstest.MapFS{"a.yaml": {Data: []byte(`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: five.static.k8s.io}
spec:
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]}
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "replace", path: "/spec/replicas", value: 55}]'}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: five.static.k8s.io}
spec: {policyName: five.static.k8s.io}
`)}})
	require.NoError(t, err)
	s := policy.NewStatics(policy.Options{})
	plugin := s.Mutating()
	require.Equal(t, policy.StaticMutatingName, plugin.Name)
	replicas := func() any {
		r := deployment()
		r.Object["apiVersion"], r.Object["kind"], r.Server = "apps/v1", "Deployment", merger{}
		require.True(t, plugin.Handles(admission.Target{Operation: r.Operation, Resource: r.Resource}))
		require.False(t, plugin.Handles(admission.Target{Operation: admission.Delete, Resource: r.Resource}))
		out, err := plugin.Mutator.Mutate(t.Context(), r)
		require.NoError(t, err)
		if out == nil {
			return nil
		}
		return out["spec"].(map[string]any)["replicas"]
	}
	require.NotEqual(t, int64(55), replicas())
	require.NoError(t, s.Replace(m))
	require.Equal(t, int64(55), replicas())
	require.NoError(t, s.Replace(policy.Manifests{}))
	require.NotEqual(t, int64(55), replicas())
}
