package overlay_test

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kindwright/kindwright/examples/kube/overlay"
	"github.com/kindwright/kindwright/openapi"
)

// stable are the kinds of k8s.io/api that the published documents are about.
func stable(t require.TestingT) map[schema.GroupVersionKind]reflect.Type {
	names := published(t)
	out := map[schema.GroupVersionKind]reflect.Type{}
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		if _, isObject := reflect.New(typ).Interface().(metav1.Object); isObject && names[modelName(typ)] != nil {
			out[gvk] = typ
		}
	}
	return out
}

func modelName(t reflect.Type) string {
	if named, ok := reflect.New(t).Interface().(interface{ OpenAPIModelName() string }); ok {
		return named.OpenAPIModelName()
	}
	return ""
}

func published(t require.TestingT) map[string]map[string]any {
	text, err := os.ReadFile("testdata/published.json")
	require.NoError(t, err)
	var out map[string]map[string]any
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}

// schemas are those of all stable kinds.
func schemas(t require.TestingT) map[schema.GroupVersionKind]*openapi.Schema {
	o, err := overlay.Parse()
	require.NoError(t, err)
	out := map[schema.GroupVersionKind]*openapi.Schema{}
	var types openapi.Types
	for gvk, typ := range stable(t) {
		s, err := types.Schema(typ, openapi.WithOverlay(o))
		require.NoError(t, err, gvk)
		out[gvk] = s
	}
	require.Greater(t, len(out), 70)
	return out
}

// Every type, every field: how it merges, its default, the values that it may have, whether it is required, its format.
func TestOAPI_05_SchemasAreAsPublished(t *testing.T) {
	byVersion := map[schema.GroupVersion][]openapi.KindDoc{}
	for gvk, s := range schemas(t) {
		byVersion[gvk.GroupVersion()] = append(byVersion[gvk.GroupVersion()], openapi.KindDoc{Kind: gvk.Kind, Plural: strings.ToLower(gvk.Kind) + "s", Schema: s})
	}
	ours := map[string]map[string]any{}
	for gv, kinds := range byVersion {
		text, err := openapi.Document{Group: gv.Group, Version: gv.Version, Kinds: kinds}.JSON()
		require.NoError(t, err)
		var document struct {
			Components struct{ Schemas map[string]map[string]any }
		}
		require.NoError(t, json.Unmarshal(text, &document))
		for name, s := range document.Components.Schemas {
			ours[name] = s
		}
	}
	compared, fields := 0, 0
	for name, want := range published(t) {
		if strings.HasSuffix(name, ".DeleteOptions") || strings.HasSuffix(name, ".Preconditions") {
			continue // every document has ours
		}
		require.NotNil(t, ours[name], name)
		got, want := normal(ours[name]), normal(want)
		properties, _ := want["properties"].(map[string]any)
		of, _ := got["properties"].(map[string]any)
		for field, p := range properties {
			fields++
			assert.Equal(t, p, of[field], name+"."+field)
		}
		assert.Len(t, of, len(properties), name)
		delete(got, "properties")
		delete(want, "properties")
		assert.Equal(t, want, got, name)
		compared++
	}
	require.Greater(t, compared, 500)
	require.Greater(t, fields, 2000)
	t.Logf("%d types, %d fields", compared, fields)
}

// normal is a schema without what is for readers alone, and with what both say in other words in the same.
func normal(v map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range v {
		switch key {
		case "description", "x-kubernetes-group-version-kind", "x-kubernetes-preserve-unknown-fields":
			continue // the last is how we say what Kubernetes leaves unsaid
		case "x-kubernetes-int-or-string":
			return map[string]any{"format": "int-or-string", "oneOf": v["anyOf"]}
		case "default":
			if value == "" {
				continue // of keys that nobody has to send: it is what Go has
			}
		case "allOf": // a reference with words of its own beside it
			if list, ok := value.([]any); ok && len(list) == 1 {
				out["$ref"] = list[0].(map[string]any)["$ref"]
				continue
			}
		case "properties":
			properties := map[string]any{}
			for field, p := range value.(map[string]any) {
				properties[field] = normal(p.(map[string]any))
			}
			out[key] = properties
			continue
		case "required", "enum":
			list := slices.DeleteFunc(slices.Clone(value.([]any)), func(v any) bool { return v == "metadata" }) // which every object has
			if len(list) == 0 {
				continue
			}
			slices.SortFunc(list, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
			out[key] = list
			continue
		}
		if object, ok := value.(map[string]any); ok {
			value = normal(object)
		}
		out[key] = value
	}
	return out
}
