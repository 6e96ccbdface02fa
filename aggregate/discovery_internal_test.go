package aggregate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/discovery"
	"github.com/kindwright/kindwright/meta"
)

// Not every server lists a resource before its subresources. As in Kubernetes, it is one resource all the same:
// clients took the half without verbs for the whole.
func TestDISC_ASubresourceMayComeBeforeItsResource(t *testing.T) {
	const document = `{"kind":"APIResourceList","groupVersion":"example.dev/v1","resources":[
		{"name":"boats/status","kind":"Boat","namespaced":true,"verbs":["get"]},
		{"name":"boats","singularName":"boat","kind":"Boat","namespaced":true,"verbs":["list"]},
		{"name":"sails/scale","kind":"Scale","group":"autoscaling","version":"v1","namespaced":true,"verbs":["update"]},
		{"name":"boats/log","kind":"Boat","namespaced":true,"verbs":["get"]}]}`
	gv := meta.GroupVersion{Group: "example.dev", Version: "v1"}
	got, err := resourcesOf(gv, []byte(document))
	require.NoError(t, err)
	boat := meta.GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: "Boat"}
	scale := meta.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
	require.Equal(t, []resource{
		{GVK: boat, Plural: "boats", Singular: "boat", Namespaced: true, Verbs: []string{"list"}, Subresources: []discovery.Subresource{
			{Name: "status", Kind: boat, Verbs: []string{"get"}}, {Name: "log", Kind: boat, Verbs: []string{"get"}},
		}},
		{GVK: scale, Plural: "sails", Namespaced: true, Subresources: []discovery.Subresource{{Name: "scale", Kind: scale, Verbs: []string{"update"}}}},
	}, got)
}
