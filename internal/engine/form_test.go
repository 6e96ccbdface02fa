package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// oldWidget is the widget as it was once: with its size and owner at the top, the size in text.
type oldWidget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Width           int32  `json:"width"`
	Keeper          string `json:"keeper,omitempty" selectable:""`
	Phase           string `json:"phase,omitempty"`
}

var oldResource = meta.GroupVersionResource{Group: "old.example.dev", Version: "v1beta1", Resource: "oldwidgets"}

func twoForms() registry.Kind[widget] {
	k := widgets()
	k.Also = []registry.Form{registry.As(
		registry.Kind[oldWidget]{
			Group: "old.example.dev", Version: "v1beta1", Plural: "oldwidgets", Names: registry.Names{Kind: "OldWidget"},
			Rules: registry.Rules[oldWidget]{Validate: func(_ context.Context, w *oldWidget, f *status.Fields) {
				if w.Keeper == "nobody" {
					f.At("keeper").Invalid(w.Keeper, "must be somebody")
				}
			}},
		},
		func(o *oldWidget) (*widget, error) {
			if o.Keeper == "broken" {
				return nil, errors.New("secret reason")
			}
			if o.Keeper == "panic" {
				panic("secret reason")
			}
			return &widget{Spec: widgetSpec{Size: o.Width, Owner: o.Keeper, Color: "red"}, Status: widgetStatus{Phase: o.Phase}}, nil
		},
		func(w *widget) (*oldWidget, error) {
			return &oldWidget{Width: w.Spec.Size, Keeper: w.Spec.Owner, Phase: w.Status.Phase}, nil
		},
		map[string]string{"keeper": "spec.owner"},
	)}
	return k
}

func TestVER_15_OneStoreTwoForms(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e := start(t, b, nil, twoForms())
		old := registry.Target{Resource: oldResource, Namespace: "a"}
		oldNamed := old
		oldNamed.Name = "x"

		r, err := e.Create(t.Context(), old, []byte(`{"metadata":{"name":"x","labels":{"l":"v"}},"width":4,"keeper":"eve"}`), registry.WriteOptions{})
		require.NoError(t, err)
		got := tree(t, r)
		require.Equal(t, "OldWidget", got["kind"])
		require.Equal(t, "old.example.dev/v1beta1", got["apiVersion"])
		require.Equal(t, int64(4), got["width"])

		entry, err := e.Get(t.Context(), named("x"), registry.ListRequest{})
		require.NoError(t, err)
		stored := tree(t, &registry.Result{Entry: entry})
		require.Equal(t, "Widget", stored["kind"])
		require.Equal(t, int64(4), at(stored, "spec", "size"))
		require.Equal(t, at(got, "metadata"), at(stored, "metadata"), "metadata are the same in every form")

		shown, err := e.Get(t.Context(), oldNamed, registry.ListRequest{})
		require.NoError(t, err)
		require.Equal(t, got, tree(t, &registry.Result{Entry: shown}))

		same, err := e.Update(t.Context(), oldNamed, shown.AppendJSON(nil), registry.WriteOptions{})
		require.NoError(t, err)
		require.Equal(t, shown.Revision(), same.Entry.Revision(), "no change, no write, in any form")

		r, err = merge(t.Context(), e, oldNamed, `{"width":5}`)
		require.NoError(t, err)
		require.Equal(t, int64(5), at(tree(t, r), "width"))
		_, err = merge(t.Context(), e, oldNamed, `{"keeper":"nobody"}`)
		require.ErrorContains(t, err, `OldWidget.old.example.dev "x" is invalid: keeper`)

		for selector, want := range map[string]int{"keeper=eve": 1, "keeper=adam": 0, "metadata.name=x": 1} {
			f, err := meta.ParseFieldSelector(selector)
			require.NoError(t, err)
			l, err := e.List(t.Context(), old, registry.ListRequest{Fields: f})
			require.NoError(t, err)
			require.Len(t, entriesOf(t, l), want, selector)
		}
		dry, err := e.Create(t.Context(), old, []byte(`{"metadata":{"name":"y"},"width":4}`), registry.WriteOptions{DryRun: true})
		require.NoError(t, err)
		require.Equal(t, "OldWidget", tree(t, dry)["kind"])

		gone, err := e.Delete(t.Context(), oldNamed, registry.DeleteOptions{})
		require.NoError(t, err)
		require.True(t, gone.Removed)
		_, err = e.Get(t.Context(), named("x"), registry.ListRequest{})
		require.True(t, status.IsNotFound(err))
	})
}

