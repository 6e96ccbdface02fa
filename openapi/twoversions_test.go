package openapi_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

// TestOAPI_01_BothVersionsAgree converts the operations of OpenAPI v3 to v2 and compares them with
// those of the v2 document. Each version is written by code of its own.
func TestOAPI_01_BothVersionsAgree(t *testing.T) {
	s := widget(t)
	status := meta.GroupVersionKind{Version: "v1", Kind: "Status"}
	documents := append(swagger(t).Documents, openapi.Document{Group: "apps.example.dev", Version: "v1", Kinds: []openapi.KindDoc{
		{Kind: "CustomResourceDefinition", Plural: "definitions", Verbs: allVerbs, Schema: s}, // so that patches have fieldValidation
		{Kind: "Shelf", Plural: "shelves", Verbs: allVerbs, Schema: s, Protobuf: true, Subresources: []openapi.SubresourceDoc{
			{Name: "log", Verbs: []string{"get"}, Details: map[string]openapi.VerbDoc{
				"get": {MediaType: "text/plain", Parameters: []openapi.Property{{Name: "lines", Schema: s.Properties[0].Schema}}},
			}},
			{Name: "exec", Verbs: []string{"get", "create"}, Details: map[string]openapi.VerbDoc{
				"get": {Connect: true, MediaType: "*/*"}, "create": {Connect: true, MediaType: "*/*"},
			}},
			{Name: "eviction", Verbs: []string{"create"}, Details: map[string]openapi.VerbDoc{
				"create": {Body: &openapi.DocumentDoc{Kind: meta.GroupVersionKind{Version: "v1", Kind: "Eviction"}, Schema: s}, Answer: &openapi.DocumentDoc{Kind: status}},
			}},
			{Name: "all", Verbs: []string{"get", "create", "update", "patch", "delete"}},
		}},
	}})
	want := map[string]any{}
	for _, d := range documents {
		data, err := d.JSON()
		require.NoError(t, err)
		for path, item := range tree(t, string(data))["paths"].(map[string]any) {
			for member, v := range item.(map[string]any) {
				if member == "parameters" {
					item.(map[string]any)[member] = parametersOfV2(v)
				} else {
					item.(map[string]any)[member] = operationOfV2(v.(map[string]any))
				}
			}
			want[path] = item
		}
	}
	data, err := openapi.Swagger{Documents: documents}.JSON()
	require.NoError(t, err)
	got := tree(t, string(data))["paths"].(map[string]any)
	var discovery []string // no document of v3 is about more than one group version
	for path := range got {
		if want[path] == nil {
			discovery = append(discovery, path)
			delete(got, path)
		}
	}
	require.ElementsMatch(t, []string{"/api/", "/apis/", "/apis/apps.example.dev/", "/apis/example.dev/", "/version/"}, discovery)
	require.Equal(t, want, got)
	require.Greater(t, len(want), 20)
}

func operationOfV2(operation map[string]any) map[string]any {
	parameters := parametersOfV2(operation["parameters"])
	if body, ok := operation["requestBody"].(map[string]any); ok {
		delete(operation, "requestBody")
		parameter := map[string]any{"in": "body", "name": "body"}
		operation["consumes"], parameter["schema"] = bodyOfV2(body)
		if body["required"] == true {
			parameter["required"] = true
		}
		parameters = append(parameters, parameter)
	}
	if len(parameters) > 0 {
		operation["parameters"] = parameters
	}
	for _, response := range operation["responses"].(map[string]any) {
		response := response.(map[string]any)
		if response["content"] != nil {
			operation["produces"], response["schema"] = bodyOfV2(response)
			delete(response, "content")
		}
	}
	return operation
}

func parametersOfV2(v any) (out []any) {
	list, _ := v.([]any)
	for _, item := range list {
		parameter := item.(map[string]any)
		schema := parameter["schema"].(map[string]any)
		delete(parameter, "schema")
		maps.Copy(parameter, schema)
		parameter["uniqueItems"] = true
		out = append(out, parameter)
	}
	return out
}

func bodyOfV2(body map[string]any) (types []any, schema any) {
	content := body["content"].(map[string]any)
	for _, mediaType := range slices.Sorted(maps.Keys(content)) {
		types, schema = append(types, mediaType), content[mediaType].(map[string]any)["schema"]
	}
	of := maps.Clone(schema.(map[string]any))
	if name, ok := of["$ref"].(string); ok {
		of["$ref"] = strings.Replace(name, "#/components/schemas/", "#/definitions/", 1)
	}
	return types, of
}
