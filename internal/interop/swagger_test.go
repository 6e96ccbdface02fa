package interop

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	openapiproto "k8s.io/kube-openapi/pkg/util/proto"
	"k8s.io/kube-openapi/pkg/util/proto/validation"
	kubectlopenapi "k8s.io/kubectl/pkg/util/openapi"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/yaml"
)

// The protobuf document for client-go equals the JSON document as read by gnostic.
func TestOAPI_01_ProtobufIsTheMessageOfTheJSON(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := discovery.NewDiscoveryClientForConfig(s.Config)
		require.NoError(t, err)
		got, err := client.OpenAPISchema()
		require.NoError(t, err)
		require.Empty(t, unknownFields(got.ProtoReflect()), "gnostic must know all fields")

		transport, err := rest.TransportFor(s.Config)
		require.NoError(t, err)
		answer, err := (&http.Client{Transport: transport}).Get(s.Host + "/openapi/v2")
		require.NoError(t, err)
		defer func() { _ = answer.Body.Close() }()
		require.Equal(t, "application/json", answer.Header.Get("Content-Type"))
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		want, err := openapi_v2.ParseDocument(text)
		require.NoError(t, err, "gnostic is strict: it knows every keyword of v2, and takes no other")

		plainAny(t, got.ProtoReflect())
		plainAny(t, want.ProtoReflect())
		if !proto.Equal(want, got) {
			requireSameLines(t, prototext.Format(want), prototext.Format(got))
		}
		require.Greater(t, len(got.Definitions.AdditionalProperties), 20)
		require.Greater(t, len(got.Paths.Path), 20)
	})
}

// requireSameLines shows only the first line that differs, because the whole text would fill many
// screens.
func requireSameLines(t *testing.T, want, got string) {
	t.Helper()
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range w {
		require.Equal(t, w[i], g[min(i, len(g)-1)], "line %d, after %q", i, w[max(0, i-6):i])
	}
	require.Len(t, g, len(w))
}

// unknownFields finds fields of a message that its type does not have.
func unknownFields(m protoreflect.Message) (found []byte) {
	found = append(found, m.GetUnknown()...)
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		each := func(v protoreflect.Value) { found = append(found, unknownFields(v.Message())...) }
		switch {
		case fd.Kind() != protoreflect.MessageKind:
		case fd.IsList():
			for i := range v.List().Len() {
				each(v.List().Get(i))
			}
		default:
			each(v)
		}
		return true
	})
	return found
}

// plainAny writes values of any kind in one form: gnostic writes YAML, we write JSON.
func plainAny(t *testing.T, m protoreflect.Message) {
	if value, ok := m.Interface().(*openapi_v2.Any); ok {
		text, err := yaml.YAMLToJSON([]byte(value.Yaml))
		require.NoError(t, err)
		value.Yaml, value.Value = string(text), nil
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Kind() != protoreflect.MessageKind:
		case fd.IsList():
			for i := range v.List().Len() {
				plainAny(t, v.List().Get(i).Message())
			}
		default:
			plainAny(t, v.Message())
		}
		return true
	})
}

// The GVK parser for managed fields, which Argo CD and others use to compute differences, finds
// every kind and merges like the server.
func TestOAPI_01_ManagedFieldsOfClients(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := discovery.NewDiscoveryClientForConfig(s.Config)
		require.NoError(t, err)
		doc, err := client.OpenAPISchema()
		require.NoError(t, err)
		models, err := openapiproto.NewOpenAPIData(doc)
		require.NoError(t, err)
		parser, err := managedfields.NewGVKParser(models, false)
		require.NoError(t, err)
		_, lists, err := client.ServerGroupsAndResources()
		require.NoError(t, err)
		for _, list := range lists {
			version, err := schema.ParseGroupVersion(list.GroupVersion)
			require.NoError(t, err)
			for _, r := range list.APIResources {
				gvk := version.WithKind(r.Kind)
				if r.Group != "" || r.Version != "" {
					gvk = schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
				}
				require.NotNil(t, parser.Type(gvk), "%v", gvk)
			}
		}

		widget := parser.Type(schema.GroupVersionKind{Group: "example.dev", Version: "v1", Kind: "Widget"})
		object := func(text string) *unstructured.Unstructured {
			u := &unstructured.Unstructured{}
			require.NoError(t, json.Unmarshal([]byte(text), &u.Object))
			return u
		}
		read := func(text string) *typed.TypedValue {
			v, err := widget.FromUnstructured(object(text).Object)
			require.NoError(t, err)
			return v
		}
		a := read(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"a","finalizers":["x.dev/a"]},"spec":{"size":1,"parts":[{"name":"p","count":1,"tags":["x"]}]}}`)
		b := read(`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"a","finalizers":["x.dev/b"]},"spec":{"parts":[{"name":"q"},{"name":"p","tags":["y"]}]}}`)
		merged, err := a.Merge(b)
		require.NoError(t, err)
		out, err := json.Marshal(merged.AsValue().Unstructured())
		require.NoError(t, err)
		require.JSONEq(t, `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"a","finalizers":["x.dev/a","x.dev/b"]},
			"spec":{"size":1,"parts":[{"name":"q"},{"name":"p","count":1,"tags":["x","y"]}]}}`, string(out))
		_, err = widget.FromUnstructured(object(`{"spec":{"parts":[{"name":"p"},{"name":"p"}]}}`).Object)
		require.ErrorContains(t, err, "duplicate")
	})
}

// kubectl finds the schemas of kinds that it validates itself: those that can be created but not
// patched, such as reviews.
func TestOAPI_01_KubectlFindsTheSchemas(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, err := discovery.NewDiscoveryClientForConfig(s.Config)
		require.NoError(t, err)
		resources, err := kubectlopenapi.NewOpenAPIGetter(client).OpenAPISchema()
		require.NoError(t, err)
		require.NotNil(t, resources)
		parsed, err := kubectlopenapi.NewOpenAPIParser(kubectlopenapi.NewOpenAPIGetter(client)).Parse()
		require.NoError(t, err)
		for _, gvk := range []schema.GroupVersionKind{
			{Group: "example.dev", Version: "v1", Kind: "Widget"},
			{Version: "v1", Kind: "Namespace"},
			{Version: "v1", Kind: "Event"},
			{Group: "authentication.k8s.io", Version: "v1", Kind: "SelfSubjectReview"},
			{Version: "v1", Kind: "Status"},
		} {
			require.NotNil(t, parsed.LookupResource(gvk), "%v", gvk)
		}
		widget := parsed.LookupResource(schema.GroupVersionKind{Group: "example.dev", Version: "v1", Kind: "Widget"})
		var bad map[string]any
		require.NoError(t, yaml.Unmarshal([]byte("spec: {size: one, colour: red, parts: [{count: 1}]}"), &bad))
		var problems []string
		for _, err := range validation.ValidateModel(bad, widget, "Widget") {
			problems = append(problems, err.Error())
		}
		all := strings.Join(problems, "\n")
		require.Contains(t, all, `Widget.spec.size: got "string", expected "integer"`)
		require.Contains(t, all, `unknown field "colour" in `)
		require.Contains(t, all, `missing required field "name" in `)
	})
}

// kubectl validates objects that cannot be patched itself, with OpenAPI v2.
func TestOAPI_01_KubectlValidatesReviews(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		k := newKubectl(t, s)
		review := k.file("review.yaml", `{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}`)
		k.shows("create -o yaml -f "+review, `username: admin`)
		wrong := k.file("wrong.yaml", `{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "sttus": {}}`)
		k.fails("create -f "+wrong, `unknown field "sttus"`)
	})
}
