package crd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/storage/memory"
)

// What the server does not have is dropped from new definitions, and stays in those that have it.
func TestCRD_FieldsOfFeaturesThatAreOffAreDropped(t *testing.T) {
	schema := map[string]any{"type": "object", "properties": map[string]any{"color": map[string]any{
		"type": "string", "x-kubernetes-validations": []any{map[string]any{"rule": "oldSelf != oldSelf || self != 'x'", "optionalOldSelf": true}},
	}, "optionalOldSelf": map[string]any{"type": "string"}}}
	one := version("v1", true, schema)
	one["selectableFields"] = []any{map[string]any{"jsonPath": ".color"}}
	document := changed(t, shirts, map[string]any{"spec/versions": []any{one}})
	db := memory.New()
	for _, step := range []struct {
		options []crd.Option
		method  string
		kept    bool
	}{
		{[]crd.Option{crd.WithoutFieldSelectors(), crd.WithoutRatcheting()}, "POST", false},
		{[]crd.Option{crd.WithoutFieldSelectors(), crd.WithoutRatcheting()}, "PUT", false},
		{nil, "PUT", true},
		{[]crd.Option{crd.WithoutFieldSelectors(), crd.WithoutRatcheting()}, "PUT", true},
	} {
		t.Run(fmt.Sprintf("%s %v", step.method, step.kept), func(t *testing.T) {
			srv := apitest.Config{Backend: db}.New(t, crd.Kinds(step.options...))
			var code int
			var answer map[string]any
			for code = 409; code == 409; { // the controller writes conditions meanwhile
				path, body := definitions, document
				if step.method == "PUT" {
					path += "/shirts.shop.example.com"
					_, now := call(t, srv, "GET", path, "")
					metadata, _ := now["metadata"].(map[string]any)
					body = changed(t, document, map[string]any{"metadata/resourceVersion": metadata["resourceVersion"]})
				}
				code, answer = call(t, srv, step.method, path, body)
			}
			require.Less(t, code, 300, "%v", answer)
			text, err := json.Marshal(answer["spec"])
			require.NoError(t, err)
			require.Equal(t, step.kept, bytes.Contains(text, []byte(`"selectableFields"`)))
			require.Equal(t, step.kept, bytes.Contains(text, []byte(`"optionalOldSelf":true`)))
			require.Contains(t, string(text), `"optionalOldSelf":{"type"`, "a property of that name")
		})
	}
}

// Without ratcheting, an update is judged as a whole: by the schema, by its rules, but not by the types of
// lists that the object broke before.
func TestCRD_14_UpdatesWithoutRatchetingAreJudgedAsAWhole(t *testing.T) {
	loose := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	tight := map[string]any{"type": "object", "properties": map[string]any{
		"color": map[string]any{"type": "string", "enum": []any{"red", "blue"}},
		"size":  map[string]any{"type": "integer", "x-kubernetes-validations": []any{map[string]any{"rule": "self < 3"}}},
		"tags":  map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "x-kubernetes-list-type": "set"},
		"note":  map[string]any{"type": "string"},
	}}
	for _, c := range []struct {
		options []crd.Option
		spec    string
		code    int
	}{
		{nil, `{"color":"green","size":1}`, 200},
		{nil, `{"color":"red","size":5}`, 200},
		{[]crd.Option{crd.WithoutRatcheting()}, `{"color":"green","size":1}`, 422},
		{[]crd.Option{crd.WithoutRatcheting()}, `{"color":"red","size":5}`, 422},
		{[]crd.Option{crd.WithoutRatcheting()}, `{"color":"red","tags":["a","a"]}`, 200},
		{[]crd.Option{crd.WithoutRatcheting()}, `{"color":"red","size":1}`, 200},
	} {
		t.Run(fmt.Sprint(len(c.options), c.spec), func(t *testing.T) {
			db := memory.New()
			one := func(spec map[string]any) map[string]any {
				return version("v1", true, map[string]any{"type": "object", "properties": map[string]any{"spec": spec}})
			}
			srv := apitest.Config{Backend: db}.New(t, crd.Kinds(c.options...))
			establish(t, srv, changed(t, shirts, map[string]any{"spec/versions": []any{one(loose)}}))
			const path = "/apis/shop.example.com/v1/namespaces/default/shirts"
			code, made := call(t, srv, "POST", path, `{"apiVersion":"shop.example.com/v1","kind":"Shirt","metadata":{"name":"a"},"spec":`+c.spec+`}`)
			require.Equal(t, 201, code, "%v", made)
			code, answer := replace(t, srv, definitions+"/shirts.shop.example.com", func(now tree) {
				now["spec"].(tree)["versions"] = []any{one(tight)}
			})
			require.Equal(t, 200, code, "%v", answer)
			code, answer = replace(t, srv, path+"/a", func(now tree) { now["spec"].(tree)["note"] = "changed" })
			require.Equal(t, c.code, code, "%v", answer)
		})
	}
}
