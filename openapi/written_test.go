package openapi_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/openapi"
)

// undescribed removes the descriptions of the fields that every object has, which are our own.
func undescribed(v any) any {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			undescribed(item)
		}
	case map[string]any:
		for name, member := range v {
			field, ok := member.(map[string]any)
			if ok && (name == "apiVersion" || name == "kind" || name == "metadata") {
				delete(field, "description")
			}
			undescribed(member)
		}
	}
	return v
}

// foos is a document with one kind, whose schema is a document itself.
func foos(t *testing.T, schema string) openapi.Document {
	s, errs := openapi.FromTree(tree(t, schema))
	require.Empty(t, errs)
	return openapi.Document{Group: "g.example.com", Version: "v1", Kinds: []openapi.KindDoc{{
		Kind: "Foo", ListKind: "FooList", Plural: "foos", Namespaced: true, Schema: s, Selectable: []string{"spec.a"}, Verbs: []string{"get", "list"},
	}}}
}

// The schemas of custom resources are published as kube-apiserver 1.36 publishes them; the file holds
// what it said.
func TestOAPI_04_SchemasOfDocumentsAsKubernetesPublishesThem(t *testing.T) {
	data, err := os.ReadFile("testdata/published.jsonl")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	require.Len(t, lines, 15)
	for _, line := range lines {
		c := tree(t, line)
		doc := foos(t, encode(t, c["schema"]))
		three, err := doc.JSON()
		require.NoError(t, err)
		got := undescribed(at(tree(t, string(three)), "components", "schemas", "com.example.g.v1.Foo"))
		require.Equal(t, c["v3"], got, "%s in v3", c["name"])
		two, err := openapi.Swagger{Documents: []openapi.Document{doc}}.JSON()
		require.NoError(t, err)
		got = undescribed(at(tree(t, string(two)), "definitions", "com.example.g.v1.Foo"))
		require.Equal(t, c["v2"], got, "%s in v2", c["name"])
		_, err = openapi.Swagger{Documents: []openapi.Document{doc}}.Protobuf()
		require.NoError(t, err)
	}
}

// Lists tell the selectable fields as well.
func TestDocument_SelectableFieldsOfLists(t *testing.T) {
	three, err := foos(t, `{"type":"object"}`).JSON()
	require.NoError(t, err)
	list := at(tree(t, string(three)), "components", "schemas", "com.example.g.v1.FooList")
	require.Equal(t, []any{map[string]any{"fieldPath": "spec.a"}}, at(list, "x-kubernetes-selectable-fields"))
}
