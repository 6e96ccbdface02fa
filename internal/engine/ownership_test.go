package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

func applyAs(t *testing.T, e *engine.Engine, target registry.Target, manager, body string, change ...func(*registry.WriteOptions)) (*registry.Result, error) {
	t.Helper()
	o := registry.WriteOptions{FieldManager: manager}
	for _, c := range change {
		c(&o)
	}
	return e.Patch(t.Context(), target, registry.PatchRequest{Type: meta.ApplyPatch, Body: []byte(body)}, o)
}

func force(o *registry.WriteOptions) { o.Force = true }

const appliedWidget = `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"w"},"spec":`

// managersOf lists the entries of managedFields as "manager operation subresource".
func managersOf(tree registry.Tree) []string {
	var out []string
	entries, _ := at(tree, "metadata", "managedFields").([]any)
	for _, e := range entries {
		entry := e.(map[string]any)
		text := entry["manager"].(string) + " " + entry["operation"].(string)
		if sub, ok := entry["subresource"].(string); ok {
			text += " " + sub
		}
		out = append(out, text)
	}
	return out
}

func TestSSA_ApplyCreatesChangesConflictsAndForces(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e := start(t, b, nil, widgets())
		made, err := applyAs(t, e, named("w"), "one", appliedWidget+`{"size":3,"owner":"me"}}`)
		require.NoError(t, err)
		require.True(t, made.Created, "PATCH-02")
		require.Equal(t, []string{"one Apply"}, managersOf(tree(t, made)))
		require.Equal(t, "blue", at(tree(t, made), "spec", "color"), "defaults are filled in")

		again, err := applyAs(t, e, named("w"), "one", appliedWidget+`{"size":3,"owner":"me"}}`)
		require.NoError(t, err)
		require.False(t, again.Created)
		require.Equal(t, made.Entry.Revision(), again.Entry.Revision(), "SSA-28")

		_, err = applyAs(t, e, named("w"), "two", appliedWidget+`{"size":4}}`)
		require.Equal(t, meta.ReasonConflict, reason(t, err), "SSA-03")
		causes := status.From(err).Status().Details.Causes
		require.Len(t, causes, 1)
		require.Equal(t, meta.CauseFieldManagerConflict, causes[0].Type)
		require.Equal(t, ".spec.size", causes[0].Field)
		require.Contains(t, causes[0].Message, `conflict with "one"`, "SSA-18")

		forced, err := applyAs(t, e, named("w"), "two", appliedWidget+`{"size":4}}`, force)
		require.NoError(t, err)
		require.Equal(t, int64(4), at(tree(t, forced), "spec", "size"), "SSA-04")

		dropped, err := applyAs(t, e, named("w"), "one", appliedWidget+`{"size":4}}`)
		require.NoError(t, err)
		require.Nil(t, at(tree(t, dropped), "spec", "owner"), "SSA-08: nobody owns it any more")
		require.Equal(t, int64(4), at(tree(t, dropped), "spec", "size"))
	})
}

