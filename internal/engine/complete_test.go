package engine_test

import (
	"context"
	"encoding/json"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage/memory"
)

// What the server decides about an object is decided once it has its uid, belongs to nobody, and counts as a change.
func TestCREATE_CompletedByTheServer(t *testing.T) {
	r, err := widgets().Resource()
	require.NoError(t, err)
	r.Hooks.Complete = func(_ context.Context, t, old registry.Tree) (registry.Tree, error) {
		spec := maps.Clone(t["spec"].(map[string]any))
		switch {
		case spec["size"] == int64(13):
			return nil, status.Forbidden(meta.GroupResource{Resource: "widgets"}, "x", "no pool has one of that size")
		case spec["size"] == int64(14):
			spec["size"] = "large"
		case old == nil:
			spec["owner"] = at(t, "metadata", "uid")
		default:
			spec["note"] = "changed after " + at(old, "metadata", "name").(string)
		}
		out := maps.Clone(t)
		out["spec"] = spec
		return out, nil
	}
	e := start(t, memory.New(), nil)
	require.NoError(t, e.Install(t.Context(), r))

	made, err := e.Create(t.Context(), inA, body("x", 3, ""), registry.WriteOptions{FieldManager: "me"})
	require.NoError(t, err)
	got := tree(t, made)
	require.Equal(t, at(got, "metadata", "uid"), at(got, "spec", "owner"))
	managed, err := json.Marshal(at(got, "metadata", "managedFields"))
	require.NoError(t, err)
	require.Contains(t, string(managed), "f:size")
	require.NotContains(t, string(managed), "f:owner")

	changed, err := merge(t.Context(), e, named("x"), `{"metadata":{"labels":{"a":"b"}}}`)
	require.NoError(t, err)
	got = tree(t, changed)
	require.Equal(t, "changed after x", at(got, "spec", "note"))
	require.EqualValues(t, 2, at(got, "metadata", "generation"), "the desired state has changed")
	again, err := merge(t.Context(), e, named("x"), `{"metadata":{"labels":{"a":"b"}}}`)
	require.NoError(t, err)
	require.Equal(t, changed.Entry.Revision(), again.Entry.Revision(), "no change, no write")

	_, err = e.Create(t.Context(), inA, body("y", 13, ""), registry.WriteOptions{})
	require.Equal(t, meta.ReasonForbidden, reason(t, err))
	_, err = e.Create(t.Context(), inA, body("y", 14, ""), registry.WriteOptions{})
	require.Equal(t, meta.ReasonInternalError, reason(t, err))
}