// A field that is computed can be selected by in every form, and a watch sees an object come and go by it.
func TestEVT_37_ComputedFields(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e := start(t, b, nil, computed{})
		create(t, e, "x")
		_, err := merge(t.Context(), e, named("x"), `{"spec":{"owner":"eve"}}`)
		require.NoError(t, err)
		create(t, e, "y")
		for _, target := range []registry.Target{inA, {Resource: oldResource, Namespace: "a"}} {
			for selector, want := range map[string]int{"who=eve": 1, "who=blue": 1, "who!=eve": 1, "who=": 0} {
				f, err := meta.ParseFieldSelector(selector)
				require.NoError(t, err)
				l, err := e.List(t.Context(), target, registry.ListRequest{Fields: f})
				require.NoError(t, err)
				require.Len(t, entriesOf(t, l), want, selector)
			}
		}
		f, err := meta.ParseFieldSelector("who=blue")
		require.NoError(t, err)
		c, err := e.Follow(t.Context(), registry.Target{Resource: oldResource, Namespace: "a"}, registry.WatchRequest{Fields: f, SkipInitial: true})
		require.NoError(t, err)
		defer c.Close()
		_, err = merge(t.Context(), e, named("y"), `{"spec":{"owner":"eve"}}`)
		require.NoError(t, err)
		_, err = merge(t.Context(), e, named("x"), `{"spec":{"owner":null}}`)
		require.NoError(t, err)
		require.Equal(t, []string{"DELETED y", "ADDED x"}, follow(t, c, 2))
	})
}

// computed is widgets in two forms that can be selected by their owner or, when they have none, their color.
type computed struct{}

func (computed) Define(env registry.Env) (registry.Bundle, error) {
	b, err := twoForms().Define(env)
	if err != nil {
		return b, err
	}
	for _, r := range b.Resources {
		r.Selectable = append(r.Selectable, "who")
	}
	b.Resources[0].Computed = map[string]func(registry.Tree) string{"who": func(t registry.Tree) string {
		if owner, _ := at(t, "spec", "owner").(string); owner != "" {
			return owner
		}
		color, _ := at(t, "spec", "color").(string)
		return color
	}}
	return b, nil
}

func TestConversionsThatFailStoreNothingAndTellNothing(t *testing.T) {
	b := memory.New()
	e := start(t, b, nil, twoForms())
	old := registry.Target{Resource: oldResource, Namespace: "a"}
	before, err := b.Revision(t.Context())
	require.NoError(t, err)
	for _, keeper := range []string{"broken", "panic"} {
		_, err := e.Create(t.Context(), old, []byte(`{"metadata":{"name":"x"},"width":4,"keeper":"`+keeper+`"}`), registry.WriteOptions{})
		require.Equal(t, meta.ReasonInternalError, reason(t, err))
		require.NotContains(t, err.Error(), "secret")
	}
	after, err := b.Revision(t.Context())
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestFormsThatCannotBeServed(t *testing.T) {
	old := registry.Kind[oldWidget]{Group: "old.example.dev", Version: "v1beta1", Plural: "oldwidgets", Names: registry.Names{Kind: "OldWidget"}}
	to := func(*oldWidget) (*widget, error) { return &widget{}, nil }
	from := func(*widget) (*oldWidget, error) { return &oldWidget{}, nil }
	fields := map[string]string{"keeper": "spec.owner"}
	for want, form := range map[string]registry.Form{
		"form 0 is nil":                 nil,
		"a function for each direction": registry.As(old, to, nil, fields),
		"As converts to and from engine_test.oldWidget, but what is stored is engine_test.widget": registry.As(old,
			func(o *oldWidget) (*oldWidget, error) { return o, nil }, func(o *oldWidget) (*oldWidget, error) { return o, nil }, fields),
		`"keeper" is "keeper" in what is stored`:    registry.As(old, to, from, nil),
		`"keeper" is "spec.none" in what is stored`: registry.As(old, to, from, map[string]string{"keeper": "spec.none"}),
	} {
		k := widgets()
		k.Also = []registry.Form{form}
		_, err := k.Define(registry.Env{})
		require.ErrorContains(t, err, want)
	}
}

func TestRemovingTheStoredFormTakesTheOthersAlong(t *testing.T) {
	e := start(t, memory.New(), nil, twoForms())
	e.Remove(widgetResource.GroupResource())
	_, err := e.List(t.Context(), registry.Target{Resource: oldResource}, registry.ListRequest{})
	require.True(t, status.IsNotFound(err))
}