func TestSSA_12_OtherWritesRecordTheirManager(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e := start(t, b, nil, widgets())
		made, err := e.Create(t.Context(), inA, body("w", 1, ""), registry.WriteOptions{FieldManager: "maker"})
		require.NoError(t, err)
		require.Equal(t, []string{"maker Update"}, managersOf(tree(t, made)), "SSA-01")
		sub := named("w")
		sub.Subresource = "status"
		got, err := e.Patch(t.Context(), sub, registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{"status":{"phase":"Ready"},"spec":{"size":9}}`)}, registry.WriteOptions{FieldManager: "controller"})
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"maker Update", "controller Update status"}, managersOf(tree(t, got)), "SSA-21, SSA-31")
		reset, err := e.Patch(t.Context(), named("w"), registry.PatchRequest{Type: meta.JSONPatch, Body: []byte(`[{"op":"replace","path":"/metadata/managedFields","value":[{}]},{"op":"replace","path":"/spec/size","value":5}]`)}, registry.WriteOptions{FieldManager: "eraser"})
		require.NoError(t, err)
		require.Equal(t, []string{"eraser Update"}, managersOf(tree(t, reset)), "SSA-13, SSA-15")
		kept, err := e.Patch(t.Context(), named("w"), registry.PatchRequest{Type: meta.JSONPatch, Body: []byte(`[{"op":"replace","path":"/metadata/managedFields","value":[]}]`)}, registry.WriteOptions{FieldManager: "eraser"})
		require.NoError(t, err)
		require.Equal(t, reset.Entry.Revision(), kept.Entry.Revision(), "SSA-14")
	})
}

// What is applied through a subresource is owned through it, and nothing else is.
func TestSSA_31_AnApplyThroughASubresourceOwnsWhatItSet(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e := start(t, b, nil, widgets())
		_, err := applyAs(t, e, named("w"), "one", appliedWidget+`{"size":3}}`)
		require.NoError(t, err)
		sub := named("w")
		sub.Subresource = "status"
		got, err := applyAs(t, e, sub, "one", appliedWidget+`{"size":9},"status":{"phase":"Ready","replicas":1}}`)
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"one Apply", "one Apply status"}, managersOf(tree(t, got)), "SSA-21")
		require.Equal(t, int64(3), at(tree(t, got), "spec", "size"), "Z4")

		again, err := applyAs(t, e, sub, "one", appliedWidget+`{"size":9},"status":{"phase":"Ready","replicas":1}}`)
		require.NoError(t, err)
		require.Equal(t, got.Entry.Revision(), again.Entry.Revision(), "SSA-28")
		_, err = applyAs(t, e, sub, "two", appliedWidget+`{},"status":{"phase":"Gone"}}`)
		require.Equal(t, meta.ReasonConflict, reason(t, err), "SSA-03")
		less, err := applyAs(t, e, sub, "one", appliedWidget+`{},"status":{"phase":"Ready"}}`)
		require.NoError(t, err)
		require.Nil(t, at(tree(t, less), "status", "replicas"), "SSA-08: nobody owns it any more")
		require.Equal(t, int64(3), at(tree(t, less), "spec", "size"))
	})
}

// The names that a client writes into managedFields are shown to whoever meets a conflict (B15).
func TestB15_NamesInManagedFieldsAreChecked(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	_, err := e.Create(t.Context(), inA, body("w", 1, ""), registry.WriteOptions{FieldManager: "maker"})
	require.NoError(t, err)
	for name, c := range map[string]struct{ manager, subresource, field string }{
		"long manager":     {strings.Repeat("m", 129), "", "metadata.managedFields[0].manager"},
		"control bytes":    {"m\n", "", "metadata.managedFields[0].manager"},
		"long subresource": {"m", strings.Repeat("s", 257), "metadata.managedFields[0].subresource"},
		"longest":          {strings.Repeat("m", 128), strings.Repeat("s", 256), ""},
	} {
		entry, err := json.Marshal([]any{map[string]any{
			"manager": c.manager, "operation": "Apply", "apiVersion": "example.dev/v1", "subresource": c.subresource,
			"fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:size": map[string]any{}}},
		}})
		require.NoError(t, err)
		_, err = e.Patch(t.Context(), named("w"), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{"metadata":{"managedFields":` + string(entry) + `}}`)}, registry.WriteOptions{})
		if c.field == "" {
			require.NoError(t, err, name)
			continue
		}
		require.Equal(t, meta.ReasonInvalid, reason(t, err), name)
		require.Equal(t, c.field, status.From(err).Status().Details.Causes[0].Field, name)
	}
}

