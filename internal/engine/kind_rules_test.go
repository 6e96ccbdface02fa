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

// Each rule that judges a write is asked once, with one view of the object, and what it changes there is not stored.
func TestRulesThatJudgeShareAView(t *testing.T) {
	k := widgets()
	var asked []string
	var views []*widget
	saw := func(rule string, w *widget) {
		asked, views = append(asked, rule), append(views, w)
		w.Spec.Note = "changed by " + rule
	}
	k.Rules = registry.Rules[widget]{
		Validate:       func(_ context.Context, w *widget, _ *status.Fields) { saw("validate", w) },
		ValidateCreate: func(_ context.Context, w *widget, _ *status.Fields) { saw("create", w) },
		ValidateUpdate: func(_ context.Context, w, old *widget, f *status.Fields) {
			saw("update", w)
			if w.Spec.Size < old.Spec.Size {
				f.At("spec", "size").Invalid(w.Spec.Size, "must not shrink")
			}
		},
	}
	front := registry.From[widget](start(t, memory.New(), nil, k))
	made, err := front.Create(t.Context(), &widget{ObjectMeta: meta.Named("a", "x"), Spec: widgetSpec{Size: 5}})
	require.NoError(t, err)
	require.Equal(t, []string{"validate", "create"}, asked)
	require.Same(t, views[0], views[1])
	require.Empty(t, made.Spec.Note)

	asked, views = nil, nil
	made.Spec.Size = 4
	_, err = front.Update(t.Context(), made)
	require.ErrorContains(t, err, "spec.size")
	require.Equal(t, []string{"validate", "update"}, asked)
	require.Same(t, views[0], views[1])
}
