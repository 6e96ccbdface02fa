package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// ofWidgets selects the writes to widgets themselves.
func ofWidgets() []admission.Rule {
	return []admission.Rule{{Groups: []string{widgetResource.Group}, Resources: []string{"widgets"}}}
}

func TestTypedPluginsNeedAFunction(t *testing.T) {
	_, err := admission.NewChain(admission.Plugin{
		Name: "none", Mutator: admission.TypedMutator[widget](nil), Validator: admission.TypedValidator[widget](nil),
	})
	require.ErrorContains(t, err, `"none" neither mutates nor validates`)
}

func TestTypedPluginsSeeGoStructs(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		var saw []string
		chain, err := admission.NewChain(admission.Plugin{
			Name: "typed", Rules: ofWidgets(),
			Mutator: admission.TypedMutator(func(_ context.Context, r *admission.Request, w *widget) error {
				if w.Spec.Owner == "nobody" {
					return admission.Denied(r, "somebody must own it")
				}
				w.Spec.Note = "checked"
				return nil
			}),
			Validator: admission.TypedValidator(func(_ context.Context, r *admission.Request, w, old *widget) error {
				note := string(r.Operation)
				if w != nil {
					note += " " + w.Spec.Note
				}
				if old != nil {
					note += " was " + old.Spec.Color
				}
				saw = append(saw, note)
				return nil
			}),
		})
		require.NoError(t, err)
		e := start(t, b, func(c *engine.Config) { c.Admission = chain }, widgets(), zones())

		made, err := e.Create(t.Context(), inA, body("w", 1, ""), registry.WriteOptions{})
		require.NoError(t, err)
		require.Equal(t, "checked", at(tree(t, made), "spec", "note"))
		_, err = e.Patch(t.Context(), named("w"), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{"spec":{"size":2}}`)}, registry.WriteOptions{})
		require.NoError(t, err)
		_, err = e.Patch(t.Context(), named("w"), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{"spec":{"owner":"nobody"}}`)}, registry.WriteOptions{})
		require.Equal(t, meta.ReasonForbidden, reason(t, err))
		_, err = e.Delete(t.Context(), named("w"), registry.DeleteOptions{})
		require.NoError(t, err)
		require.Equal(t, []string{"CREATE checked", "UPDATE checked was blue", "DELETE was blue"}, saw)

		_, err = e.Create(t.Context(), registry.Target{Resource: zoneResource}, []byte(`{"metadata":{"name":"z"},"spec":{"size":1,"owner":"nobody"}}`), registry.WriteOptions{})
		require.NoError(t, err, "the plugin is for widgets")
		require.Len(t, saw, 3)
	})
}

// CREATE-06: what the path of a write may not change, a mutating plugin cannot change on it either (X5).
func TestCREATE_06_MutatingAdmissionIsConfinedToThePath(t *testing.T) {
	var on admission.Operation
	chain, err := admission.NewChain(admission.Plugin{Name: "forger", Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
		if r.Operation != on {
			return admission.Allowed(r)
		}
		return admission.Patched(r,
			admission.Set("2020-01-01T00:00:00Z", "metadata", "deletionTimestamp"),
			admission.Set("2020-01-01T00:00:00Z", "metadata", "creationTimestamp"),
			admission.Set(99, "metadata", "generation"),
			admission.Set("/x", "metadata", "selfLink"),
			admission.Set("77", "metadata", "resourceVersion"),
			admission.Set("forged", "metadata", "labels", "by"),
			admission.Set(7, "spec", "size"),
			admission.Set("Forged", "status", "phase"))
	})})
	require.NoError(t, err)
	e := start(t, memory.New(), func(c *engine.Config) { c.Admission = chain }, widgets())
	check := func(got *registry.Result, err error, size, generation int64, phase any) {
		t.Helper()
		require.NoError(t, err)
		require.False(t, got.Removed)
		o := tree(t, got)
		require.Nil(t, at(o, "metadata", "deletionTimestamp"))
		require.NotEqual(t, "2020-01-01T00:00:00Z", at(o, "metadata", "creationTimestamp"))
		require.Nil(t, at(o, "metadata", "selfLink"))
		require.Equal(t, generation, at(o, "metadata", "generation"))
		require.Equal(t, size, at(o, "spec", "size"))
		require.Equal(t, phase, at(o, "status", "phase"))
	}
	on = admission.Create
	got, err := e.Create(t.Context(), inA, body("w", 1, ""), registry.WriteOptions{})
	check(got, err, 7, 1, nil)
	require.Equal(t, "forged", at(tree(t, got), "metadata", "labels", "by"), "what the path may change is changed")

	on = admission.Update
	got, err = applyAs(t, e, named("w"), "one", appliedWidget+`{"size":3}}`, force)
	require.NoError(t, err)
	check(got, err, 7, 1, nil)
	on = ""
	got, err = applyAs(t, e, named("w"), "one", appliedWidget+`{"size":3}}`, force)
	check(got, err, 3, 2, nil)
	on = admission.Update
	sub := named("w")
	sub.Subresource = "status"
	got, err = applyAs(t, e, sub, "one", appliedWidget+`{},"status":{"phase":"Ready"}}`)
	check(got, err, 3, 2, "Forged")
	require.Contains(t, managersOf(tree(t, got)), "one Apply status")
}
