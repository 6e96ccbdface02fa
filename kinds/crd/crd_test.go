package crd_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/kinds/crd"
)

const shirts = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"shirts.shop.example.com"},
"spec":{"group":"shop.example.com","scope":"Namespaced","names":{"plural":"shirts","kind":"Shirt","shortNames":["sh"]},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"color":{"type":"string","default":"white"},"size":{"type":"integer","minimum":1}}},
"status":{"type":"object","properties":{"washed":{"type":"boolean"}}}}}}}]}}`

// A subresource that the version of a custom resource does not have is an object that is not there.
func TestCRD_ASubresourceThatIsNotThere(t *testing.T) {
	srv := start(t, crd.Kinds())
	establish(t, srv, shirts)
	for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
		for _, sub := range []string{"scale", "exec"} {
			code, answer := call(t, srv, method, "/apis/shop.example.com/v1/namespaces/default/shirts/a/"+sub, "{}")
			require.Equal(t, 404, code, "%v", answer)
			require.Equal(t, `shirts.shop.example.com "a" not found`, answer["message"])
			require.Equal(t, map[string]any{"group": "shop.example.com", "kind": "shirts", "name": "a"}, answer["details"])
		}
	}
	code, answer := call(t, srv, "GET", "/apis/shop.example.com/v1/shirts/a/scale", "")
	require.Equal(t, 404, code)
	require.Equal(t, "the server could not find the requested resource", answer["message"])
}

// call sends a request and returns the decoded answer.
func call(t *testing.T, srv *apitest.Server, method, path, body string) (int, map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	answer, err := srv.Client().Do(r)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	var out map[string]any
	require.NoError(t, json.Unmarshal(data, &out), "%s", data)
	return answer.StatusCode, out
}

// establish sends a definition and waits until it is established.
func establish(t *testing.T, srv *apitest.Server, document string) {
	t.Helper()
	code, answer := call(t, srv, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", document)
	require.Equal(t, 201, code, "%v", answer)
	await(t, srv, answer["metadata"].(map[string]any)["name"].(string), "Established", "True")
}

// await waits until a condition of a definition has a status.
func await(t *testing.T, srv *apitest.Server, name, condition, want string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, answer := call(t, srv, "GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+name, "")
		status, _ := answer["status"].(map[string]any)
		conditions, _ := status["conditions"].([]any)
		for _, v := range conditions {
			if c := v.(map[string]any); c["type"] == condition {
				return c["status"] == want
			}
		}
		return false
	}, time.Minute, time.Millisecond)
}

func TestCRD_01_ADefinitionIsServedWithoutARestart(t *testing.T) {
	srv := start(t, crd.Kinds())
	establish(t, srv, shirts)
	const objects = "/apis/shop.example.com/v1/namespaces/default/shirts"
	code, answer := call(t, srv, "POST", objects, `{"apiVersion":"shop.example.com/v1","kind":"Shirt","metadata":{"name":"a"},"spec":{"size":3,"odd":1}}`)
	require.Equal(t, 201, code, "%v", answer)
	require.Equal(t, map[string]any{"size": 3.0, "color": "white"}, answer["spec"])
	code, answer = call(t, srv, "GET", objects, "")
	require.Equal(t, 200, code)
	require.Equal(t, "ShirtList", answer["kind"])
	require.Len(t, answer["items"], 1)

	_, now := call(t, srv, "GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/shirts.shop.example.com", "")
	status := now["status"].(map[string]any)
	require.Equal(t, []any{"v1"}, status["storedVersions"])
	require.Equal(t, map[string]any{"plural": "shirts", "singular": "shirt", "kind": "Shirt", "listKind": "ShirtList", "shortNames": []any{"sh"}}, status["acceptedNames"])
}

func TestCRD_21_ADefinitionTakesItsObjectsWithIt(t *testing.T) {
	srv := start(t, crd.Kinds())
	establish(t, srv, shirts)
	const objects = "/apis/shop.example.com/v1/namespaces/default/shirts"
	code, answer := call(t, srv, "POST", objects, `{"apiVersion":"shop.example.com/v1","kind":"Shirt","metadata":{"name":"a","finalizers":["example.com/hold"]}}`)
	require.Equal(t, 201, code, "%v", answer)

	const definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/shirts.shop.example.com"
	code, answer = call(t, srv, "DELETE", definition, "")
	require.Equal(t, 200, code, "%v", answer)
	_, answer = call(t, srv, "GET", definition, "")
	require.Equal(t, []any{"customresourcecleanup.apiextensions.k8s.io"}, answer["metadata"].(map[string]any)["finalizers"])
	require.Eventually(t, func() bool {
		code, answer = call(t, srv, "POST", objects, `{"apiVersion":"shop.example.com/v1","kind":"Shirt","metadata":{"generateName":"b"}}`)
		return code == 403
	}, time.Minute, time.Millisecond)
	require.Contains(t, answer["message"], "create not allowed while custom resource definition is terminating")

	code, answer = call(t, srv, "GET", objects+"/a", "")
	require.Equal(t, 200, code, "it is reachable while it ends: %v", answer)
	for { // a second object may have been created before
		code, answer = call(t, srv, "PUT", objects+"/a", `{"apiVersion":"shop.example.com/v1","kind":"Shirt","metadata":{"name":"a","resourceVersion":"`+
			answer["metadata"].(map[string]any)["resourceVersion"].(string)+`"}}`)
		if code == 200 {
			break
		}
		_, answer = call(t, srv, "GET", objects+"/a", "")
	}
	require.Eventually(t, func() bool {
		gone, _ := call(t, srv, "GET", definition, "")
		served, _ := call(t, srv, "GET", objects, "")
		return gone == 404 && served == 404
	}, time.Minute, time.Millisecond)

	establish(t, srv, shirts)
	_, answer = call(t, srv, "GET", objects, "")
	require.Empty(t, answer["items"])
}

func TestCRD_04_AChangedDefinitionReplacesTheKind(t *testing.T) {
	srv := start(t, crd.Kinds())
	establish(t, srv, shirts)
	const objects = "/apis/shop.example.com/v1/namespaces/default/shirts"
	const definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/shirts.shop.example.com"
	_, now := call(t, srv, "GET", definition, "")
	now["metadata"].(map[string]any)["managedFields"] = nil
	body, err := json.Marshal(now)
	require.NoError(t, err)
	code, answer := call(t, srv, "PUT", definition, strings.Replace(string(body), `"white"`, `"blue"`, 1))
	require.Equal(t, 200, code, "%v", answer)
	require.Eventually(t, func() bool {
		code, answer := call(t, srv, "POST", objects, `{"apiVersion":"shop.example.com/v1","kind":"Shirt","metadata":{"generateName":"a"},"spec":{}}`)
		require.Equal(t, 201, code, "%v", answer)
		return answer["spec"].(map[string]any)["color"] == "blue"
	}, time.Minute, time.Millisecond)
}
