package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// managers are the field managers of an object, with their operations.
func managers(object map[string]any) []string {
	out := []string{}
	metadata, _ := object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	for _, e := range entries {
		e, _ := e.(map[string]any)
		out = append(out, fmt.Sprint(e["manager"], " ", e["operation"]))
	}
	return out
}

// send sends a body with a content type.
func (s *server) send(t *testing.T, method, path, contentType, body string) (int, map[string]any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Authorization", "Bearer master")
	return s.answer(t, request)
}

const (
	applyType = "application/apply-patch+yaml"
	mergeType = "application/merge-patch+json"
	configMap = "/api/v1/namespaces/default/configmaps"
)

// As in kube-apiserver, an empty list of managed fields ends their tracking, until the next apply.
func TestREAD_03_SSA_26_AnEmptyListEndsTracking(t *testing.T) {
	s := run(t, "--data-dir="+t.TempDir())
	const applied = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"k":"v"}}`
	code, out := s.send(t, "PATCH", configMap+"/c?fieldManager=ann", applyType, applied)
	require.Equal(t, 201, code, "%v", out)
	require.Equal(t, []string{"ann Apply"}, managers(out))
	code, out = s.do(t, "master", "PUT", configMap+"/c", `{"metadata":{"name":"c","managedFields":[]},"data":{"k":"v"}}`)
	require.Equal(t, 200, code, "%v", out)
	require.Empty(t, managers(out))
	code, out = s.send(t, "PATCH", configMap+"/c", mergeType, `{"data":{"l":"w"}}`)
	require.Equal(t, 200, code, "%v", out)
	require.Empty(t, managers(out))
	code, out = s.send(t, "PATCH", configMap+"/c?fieldManager=ann", applyType, applied)
	require.Equal(t, 200, code, "%v", out)
	require.Equal(t, []string{"ann Apply", "before-first-apply Update"}, managers(out))
}

// The stand-in reads JSON patches as the library of kube-apiserver does.
func TestPATCH_06_JSONPatchesAreReadAsInKubernetes(t *testing.T) {
	s := run(t, "--data-dir="+t.TempDir())
	code, out := s.do(t, "master", "POST", configMap, `{"metadata":{"name":"c","finalizers":["x.dev/a","x.dev/b"]},"data":{"k":"v"}}`)
	require.Equal(t, 201, code, "%v", out)
	code, out = s.send(t, "PATCH", configMap+"/c", "application/json-patch+json",
		`[{"op":"replace","path":"/data/new","value":"w"},{"op":"replace","path":"/metadata/finalizers/-1","value":"x.dev/c"}]`)
	require.Equal(t, 200, code, "%v", out)
	require.Equal(t, map[string]any{"k": "v", "new": "w"}, out["data"])
	metadata, _ := out["metadata"].(map[string]any)
	require.Equal(t, []any{"x.dev/a", "x.dev/c"}, metadata["finalizers"])
	code, out = s.send(t, "PATCH", configMap+"/c", "application/json-patch+json", `[{"op":"jump","path":"/data"}]`)
	require.Equal(t, 422, code, "%v", out)
}

// An object of nearly etcd's limit is stored without its managed fields. An apply, which needs them, is refused.
func TestSSA_ObjectsNearTheLimit(t *testing.T) {
	s := run(t, "--data-dir="+t.TempDir())
	var data strings.Builder
	for i := range 9000 {
		fmt.Fprintf(&data, `"a-key-that-takes-many-bytes-in-the-object-and-once-more-in-its-managed-fields-%d":"A",`, i)
	}
	code, out := s.do(t, "master", "POST", configMap, `{"metadata":{"name":"c"},"data":{`+strings.TrimSuffix(data.String(), ",")+`}}`)
	require.Equal(t, 201, code)
	require.Empty(t, managers(out))
	code, out = s.send(t, "PATCH", configMap+"/c?fieldManager=ann", applyType, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`)
	require.Equal(t, 413, code)
	require.Equal(t, "RequestEntityTooLarge", out["reason"])
}

// With the gate, names of policies that come from files are kept for those; without it, there is a warning.
func TestADM_NamesOfStaticPolicies(t *testing.T) {
	const path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
	const body = `{"metadata":{"name":"x.static.k8s.io"},"spec":{"policyName":"p","validationActions":["Deny"]}}`
	require.Contains(t, run(t, "--data-dir="+t.TempDir()).warnings(t, path, body), "are reserved for static manifest-based")
	code, out := run(t, "--data-dir="+t.TempDir(), "--feature-gates="+gateStaticNames+"=true").do(t, "master", "POST", path, body)
	require.Equal(t, 422, code)
	require.Contains(t, out["message"], "are reserved for static manifest-based configurations")
}

