package apply_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apply"
	"github.com/kindwright/kindwright/openapi"
)

// Kubernetes owns a RawExtension as a whole, such as the data of a ControllerRevision: what is in it has a meaning
// only together. Other objects of unknown fields are owned in parts.
func TestSSA_RawExtensionsAreOwnedAsAWhole(t *testing.T) {
	anything := func(component string) *openapi.Schema {
		return &openapi.Schema{Type: openapi.Object, PreserveUnknown: true, Component: component}
	}
	s, err := openapi.New(&openapi.Schema{Type: openapi.Object, Properties: []openapi.Property{
		{Name: "raw", Schema: anything("io.k8s.apimachinery.pkg.runtime.RawExtension")}, {Name: "free", Schema: anything("")},
	}})
	require.NoError(t, err)
	fields, err := apply.New([]apply.Version{{APIVersion: "g.example.com/v1", Schema: s}}, nil)
	require.NoError(t, err)
	send := func(live map[string]any, manager, members string, force bool) (map[string]any, error) {
		return fields.Apply(apply.Request{
			Live: live, New: decoded(t, `{"apiVersion":"g.example.com/v1","kind":"K","metadata":{"name":"n"}`+members+`}`),
			Manager: manager, APIVersion: "g.example.com/v1", Force: force,
		})
	}
	owned := func(object map[string]any, i int) any {
		return object["metadata"].(map[string]any)["managedFields"].([]any)[i].(map[string]any)["fieldsV1"]
	}
	object, err := send(nil, "a", `,"raw":{"x":{"y":[1]},"z":1},"free":{"x":{"y":[1]}}`, false)
	require.NoError(t, err)
	require.Equal(t, decoded(t, `{"f:raw":{},"f:free":{"f:x":{".":{},"f:y":{}}}}`), owned(object, 0))

	_, err = send(object, "b", `,"raw":{"w":1}`, false)
	require.ErrorContains(t, err, `conflict with "a": .raw`)
	object, err = send(object, "b", `,"raw":{"w":1}`, true)
	require.NoError(t, err)
	require.Equal(t, decoded(t, `{"w":1}`), object["raw"])
	require.Equal(t, decoded(t, `{"f:free":{"f:x":{".":{},"f:y":{}}}}`), owned(object, 0))
	require.Equal(t, decoded(t, `{"f:raw":{}}`), owned(object, 1))

	updated := decoded(t, `{"apiVersion":"g.example.com/v1","kind":"K","metadata":{"name":"n"},"raw":{"w":2},"free":{"x":{"y":[1]}}}`)
	updated["metadata"].(map[string]any)["managedFields"] = object["metadata"].(map[string]any)["managedFields"]
	object, err = fields.Update(apply.Request{Live: object, New: updated, Manager: "c", APIVersion: "g.example.com/v1"})
	require.NoError(t, err)
	require.Equal(t, decoded(t, `{"f:raw":{}}`), owned(object, 1))
}
