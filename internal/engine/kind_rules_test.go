package engine_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage/memory"
)

// ruled are widgets whose size never shrinks, whose note the server writes, and that can be found by their size.
func ruled() registry.Kind[widget] {
	k := widgets()
	k.Status = registry.Status{AtCreation: true}
	k.Selectable = map[string]func(*widget) string{
		"size":         func(w *widget) string { return strconv.Itoa(int(w.Spec.Size)) },
		"status.phase": nil,
	}
	k.Rules = registry.Rules[widget]{
		Keep: func(w, old *widget) {
			if old != nil {
				w.Spec.Size = max(w.Spec.Size, old.Spec.Size)
			}
		},
		Complete: func(_ context.Context, w, old *widget) error {
			if w.Spec.Owner == "nobody" {
				return status.Forbidden(widgetResource.GroupResource(), w.Name, "somebody must own it")
			}
			w.Spec.Note = "made as " + string(w.UID)[:1]
			if old != nil {
				w.Spec.Note = "was " + strconv.Itoa(int(old.Spec.Size))
			}
			return nil
		},
	}
	return k
}

func TestTypedRulesOfAKind(t *testing.T) {
	front := registry.From[widget](start(t, memory.New(), nil, ruled()))
	made, err := front.Create(t.Context(), &widget{ObjectMeta: meta.Named("a", "x"), Spec: widgetSpec{Size: 5}, Status: widgetStatus{Phase: "New"}})
	require.NoError(t, err)
	require.Equal(t, "made as "+string(made.UID)[:1], made.Spec.Note)
	require.Equal(t, "New", made.Status.Phase, "the status of a new object is kept")

	changed, err := front.Modify(t.Context(), "a", "x", func(w *widget) error {
		w.Spec.Size, w.Spec.Owner, w.Status.Phase = 2, "ann", "Old"
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, widgetSpec{Size: 5, Color: "blue", Owner: "ann", Note: "was 5"}, changed.Spec)
	require.Equal(t, "New", changed.Status.Phase, "and belongs to its subresource from then on")

	_, err = front.Modify(t.Context(), "a", "x", func(w *widget) error { w.Spec.Owner = "nobody"; return nil })
	require.Equal(t, meta.ReasonForbidden, reason(t, err))

	for field, want := range map[string]int{"size=5": 1, "size=2": 0, "status.phase=New": 1, "spec.owner=ann": 1} {
		f, err := meta.ParseFieldSelector(field)
		require.NoError(t, err)
		n := 0
		for _, err := range front.List(t.Context(), "", registry.ListRequest{Fields: f}) {
			require.NoError(t, err)
			n++
		}
		require.Equal(t, want, n, field)
	}
}

func TestAKindThatSelectsWhatItHasNotIsRefused(t *testing.T) {
	k := widgets()
	k.Selectable = map[string]func(*widget) string{"spec.missing": nil}
	_, err := k.Resource()
	require.ErrorContains(t, err, `the field Selectable: the type has no field "spec.missing"`)
}