// Who applies the finalizers of a namespace owns them, and keeps them when somebody writes the status.
func TestSSA_31_FinalizersOfNamespacesAreOwned(t *testing.T) {
	s := run(t, "--data-dir="+t.TempDir())
	const head = `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}`
	code, out := s.send(t, "PATCH", "/api/v1/namespaces/n?fieldManager=ann", applyType, head+`,"spec":{"finalizers":["kubernetes"]}}`)
	require.Equal(t, 201, code, "%v", out)
	code, out = s.send(t, "PATCH", "/api/v1/namespaces/n/status?fieldManager=bob", applyType, head+`,"status":{"conditions":[{"type":"X","status":"True"}]}}`)
	require.Equal(t, 200, code, "%v", out)
	require.Contains(t, managers(out), "ann Apply")
	require.Contains(t, managers(out), "bob Apply")
}

// Nobody owns what every object of a Go type holds, such as the empty spec and the null lists; duplicates in a list with
// keys are owned as one. The count that the server keeps in an annotation of a daemon set belongs to who made the set.
func TestSSA_12_CreatedObjectsAreComparedWithTheEmptyOne(t *testing.T) {
	s := run(t, "--data-dir="+t.TempDir())
	code, out := s.do(t, "master", "POST", "/apis/apps/v1/namespaces/default/daemonsets?fieldManager=ann", `{"metadata":{"name":"d"},
		"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i",
		"env":[{"name":"A","value":"1"},{"name":"A","value":"2"}]}]}}}}`)
	require.Equal(t, 201, code, "%v", out)
	require.Equal(t, []string{"ann Update"}, managers(out))
	entry := out["metadata"].(map[string]any)["managedFields"].([]any)[0].(map[string]any)["fieldsV1"].(map[string]any)
	require.Equal(t, map[string]any{"f:annotations": map[string]any{".": map[string]any{}, "f:deprecated.daemonset.template.generation": map[string]any{}}}, entry["f:metadata"])
	require.NotContains(t, entry, "f:status")
	at := entry
	for _, field := range []string{"f:spec", "f:template", "f:spec", "f:containers"} {
		at = at[field].(map[string]any)
		require.NotContains(t, at, ".", field)
	}
	require.Equal(t, map[string]any{".": map[string]any{}, `k:{"name":"A"}`: map[string]any{}}, at[`k:{"name":"c"}`].(map[string]any)["f:env"])
}

// As with kube-apiserver, only what an event says of its repetition changes, and nobody but the server
// says when an object is to be deleted.
func TestUpdatesThatKubeAPIServerRefuses(t *testing.T) {
	s := run(t, "--data-dir="+t.TempDir())
	const events = "/apis/events.k8s.io/v1/namespaces/default/events"
	event := func(more string) string {
		return `{"metadata":{"name":"e"},"eventTime":"2020-01-02T03:04:05.000006Z","regarding":{"namespace":"default","kind":"Pod","name":"x"},` +
			`"reason":"r","type":"Normal","reportingController":"example.com/c","reportingInstance":"i","action":"a"` + more + `}`
	}
	code, out := s.do(t, "master", "POST", events, event(`,"deprecatedCount":1`))
	require.Equal(t, 422, code, "%v", out)
	code, out = s.do(t, "master", "POST", events, event(""))
	require.Equal(t, 201, code, "%v", out)
	for patch, want := range map[string]int{
		`{"note":"other"}`: 422, `{"regarding":{"name":"y"}}`: 422, `{"series":{"count":1,"lastObservedTime":"2020-01-02T03:04:05.000006Z"}}`: 422,
		`{"series":{"count":2,"lastObservedTime":"2020-01-02T03:04:05.000006Z"}}`: 200, `{"metadata":{"labels":{"a":"b"}}}`: 200,
		`{"metadata":{"deletionTimestamp":"2020-01-02T03:04:05Z"}}`: 422, `{"metadata":{"deletionGracePeriodSeconds":5}}`: 422,
	} {
		code, out = s.send(t, "PATCH", events+"/e", mergeType, patch)
		require.Equal(t, want, code, "%s: %v", patch, out)
	}
}
