package engine_test

import (
	"context"
	"fmt"
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

// ADM-12: a mutating plugin sees the object of the request. What only the server sets is in it if the client
// sent it, or if a patch kept it. Validating plugins see what is stored.
func TestADM_12_MutatorsSeeMetadataAsItWasSent(t *testing.T) {
	server := []string{"uid", "creationTimestamp", "generation", "resourceVersion"}
	var sent, stored map[string]any
	of := func(r *admission.Request) map[string]any {
		out := map[string]any{}
		for _, field := range server {
			if v := at(r.Object, "metadata", field); v != nil {
				out[field] = v
			}
		}
		return out
	}
	var change bool
	chain, err := admission.NewChain(admission.Plugin{Name: "see", Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
		sent = of(r)
		if change {
			return admission.Patched(r, admission.Set("yes", "metadata", "labels", "changed"))
		}
		return admission.Allowed(r)
	}), Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		stored = of(r)
		return nil
	})})
	require.NoError(t, err)
	e := start(t, memory.New(), func(c *engine.Config) { c.Admission = chain }, widgets())
	_, err = e.Create(t.Context(), inA, body("w", 1, `,"uid":"mine","creationTimestamp":"2001-01-01T00:00:00Z"`), registry.WriteOptions{})
	require.NoError(t, err)
	require.Empty(t, sent)
	require.Contains(t, stored, "uid")
	require.Contains(t, stored, "creationTimestamp")
	for _, change = range []bool{false, true} {
		got, err := e.Update(t.Context(), named("w"), body("w", 2, ""), registry.WriteOptions{})
		require.NoError(t, err)
		require.Empty(t, sent)
		kept := at(tree(t, got), "metadata", "uid")
		require.Equal(t, kept, stored["uid"])
		require.Contains(t, stored, "creationTimestamp")
		odd := fmt.Sprintf(`,"uid":%q,"creationTimestamp":"2001-01-01T00:00:00Z","generation":77`, kept)
		got, err = e.Update(t.Context(), named("w"), body("w", 3, odd), registry.WriteOptions{})
		require.NoError(t, err)
		require.Equal(t, map[string]any{"uid": kept, "creationTimestamp": "2001-01-01T00:00:00Z", "generation": int64(77)}, sent)
		require.Equal(t, kept, stored["uid"])
		require.NotEqual(t, "2001-01-01T00:00:00Z", stored["creationTimestamp"])
		require.NotEqual(t, "2001-01-01T00:00:00Z", at(tree(t, got), "metadata", "creationTimestamp"))
		require.NotEqual(t, int64(77), stored["generation"])
		_, err = e.Patch(t.Context(), named("w"), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{"spec":{"size":4}}`)}, registry.WriteOptions{})
		require.NoError(t, err)
		require.Equal(t, stored["creationTimestamp"], sent["creationTimestamp"])
		require.Contains(t, sent, "resourceVersion")
	}
}

// ADM-12, NODEAZ-01: what a path may not change is shown to mutating plugins as it was sent, so that one may
// refuse it, and is as it was stored for validating plugins and in the store.
func TestADM_12_MutatorsSeeWhatAPathTakesBack(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		var asked, judged map[string]any
		var change, refuse bool
		chain, err := admission.NewChain(admission.Plugin{Name: "see", Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
			asked = r.Object
			switch {
			case refuse && at(r.Object, "spec", "size") != at(r.OldObject, "spec", "size"):
				return nil, admission.Denied(r, "the size is not theirs")
			case change:
				return admission.Patched(r, admission.Set("Changed", "status", "phase"), admission.Set("yes", "metadata", "labels", "changed"))
			}
			return admission.Allowed(r)
		}), Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
			judged = r.Object
			return nil
		})})
		require.NoError(t, err)
		e := start(t, b, func(c *engine.Config) { c.Admission = chain }, widgets())
		_, err = e.Create(t.Context(), inA, []byte(appliedWidget+`{"size":1},"status":{"phase":"Asked"}}`), registry.WriteOptions{})
		require.NoError(t, err)
		require.Equal(t, "Asked", at(asked, "status", "phase"))
		require.Nil(t, at(judged, "status", "phase"))

		sub := named("w")
		sub.Subresource = "status"
		const both = appliedWidget + `{"size":9},"status":{"phase":"Ready"}}`
		writes := map[string]func() (*registry.Result, error){
			"PUT": func() (*registry.Result, error) {
				return e.Update(t.Context(), sub, []byte(both), registry.WriteOptions{})
			},
			"PATCH": func() (*registry.Result, error) {
				return e.Patch(t.Context(), sub, registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{"spec":{"size":9},"status":{"phase":"Ready"}}`)}, registry.WriteOptions{})
			},
		}
		for name, write := range writes {
			refuse = true
			_, err := write()
			require.Equal(t, meta.ReasonForbidden, reason(t, err), name)
			refuse = false
			for _, change = range []bool{false, true} {
				got, err := write()
				require.NoError(t, err, name)
				require.EqualValues(t, 9, at(asked, "spec", "size"), name)
				require.Equal(t, "Ready", at(asked, "status", "phase"), name)
				require.EqualValues(t, 1, at(judged, "spec", "size"), name)
				o := tree(t, got)
				require.EqualValues(t, 1, at(o, "spec", "size"), name)
				require.Equal(t, map[bool]any{false: "Ready", true: "Changed"}[change], at(o, "status", "phase"), name)
				require.Nil(t, at(o, "metadata", "labels", "changed"), name)
			}
		}
	})
}
