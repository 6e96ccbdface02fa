package crd_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/kinds/crd"
)

// at returns what is at a path of an object, such as status/acceptedNames, or nil.
func at(object map[string]any, path string) any {
	var now any = object
	for _, name := range strings.Split(path, "/") {
		object, _ := now.(map[string]any)
		now = object[name]
	}
	return now
}

// owners returns the field managers of an object, and what each owns of a part of it.
func owners(answer map[string]any, part string) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, v := range at(answer, "metadata/managedFields").([]any) {
		entry := v.(map[string]any)
		owned, _ := entry["fieldsV1"].(map[string]any)[part].(map[string]any)
		out[entry["manager"].(string)] = owned
	}
	return out
}

// A new definition answers with the status that kube-apiserver stores, and nobody owns what is blank in it.
func TestCRD_05_ANewDefinitionHasABlankStatus(t *testing.T) {
	srv := start(t, crd.Kinds())
	code, answer := call(t, srv, "POST", definitions+"?fieldManager=me", shirts)
	require.Equal(t, 201, code, "%v", answer)
	require.Equal(t, map[string]any{
		"acceptedNames": map[string]any{"kind": "", "plural": ""}, "storedVersions": []any{"v1"},
	}, answer["status"])
	mine := owners(answer, "f:spec")["me"]
	require.NotContains(t, mine, ".")
	require.Equal(t, []string{"f:kind", "f:listKind", "f:plural", "f:shortNames", "f:singular"}, slices.Sorted(maps.Keys(mine["f:names"].(map[string]any))))

	answer = until(t, srv, "shirts.shop.example.com", "Established", "True InitialNamesAccepted: the initial names have been accepted")
	require.NotContains(t, owners(answer, "f:status")["kube-apiserver"]["f:acceptedNames"], ".")
}

// Who has migrated the objects of a definition may take versions away. The status never says that there are
// none.
func TestCRD_05_StoredVersionsAreThoseThatAreWritten(t *testing.T) {
	srv := start(t, crd.Kinds())
	establish(t, srv, shirts)
	for sent, want := range map[string][]any{`["v1","v0"]`: {"v1", "v0"}, `["v0"]`: {"v0"}, `[]`: {"v1"}, `null`: {"v1"}} {
		code, answer := patch(t, srv, definitions+"/shirts.shop.example.com/status", `{"status":{"storedVersions":`+sent+`}}`)
		require.Equal(t, 200, code, "%v", answer)
		require.Equal(t, want, at(answer, "status/storedVersions"), sent)
	}
	code, answer := patch(t, srv, definitions+"/shirts.shop.example.com/status", `{"status":null}`)
	require.Equal(t, 200, code, "%v", answer)
	require.Equal(t, map[string]any{"kind": "", "plural": ""}, at(answer, "status/acceptedNames"))
}

// The end of a definition changes neither its generation nor how long it takes, whatever the request says of
// its dependents, and what is refused is named as it is in its namespace.
func TestCRD_21_TheEndOfADefinition(t *testing.T) {
	srv := start(t, crd.Kinds())
	establish(t, srv, changed(t, shirts, map[string]any{"metadata/finalizers": []any{"example.com/held"}}))
	code, answer := call(t, srv, "DELETE", definitions+"/shirts.shop.example.com?propagationPolicy=Orphan", "")
	require.Equal(t, 200, code, "%v", answer)
	require.Equal(t, 1.0, at(answer, "metadata/generation"))
	require.NotContains(t, answer["metadata"], "deletionGracePeriodSeconds")
	require.Equal(t, []any{"example.com/held", "customresourcecleanup.apiextensions.k8s.io"}, at(answer, "metadata/finalizers"))

	code, answer = call(t, srv, "POST", "/apis/shop.example.com/v1/namespaces/default/shirts", `{"apiVersion":"shop.example.com/v1","kind":"Shirt","metadata":{"name":"a"}}`)
	require.Equal(t, 403, code, "%v", answer)
	require.Equal(t, `shirts.shop.example.com "a" is forbidden: create not allowed while custom resource definition is terminating`, answer["message"])
	require.Equal(t, "a", at(answer, "details/name"))
}

// Nothing is stored in a version when no version is the storage version, and rules are shown as they are in JSON.
func TestCRD_05_ValuesAreShownAsInKubernetes(t *testing.T) {
	srv := start(t, crd.Kinds())
	code, answer := call(t, srv, "POST", definitions, strings.Replace(shirts, `"storage":true`, `"storage":false`, 1))
	require.Equal(t, 422, code, "%v", answer)
	require.Contains(t, answer["message"], `status.storedVersions: Invalid value: null: must have at least one stored version`)

	code, answer = call(t, srv, "POST", definitions, strings.Replace(shirts, `"minimum":1`, `"x-kubernetes-validations":[{"rule":"self.a > 0 && true"}]`, 1))
	require.Equal(t, 422, code, "%v", answer)
	require.Contains(t, answer["message"], `Invalid value: {"Rule":"self.a \u003e 0 \u0026\u0026 true",`)
	require.Contains(t, answer["message"], "| self.a > 0 && true")
}
