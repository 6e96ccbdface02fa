package kube

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Finalizers of built-in kinds have a domain or are those of Kubernetes, as in kube-apiserver (META-13).
func TestMETA_13_FinalizersOfBuiltInKinds(t *testing.T) {
	s := serve(t, Options{})
	config := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"finalizers":[%q]}}`
	const path = "/api/v1/namespaces/default/configmaps"
	for name, code := range map[string]int{"plain": 422, "example.com/a": 201, "kubernetes": 201, "orphan": 201} {
		got, _ := s.do(t, "POST", path+"?dryRun=All", fmt.Sprintf(config, "a", name))
		assert.Equal(t, code, got, name)
	}
	code, answer := s.do(t, "POST", path, fmt.Sprintf(config, "a", "example.com/a"))
	require.Equal(t, 201, code, answer)
	code, answer = s.do(t, "PUT", path+"/a", fmt.Sprintf(config, "a", "plain"))
	assert.Equal(t, []string{"422 Invalid", "metadata.finalizers[0] FieldValueInvalid"}, refusal(code, answer))
	code, answer = s.do(t, "PUT", "/api/v1/namespaces/default",
		`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default","finalizers":["plain"]}}`)
	assert.Equal(t, 422, code, answer)
	code, answer = s.do(t, "POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
		`{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"a","finalizers":["plain"]}}`)
	assert.Equal(t, 201, code, answer)
}

// Some kinds are updated with a version only (UPDATE-08). The others are those of kube-apiserver 1.36.
func TestUPDATE_08_KindsThatNeedAVersion(t *testing.T) {
	s := serve(t, Options{})
	with := map[string]bool{
		"PodDisruptionBudget": true, "VolumeAttachment": true, "CSIDriver": true, "CSINode": true,
		"CSIStorageCapacity": true, "RuntimeClass": true, "Lease": true,
		"MutatingWebhookConfiguration": true, "ValidatingWebhookConfiguration": true,
		"ValidatingAdmissionPolicy": true, "ValidatingAdmissionPolicyBinding": true,
	}
	seen := map[string]bool{}
	for _, m := range manifests(t, s, "testdata/objects.yaml") {
		object := decoded(t, m)
		kind, name := word(object["kind"]), word(at(object, "metadata", "name"))
		if name == "" || kind == "Event" || seen[kind] {
			continue
		}
		if code, _ := s.do(t, "POST", m.path, m.text); code != 201 {
			continue
		}
		seen[kind] = true
		got := refusal(s.do(t, "PUT", m.path+"/"+name, m.text))
		missing := "metadata.resourceVersion FieldValueInvalid"
		if with[kind] {
			assert.Contains(t, got, missing, kind)
		} else {
			assert.NotContains(t, got, missing, kind)
		}
	}
	for kind := range with {
		assert.Contains(t, seen, kind)
	}
}

// A prefix is checked as the beginning of a name, even if it is not used (NAME-06, NAME-07).
func TestNAME_06_PrefixesAreChecked(t *testing.T) {
	s := serve(t, Options{})
	const path = "/api/v1/namespaces/default/configmaps?dryRun=All"
	body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{%s"generateName":%q}}`
	for prefix, code := range map[string]int{"a-": 201, "a--": 201, "a.b-": 201, "-": 422, "A": 422, "a_": 422, "": 201} {
		got, answer := s.do(t, "POST", path, fmt.Sprintf(body, `"name":"a",`, prefix))
		assert.Equal(t, code, got, "%q: %v", prefix, answer)
	}
	got := refusal(s.do(t, "POST", path, fmt.Sprintf(body, "", "A_")))
	assert.Equal(t, []string{"422 Invalid", "metadata.generateName FieldValueInvalid", "metadata.name FieldValueInvalid"}, got)
}
