package crd_test

import (
	"context"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/registry"
)

// A program converts the objects of a definition itself, whatever strategy the definition has.
func TestCRD_19_AFunctionConvertsTheObjectsOfADefinition(t *testing.T) {
	fields := map[string]string{"shop.example.com/v1": "size", "shop.example.com/v2": "width"}
	convert := func(_ context.Context, to string, objects []registry.Tree) ([]registry.Tree, error) {
		out := make([]registry.Tree, len(objects))
		for i, object := range objects {
			spec, _ := object["spec"].(map[string]any)
			from, _ := object["apiVersion"].(string)
			out[i] = maps.Clone(object)
			out[i]["apiVersion"] = to
			out[i]["spec"] = map[string]any{fields[to]: spec[fields[from]]}
		}
		return out, nil
	}
	srv := start(t, crd.Kinds(crd.Convert("hats.shop.example.com", convert)))
	establish(t, srv, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"hats.shop.example.com"},
"spec":{"group":"shop.example.com","scope":"Cluster","names":{"plural":"hats","kind":"Hat"},"versions":[
{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"}}}}}}},
{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"width":{"type":"integer"}}}}}}}]}}`)
	code, answer := call(t, srv, "POST", "/apis/shop.example.com/v2/hats", `{"apiVersion":"shop.example.com/v2","kind":"Hat","metadata":{"name":"a"},"spec":{"width":7}}`)
	require.Equal(t, 201, code, "%v", answer)
	require.Equal(t, map[string]any{"width": 7.0}, answer["spec"])
	_, answer = call(t, srv, "GET", "/apis/shop.example.com/v1/hats/a", "")
	require.Equal(t, map[string]any{"size": 7.0}, answer["spec"])
}
