package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage/memory"
)

// The rules of scope and of verbs hold for every way to the engine (P1, NAME-05).
func TestP1_VerbsAreOfObjectsOrCollectionsInTheirScope(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	wheels, err := registry.Kind[gear]{Group: "example.dev", Version: "v1", Plural: "gears", Names: registry.Names{Kind: "Gear"}, Scope: registry.ClusterScoped}.Resource()
	require.NoError(t, err)
	require.NoError(t, e.Install(t.Context(), wheels))
	gears := meta.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "gears"}
	const ok, notFound, notAllowed = meta.ReasonUnknown, meta.ReasonNotFound, meta.ReasonMethodNotAllowed
	ofObjects, ofCollections := []string{"get", "update", "patch", "delete"}, []string{"create", "list", "watch", "deletecollection"}
	for _, c := range []struct {
		name  string
		at    registry.Target
		verbs []string
		want  meta.Reason
	}{
		{"an object", named("x"), ofObjects, ok},
		{"an object", named("x"), ofCollections, notAllowed},
		{"a collection", inA, ofCollections, ok},
		{"a collection", inA, ofObjects, notAllowed},
		{"all namespaces", registry.Target{Resource: widgetResource}, []string{"list", "watch"}, ok},
		{"all namespaces", registry.Target{Resource: widgetResource}, []string{"create", "deletecollection"}, notAllowed},
		{"an object without a namespace", registry.Target{Resource: widgetResource, Name: "x"}, ofObjects, notFound},
		{"a cluster-scoped object", registry.Target{Resource: gears, Name: "x"}, ofObjects, ok},
		{"a cluster-scoped collection", registry.Target{Resource: gears}, ofCollections, ok},
		{"a cluster-scoped object in a namespace", registry.Target{Resource: gears, Namespace: "a", Name: "x"}, ofObjects, notFound},
		{"a cluster-scoped collection in a namespace", registry.Target{Resource: gears, Namespace: "a"}, ofCollections, notFound},
		{"an unknown subresource", registry.Target{Resource: gears, Name: "x", Subresource: "none"}, ofObjects, notFound},
		{"an unknown verb", named("x"), []string{"", "exec"}, notAllowed},
	} {
		for _, verb := range c.verbs {
			_, err := e.Resolve(verb, c.at)
			require.Equal(t, c.want, status.ReasonOf(err), "%s of %s: %v", verb, c.name, err)
		}
	}
}
