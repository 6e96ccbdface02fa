package crd_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/meta"
)

// dials have the subresource status in one version only.
const dials = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"dials.shop.example.com"},
"spec":{"group":"shop.example.com","scope":"Namespaced","names":{"plural":"dials","kind":"Dial"},"versions":[
{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},
{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

// A version without the subresource status writes it on the main path. So it meets the owners of the status in
// the other version, which cannot write it there.
func TestSSA_18_SSA_31_TheStatusThroughAVersionThatDoesNotSetItApart(t *testing.T) {
	srv := start(t, crd.Kinds())
	establish(t, srv, dials)
	const v1, v2 = "/apis/shop.example.com/v1/namespaces/default/dials", "/apis/shop.example.com/v2/namespaces/default/dials"
	code, answer := call(t, srv, "POST", v1, `{"apiVersion":"shop.example.com/v1","kind":"Dial","metadata":{"name":"a"},"spec":{"x":1}}`)
	require.Equal(t, 201, code, "%v", answer)
	code, answer = sendPatch(t, srv, v1+"/a/status?fieldManager=watcher", meta.MergePatch, `{"status":{"at":7}}`)
	require.Equal(t, 200, code, "%v", answer)

	const config = `{"apiVersion":"shop.example.com/v2","kind":"Dial","metadata":{"name":"a"},"status":{"at":9}}`
	code, answer = sendPatch(t, srv, v2+"/a?fieldManager=m", meta.ApplyPatch, config)
	require.Equal(t, 409, code, "%v", answer)
	require.Equal(t, `Apply failed with 1 conflict: conflict with "watcher" with subresource "status" using shop.example.com/v1: .status.at`, answer["message"])

	code, answer = sendPatch(t, srv, v2+"/a?fieldManager=other", meta.MergePatch, `{"status":{"at":8}}`)
	require.Equal(t, 200, code, "%v", answer)
	require.NotContains(t, ownersOf(answer, "at"), "watcher", "it has lost the field to the manager other")
	code, answer = sendPatch(t, srv, v2+"/a?fieldManager=m&force=true", meta.ApplyPatch, config)
	require.Equal(t, 200, code, "%v", answer)
	require.Equal(t, []string{"m"}, ownersOf(answer, "at"))

	// The main path of the other version changes nothing of the status, so nobody loses it.
	code, answer = sendPatch(t, srv, v1+"/a?fieldManager=third", meta.MergePatch, `{"spec":{"x":2},"status":{"at":1}}`)
	require.Equal(t, 200, code, "%v", answer)
	require.Equal(t, []string{"m"}, ownersOf(answer, "at"))
}

// ownersOf lists the managers that own a field of the status.
func ownersOf(object map[string]any, field string) (out []string) {
	entries, _ := object["metadata"].(map[string]any)["managedFields"].([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		fields, _ := entry["fieldsV1"].(map[string]any)
		state, _ := fields["f:status"].(map[string]any)
		if _, owned := state["f:"+field]; owned {
			manager, _ := entry["manager"].(string)
			out = append(out, manager)
		}
	}
	return out
}

// A version that is no longer served keeps its owners: without a webhook, objects of it are made at no cost.
func TestSSA_18_OwnersThroughAVersionThatIsSwitchedOff(t *testing.T) {
	srv := start(t, crd.Kinds())
	establish(t, srv, dials)
	const v1, v2 = "/apis/shop.example.com/v1/namespaces/default/dials", "/apis/shop.example.com/v2/namespaces/default/dials"
	code, answer := sendPatch(t, srv, v2+"/a?fieldManager=two", meta.ApplyPatch,
		`{"apiVersion":"shop.example.com/v2","kind":"Dial","metadata":{"name":"a"},"spec":{"x":1,"y":1}}`)
	require.Equal(t, 201, code, "%v", answer)
	const definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/dials.shop.example.com"
	code, answer = sendPatch(t, srv, definition, meta.JSONPatch, `[{"op":"replace","path":"/spec/versions/1/served","value":false}]`)
	require.Equal(t, 200, code, "%v", answer)

	config := `{"apiVersion":"shop.example.com/v1","kind":"Dial","metadata":{"name":"a"},"spec":{"x":2}}`
	code, answer = sendPatch(t, srv, v1+"/a?fieldManager=one", meta.ApplyPatch, config)
	require.Equal(t, 409, code, "%v", answer)
	require.Equal(t, `Apply failed with 1 conflict: conflict with "two": .spec.x`, answer["message"])
	code, answer = sendPatch(t, srv, v1+"/a?fieldManager=other", meta.MergePatch, `{"spec":{"x":3}}`)
	require.Equal(t, 200, code, "%v", answer)
	entries := answer["metadata"].(map[string]any)["managedFields"].([]any)
	require.Len(t, entries, 2, "%v", entries)
	require.Equal(t, "two", entries[0].(map[string]any)["manager"])
	require.Equal(t, map[string]any{"f:spec": map[string]any{".": map[string]any{}, "f:y": map[string]any{}}}, entries[0].(map[string]any)["fieldsV1"])
}

// A version that is not served stays so, however often and in whatever way its definition changes.
func TestCRD_04_AVersionThatIsNotServedStaysSo(t *testing.T) {
	srv := start(t, crd.Kinds())
	establish(t, srv, text(t, multiVersion()))
	off := func(spec tree) {
		for _, v := range spec["versions"].([]any) {
			v.(tree)["served"] = v.(tree)["name"] != "v1alpha2"
		}
	}
	h := newHook(t)
	for i, change := range []func(spec tree){
		off, func(tree) {}, func(spec tree) { spec["names"].(tree)["categories"] = []any{"a"} }, func(spec tree) { spec["names"].(tree)["categories"] = []any{"b"} },
		storing("v1beta1"), func(spec tree) { spec["conversion"] = h.conversion("v1") }, func(spec tree) { spec["conversion"] = h.conversion("v1beta1") },
		storing("v1alpha2"), func(spec tree) { spec["names"].(tree)["categories"] = []any{"c"} },
	} {
		redefine(t, srv, change)
		code, answer := call(t, srv, "GET", objects("v1alpha2"), "")
		require.Equal(t, 404, code, "%d: %v", i, answer)
		code, answer = call(t, srv, "GET", "/apis/stable.example.com", "")
		require.Equal(t, 200, code)
		require.NotContains(t, fmt.Sprint(answer), "v1alpha2", "%d", i)
	}
}
