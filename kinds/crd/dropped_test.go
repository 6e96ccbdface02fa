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
		{[]crd.Option{crd.WithoutFieldSelectors(), crd.WithoutOptionalOldSelf()}, "POST", false},
		{[]crd.Option{crd.WithoutFieldSelectors(), crd.WithoutOptionalOldSelf()}, "PUT", false},
		{nil, "PUT", true},
		{[]crd.Option{crd.WithoutFieldSelectors(), crd.WithoutOptionalOldSelf()}, "PUT", true},
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
