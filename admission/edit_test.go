package admission_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

func TestPatchedChangesACopy(t *testing.T) {
	object := map[string]any{"spec": map[string]any{"size": int64(1), "color": "red"}, "other": map[string]any{"kept": true}}
	r := &admission.Request{Object: object}
	got, err := admission.Patched(r,
		admission.Set(7, "spec", "size"),
		admission.Set([]string{"a", "b"}, "spec", "parts"),
		admission.Set(meta.Key{}.String(), "metadata", "labels", "made"),
		admission.Remove("spec", "color"),
		admission.Remove("spec", "nothing"),
		admission.Remove("nowhere", "at", "all"),
	)
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"spec":     map[string]any{"size": int64(7), "parts": []any{"a", "b"}},
		"metadata": map[string]any{"labels": map[string]any{"made": ""}},
		"other":    map[string]any{"kept": true},
	}, got)
	require.Equal(t, map[string]any{"spec": map[string]any{"size": int64(1), "color": "red"}, "other": map[string]any{"kept": true}}, object)
	same, err := admission.Allowed(r)
	require.NoError(t, err)
	require.Equal(t, object, same)
}

func TestPatchedThroughANonObject(t *testing.T) {
	r := &admission.Request{Object: map[string]any{"spec": "text"}}
	for _, edit := range []admission.Edit{admission.Set(1, "spec", "size"), admission.Remove("spec", "size"), admission.Set(1), admission.Set(func() {}, "spec")} {
		_, err := admission.Patched(r, edit)
		require.Equal(t, http.StatusInternalServerError, status.CodeOf(err), "%v", err)
	}
}

// The result of a mutator is converted to a tree. Otherwise a later step would meet an int and
// blame the client.
func TestMutatorsMayReturnGoValues(t *testing.T) {
	c, err := admission.NewChain(admission.Plugin{Name: "go", Mutator: mutator(func(*admission.Request) (map[string]any, error) {
		return map[string]any{"n": 1, "list": []string{"a"}, "map": map[string]string{"k": "v"}}, nil
	})})
	require.NoError(t, err)
	got, _, err := c.Mutate(t.Context(), &admission.Request{Object: map[string]any{}})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"n": int64(1), "list": []any{"a"}, "map": map[string]any{"k": "v"}}, got)

	c, err = admission.NewChain(admission.Plugin{Name: "odd", Mutator: mutator(func(*admission.Request) (map[string]any, error) {
		return map[string]any{"f": func() {}}, nil
	})})
	require.NoError(t, err)
	_, _, err = c.Mutate(t.Context(), &admission.Request{Object: map[string]any{}})
	require.Equal(t, http.StatusInternalServerError, status.CodeOf(err))
}

// An edit without effect returns the same tree, so the engine sees no change.
func TestPatchedWithoutEffectIsTheSameTree(t *testing.T) {
	object := map[string]any{"spec": map[string]any{"size": int64(1), "tags": []any{"a"}, "none": nil}}
	r := &admission.Request{Object: object}
	got, err := admission.Patched(r, admission.Set(1, "spec", "size"), admission.Set([]string{"a"}, "spec", "tags"),
		admission.Remove("spec", "color"), admission.Remove("spec", "none", "deeper"))
	require.NoError(t, err)
	got["probe"] = true
	require.Contains(t, object, "probe")

	got, err = admission.Patched(&admission.Request{Operation: admission.Delete}, admission.Set("yes", "metadata", "labels", "seen"))
	require.NoError(t, err)
	require.Nil(t, got, "a deletion has nothing to edit")
}