func TestSSA_27_ConfigurationsThatSayTooLittleOrTooMuch(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	for body, want := range map[string]meta.Reason{
		`{"kind":"Widget","metadata":{"name":"w"},"spec":{"size":1}}`:                                                                            meta.ReasonBadRequest,
		`{"apiVersion":"example.dev/v2","kind":"Widget","metadata":{"name":"w"},"spec":{"size":1}}`:                                              meta.ReasonBadRequest,
		`{"apiVersion":"example.dev/v1","kind":"Gadget","metadata":{"name":"w"},"spec":{"size":1}}`:                                              meta.ReasonBadRequest,
		`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"w","managedFields":[]},"spec":{"size":1}}`:                           meta.ReasonBadRequest,
		`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"x"},"spec":{"size":1}}`:                                              meta.ReasonBadRequest,
		`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"w","uid":"0ca3a7b0-7b5c-4d57-8f0b-4e5a3b9b2f10"},"spec":{"size":1}}`: meta.ReasonConflict,
		`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"w","resourceVersion":"7"},"spec":{"size":1}}`:                        meta.ReasonConflict,
		`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":"one"}}`:                                          meta.ReasonInvalid,
		`{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":0}}`:                                              meta.ReasonInvalid,
		`[]`: meta.ReasonBadRequest,
		``:   meta.ReasonBadRequest,
	} {
		_, err := applyAs(t, e, named("w"), "one", body)
		require.Equal(t, want, reason(t, err), "%s: %v", body, err)
	}
	_, err := e.Get(t.Context(), named("w"), registry.ListRequest{})
	require.Equal(t, meta.ReasonNotFound, reason(t, err), "nothing was stored")
}

// Rule 20: what admission adds is nobody's, so a second applier may change it without a conflict.
func TestRule20_AdmissionOwnsNothing(t *testing.T) {
	chain, err := admission.NewChain(admission.Plugin{Name: "inject", Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
		if at(r.Object, "spec", "note") != nil {
			return admission.Allowed(r)
		}
		return admission.Patched(r, admission.Set("injected", "spec", "note"))
	})})
	require.NoError(t, err)
	e := start(t, memory.New(), func(c *engine.Config) { c.Admission = chain }, widgets())
	first, err := applyAs(t, e, named("w"), "one", appliedWidget+`{"size":1}}`)
	require.NoError(t, err)
	require.Equal(t, "injected", at(tree(t, first), "spec", "note"))
	second, err := applyAs(t, e, named("w"), "two", appliedWidget+`{"note":"mine"}}`)
	require.NoError(t, err)
	require.Equal(t, "mine", at(tree(t, second), "spec", "note"))
}

// SSA-29: managed fields that admission broke are put back, with a warning to whoever asked.
func TestSSA_29_AdmissionThatBreaksManagedFields(t *testing.T) {
	chain, err := admission.NewChain(admission.Plugin{Name: "break", Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
		return admission.Patched(r, admission.Set([]any{map[string]any{"manager": "x", "operation": "Burn"}}, "metadata", "managedFields"))
	})})
	require.NoError(t, err)
	e := start(t, memory.New(), func(c *engine.Config) { c.Admission = chain }, widgets())
	made, err := applyAs(t, e, named("w"), "one", appliedWidget+`{"size":1}}`)
	require.NoError(t, err)
	require.Equal(t, []string{"one Apply"}, managersOf(tree(t, made)))
}

// Rule 8: the times of managed fields alone are no change.
func TestRule8_SameObjectLater(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	e := start(t, memory.New(), func(c *engine.Config) { c.Now = func() time.Time { now = now.Add(time.Hour); return now } }, widgets())
	made, err := applyAs(t, e, named("w"), "one", appliedWidget+`{"size":1}}`)
	require.NoError(t, err)
	for range 3 {
		again, err := e.Update(t.Context(), named("w"), made.Entry.AppendJSON(nil), registry.WriteOptions{FieldManager: "one"})
		require.NoError(t, err)
		require.Equal(t, made.Entry.Revision(), again.Entry.Revision())
	}
}

