package openapi_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

// plainMeta has the fields of ObjectMeta under another name, so that its schema is made from the
// struct.
type plainMeta meta.ObjectMeta

// The schema of metadata is written by hand because of its descriptions. It must agree with the Go
// struct on every field.
func TestObjectMetaFollowsTheStruct(t *testing.T) {
	s, err := openapi.FromType(reflect.TypeFor[struct {
		Spec plainMeta `json:"spec"`
	}]())
	require.NoError(t, err)
	want, ok := s.Lookup("spec")
	require.True(t, ok)
	got := openapi.ObjectMeta()

	var names []string
	for _, p := range got.Properties {
		names = append(names, p.Name)
	}
	require.ElementsMatch(t, meta.MetadataFields(0), names)
	sameShape(t, "metadata", want, got)
}

func sameShape(t *testing.T, path string, want, got *openapi.Schema) {
	t.Helper()
	if want.PreserveUnknown {
		require.True(t, got.PreserveUnknown, path)
		return // only the hand-written schema describes its content
	}
	require.Equal(t, want.Type, got.Type, path)
	require.Equal(t, want.Format, got.Format, path)
	require.Equal(t, want.Notation, got.Notation, path)
	require.Equal(t, want.PatchStrategy, got.PatchStrategy, path)
	require.Equal(t, want.PatchMergeKey, got.PatchMergeKey, path)
	require.ElementsMatch(t, want.Required, got.Required, path)
	require.Len(t, got.Properties, len(want.Properties), path)
	for _, p := range want.Properties {
		child, ok := got.Lookup(p.Name)
		require.True(t, ok, path+"."+p.Name)
		sameShape(t, path+"."+p.Name, p.Schema, child)
	}
	for _, below := range [][2]*openapi.Schema{{want.Items, got.Items}, {want.AdditionalProperties, got.AdditionalProperties}} {
		require.Equal(t, below[0] == nil, below[1] == nil, path)
		if below[0] != nil {
			sameShape(t, path+"[]", below[0], below[1])
		}
	}
}
