package registry_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
)

func ofWidgets(r *admission.Request) bool { return r.Kind.Kind == "Widget" }

func TestTypedPluginsSeeGoStructs(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		var saw []string
		chain, err := admission.NewChain(admission.Plugin{
			Name: "typed",
			Mutator: registry.TypedMutator(ofWidgets, func(_ context.Context, r *admission.Request, w *widget) error {
				if w.Spec.Owner == "nobody" {
					return admission.Denied(r, "somebody must own it")
				}
				w.Spec.Note = "checked"
				return nil
			}),
			Validator: registry.TypedValidator(ofWidgets, func(_ context.Context, r *admission.Request, w, old *widget) error {
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
		e := start(t, b, func(c *registry.Config) { c.Admission = chain }, widgets(), zones())

		made, err := e.Create(t.Context(), inA, body("w", 1, ""), registry.WriteOptions{})
		require.NoError(t, err)
		require.Equal(t, "checked", at(tree(t, made), "spec", "note"))
		_, err = e.Patch(t.Context(), named("w"), registry.PatchRequest{Type: registry.MergePatch, Body: []byte(`{"spec":{"size":2}}`)}, registry.WriteOptions{})
		require.NoError(t, err)
		_, err = e.Patch(t.Context(), named("w"), registry.PatchRequest{Type: registry.MergePatch, Body: []byte(`{"spec":{"owner":"nobody"}}`)}, registry.WriteOptions{})
		require.Equal(t, meta.ReasonForbidden, reason(t, err))
		_, err = e.Delete(t.Context(), named("w"), registry.DeleteOptions{})
		require.NoError(t, err)
		require.Equal(t, []string{"CREATE checked", "UPDATE checked was blue", "DELETE was blue"}, saw)

		_, err = e.Create(t.Context(), registry.Target{Resource: zoneResource}, []byte(`{"metadata":{"name":"z"},"spec":{"size":1,"owner":"nobody"}}`), registry.WriteOptions{})
		require.NoError(t, err, "the plugin is for widgets")
		require.Len(t, saw, 3)
	})
}