// An object that only its managed fields make too large is stored without them.
func TestTooLargeWithManagedFields(t *testing.T) {
	e := start(t, memory.New(memory.WithLimits(storage.Limits{MaxValueBytes: 3000, MaxOps: 16})), nil, widgets())
	labels := make([]string, 60)
	for i := range labels {
		labels[i] = `"` + strings.Repeat("k", 10) + string(rune('a'+i%26)) + string(rune('a'+i/26)) + `":"vvvvvvvvvv"`
	}
	made, err := e.Create(t.Context(), inA, body("w", 1, `,"labels":{`+strings.Join(labels, ",")+`}`), registry.WriteOptions{FieldManager: "maker"})
	require.NoError(t, err)
	require.Empty(t, managersOf(tree(t, made)))
	require.Len(t, at(tree(t, made), "metadata", "labels"), 60)
	// An apply would not be known to the next one: it is refused.
	_, err = applyAs(t, e, named("w"), "one", appliedWidget+`{"size":1}}`)
	require.Equal(t, meta.ReasonRequestEntityTooLarge, reason(t, err))
}

// A manager that applies null owns the field, in kinds with a Go type, and conflicts with others that set it.
func TestSSA_06_AppliedNullsAreOwned(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	one, err := applyAs(t, e, named("w"), "one", appliedWidget+`{"size":1,"color":null}}`)
	require.NoError(t, err)
	again, err := applyAs(t, e, named("w"), "one", appliedWidget+`{"size":1,"color":null}}`)
	require.NoError(t, err)
	require.Equal(t, one.Entry.Revision(), again.Entry.Revision(), "SSA-28: nothing has changed")
	_, err = applyAs(t, e, named("w"), "two", appliedWidget+`{"color":"red"}}`)
	require.Equal(t, meta.ReasonConflict, reason(t, err))
}

// In metadata, unlike elsewhere, empty is absent, as for clients that decode it into a struct.
func TestEmptyMetadataIsAbsent(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	made, err := e.Create(t.Context(), inA, body("w", 1, `,"labels":{},"annotations":{},"finalizers":[],"ownerReferences":[]`), registry.WriteOptions{FieldManager: "maker"})
	require.NoError(t, err)
	for _, field := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
		require.NotContains(t, at(tree(t, made), "metadata"), field)
	}
	for _, p := range []string{`{"metadata":{"labels":{"a":"b"},"finalizers":["a.example/b"]}}`, `{"metadata":{"labels":{"a":null},"finalizers":[]}}`} {
		_, err = e.Patch(t.Context(), named("w"), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(p)}, registry.WriteOptions{})
		require.NoError(t, err)
	}
	now, err := e.Get(t.Context(), named("w"), registry.ListRequest{})
	require.NoError(t, err)
	require.NotContains(t, string(now.AppendJSON(nil)), `"labels":{`)
	require.NotContains(t, string(now.AppendJSON(nil)), `"finalizers"`)
}

// What is wrong with the object is told to whoever sent it; the log of the server is for faults of the server (D1).
func TestUnusableOwnershipOfAnInvalidObjectIsNotLogged(t *testing.T) {
	var logged []string
	log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
	e := start(t, memory.New(), func(c *engine.Config) { c.Logger = log }, widgets())
	_, err := e.Create(t.Context(), inA, []byte(`{"metadata":{"name":"w","ownerReferences":[{"kind":"K"},{"kind":"L"}]},"spec":{"size":1}}`), registry.WriteOptions{})
	require.Equal(t, meta.ReasonInvalid, reason(t, err))
	require.Empty(t, logged)
}

// A precondition that cannot be read is not one that holds.
func TestUpdate_APreconditionOfTheWrongType(t *testing.T) {
	e := start(t, memory.New(), nil, widgets())
	_, err := e.Create(t.Context(), inA, body("w", 1, ""), registry.WriteOptions{})
	require.NoError(t, err)
	for _, sent := range []string{`{"metadata":{"uid":1}}`, `{"metadata":{"uid":{}}}`, `{"metadata":{"resourceVersion":1}}`} {
		_, err = e.Patch(t.Context(), named("w"), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(sent)}, registry.WriteOptions{})
		require.Equal(t, meta.ReasonBadRequest, reason(t, err), sent)
	}
}
