package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
)

// A kind of a type that cannot be edited is told by an overlay what tags would have said.
func TestOAPI_05_KindsTakeOverlays(t *testing.T) {
	type part struct {
		Name string `json:"name"`
	}
	type Machine struct {
		meta.TypeMeta   `json:",inline"`
		meta.ObjectMeta `json:"metadata"`

		Parts []part `json:"parts"`
	}
	kind := registry.Kind[Machine]{Group: "example.dev", Version: "v1", Plural: "machines"}
	with := func(o *openapi.Overlay) (*registry.Resource, error) {
		types := &openapi.Types{}
		b, err := kind.Define(registry.Env{Overlay: o, Types: types})
		if err == nil {
			err = types.Unused()
		}
		if err != nil {
			return nil, err
		}
		return b.Resources[0], nil
	}
	plain, err := with(nil)
	require.NoError(t, err)
	require.Contains(t, plain.Schema.Required, "parts")

	told, err := with(overlay(t, `{"required": "tagged", "types": {"github.com/kindwright/kindwright/internal/engine_test": {
		"Machine.parts": {"list": "map,key=name"}, "part.name": {"required": ""}}}}`))
	require.NoError(t, err)
	require.Empty(t, told.Schema.Required)
	parts, _ := told.Schema.Lookup("parts")
	require.Equal(t, []string{"name"}, parts.ListMapKeys)

	_, err = with(overlay(t, `{"types": {"github.com/kindwright/kindwright/internal/engine_test": {"Machine.prats": {"list": "atomic"}}}}`))
	require.ErrorContains(t, err, "engine_test.Machine.prats")
	_, err = with(overlay(t, `{"types": {"github.com/kindwright/kindwright/internal/engine_test": {"Mashine.parts": {"list": "atomic"}}}}`))
	require.ErrorContains(t, err, "engine_test.Mashine: no kind uses this Go type")
}

func overlay(t *testing.T, text string) *openapi.Overlay {
	o, err := openapi.ParseOverlay([]byte(text))
	require.NoError(t, err)
	return o
}
