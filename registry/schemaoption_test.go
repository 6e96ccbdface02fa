package registry_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
)

// A kind of a type that cannot be edited is told by options what tags would have said.
func TestOAPI_05_KindsTakeSchemaOptions(t *testing.T) {
	type part struct {
		Name string `json:"name"`
	}
	type Machine struct {
		meta.TypeMeta   `json:",inline"`
		meta.ObjectMeta `json:"metadata"`

		Parts []part `json:"parts"`
	}
	kind := registry.Kind[Machine]{Group: "example.dev", Version: "v1", Plural: "machines"}
	plain, err := kind.Resource()
	require.NoError(t, err)
	require.Contains(t, plain.Schema.Required, "parts")

	kind.SchemaOptions = []openapi.Option{openapi.RequiredWhenTagged(), openapi.WithOverlay(openapi.Overlay{"Machine.parts": `list:"map,key=name"`, "part.name": `required:""`})}
	told, err := kind.Resource()
	require.NoError(t, err)
	require.Empty(t, told.Schema.Required)
	parts, _ := told.Schema.Lookup("parts")
	require.Equal(t, []string{"name"}, parts.ListMapKeys)

	kind.SchemaOptions = []openapi.Option{openapi.WithOverlay(openapi.Overlay{"Machine.prats": `list:"atomic"`})}
	_, err = kind.Resource()
	require.ErrorContains(t, err, "Machine.prats")
}
