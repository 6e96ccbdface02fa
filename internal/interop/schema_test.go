package interop

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"

	kwjson "github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

// objects is the number of objects of each type that are compared.
const objects = 5

// objectFiller fills the types that only larger objects have.
func objectFiller(seed int64) *randfill.Filler {
	return filler(seed).NumElements(0, 2).MaxDepth(12).Funcs(
		func(r *runtime.RawExtension, c randfill.Continue) { r.Raw = []byte(raws[c.Intn(len(raws))]) },
		func(i *intstr.IntOrString, c randfill.Continue) {
			if *i = intstr.FromInt32(c.Int31()); c.Bool() {
				*i = intstr.FromString(text(c))
			}
		},
		func(j *apiextensionsv1.JSON, c randfill.Continue) { j.Raw = []byte(raws[c.Intn(len(raws))]) },
		func(j *apiextensionsv1beta1.JSON, c randfill.Continue) { j.Raw = []byte(raws[c.Intn(len(raws))]) },
		func(j *apiextensionsv1.JSONSchemaPropsOrStringArray, c randfill.Continue) {
			if *j = (apiextensionsv1.JSONSchemaPropsOrStringArray{Property: []string{text(c)}}); c.Bool() {
				*j = apiextensionsv1.JSONSchemaPropsOrStringArray{Schema: &apiextensionsv1.JSONSchemaProps{Title: text(c)}}
			}
		},
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(c.Int63n(1<<40), resource.DecimalSI)
		},
	)
}

// Every type of k8s.io/api has a schema, derived only from tags and methods, that covers every
// field that the type writes.
func TestOAPI_05_SchemasOfKubernetesTypes(t *testing.T) {
	types := map[string]reflect.Type{}
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		_, isObject := reflect.New(typ).Interface().(metav1.Object)
		if isObject && gvk.Version != "__internal" { // custom resource definitions contain themselves; Helm links them
			types[gvk.GroupVersion().WithKind(gvk.Kind).String()] = typ
		}
	}
	require.Greater(t, len(types), 100)
	require.Contains(t, types, "apiextensions.k8s.io/v1, Kind=CustomResourceDefinition")
	var schemas openapi.Types
	for name, typ := range types {
		s, err := schemas.Schema(typ, openapi.RequiredWhenTagged())
		require.NoError(t, err, name)
		if !strings.HasPrefix(name, "apiextensions.k8s.io/") { // that group describes itself only in comments
			require.NotEmpty(t, s.Description, name)
		}
		for seed := range int64(objects) {
			filled := reflect.New(typ).Interface()
			objectFiller(seed).Fill(filled)
			_, text, err := viaJSON(typ, filled)
			require.NoError(t, err, name)
			v, err := kwjson.DecodeTree(text, kwjson.TreeOptions{})
			require.NoError(t, err)
			object := v.(map[string]any)
			_, unknown := s.Prune(object)
			require.Empty(t, unknown, "%s: %s", name, clip(text))
			canonical, problems := s.Canonical(object)
			require.Empty(t, problems, "%s: %s", name, clip(text))
			for _, p := range s.Validate(canonical) {
				require.Equal(t, meta.CauseFieldValueDuplicate, p.Type, "%s: %s", name, p) // random owners may share a uid
			}
			if bytes.Contains(text, []byte(":null")) {
				continue // null means absent
			}
			again, err := kwjson.AppendTree(nil, canonical)
			require.NoError(t, err)
			read := reflect.New(typ).Interface()
			require.NoError(t, kwjson.Unmarshal(again, read))
			written, err := plainJSON(read)
			require.NoError(t, err)
			requireSame(t, text, written)
		}
	}
}

// The schema contains the merge rules in the tags of k8s.io/api.
func TestOAPI_05_TagsOfKubernetesTypes(t *testing.T) {
	get := func(gvk schema.GroupVersionKind, path ...string) *openapi.Schema {
		s, err := openapi.FromType(scheme.Scheme.AllKnownTypes()[gvk], openapi.RequiredWhenTagged())
		require.NoError(t, err)
		out, ok := s.Lookup(path...)
		require.True(t, ok, path)
		return out
	}
	pod := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	containers := get(pod, "spec", "containers")
	require.Equal(t, []string{"merge", "name"}, []string{containers.PatchStrategy, containers.PatchMergeKey})
	require.Contains(t, containers.Description, "List of containers belonging to the pod.")
	require.True(t, get(pod, "spec", "containers", "[]", "livenessProbe", "httpGet", "port").IntOrString)
	memory := get(pod, "spec", "containers", "[]", "resources", "limits", "memory")
	require.Equal(t, "string true", fmt.Sprint(memory.Type, " ", memory.OrNumber))
	require.Equal(t, "date-time", get(pod, "status", "startTime").Format)
	require.Equal(t, "byte", get(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, "data", "x").Format)
	raw := get(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ControllerRevision"}, "data")
	require.Equal(t, "object true", fmt.Sprint(raw.Type, " ", raw.PreserveUnknown))
	words := strings.Fields(get(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, "spec", "strategy").PatchStrategy)
	require.True(t, slices.Equal([]string{"retainKeys"}, words))
}
