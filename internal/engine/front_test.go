package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

func TestAFrontHasEveryVerb(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e, ctx := start(t, b, nil, widgets()), t.Context()
		front := registry.From[widget](e)
		w := &widget{ObjectMeta: meta.Named("a", "x"), Spec: widgetSpec{Size: 3}}
		made, err := front.Create(ctx, w)
		require.NoError(t, err)
		require.NotEmpty(t, made.UID)
		require.Equal(t, "blue", made.Spec.Color)
		require.Empty(t, w.UID, "what is given is not changed")

		made.Spec.Size = 4
		updated, err := front.Update(ctx, made)
		require.NoError(t, err)
		_, err = front.Update(ctx, made)
		require.True(t, status.IsConflict(err), "it was read before the last update")
		got, err := front.Get(ctx, "a", "x")
		require.NoError(t, err)
		require.Equal(t, updated, got)

		patched, err := front.Patch(ctx, "a", "x", registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{"spec":{"note":"n"}}`)})
		require.NoError(t, err)
		require.Equal(t, "n", patched.Spec.Note)
		applied, err := front.With(registry.WriteOptions{FieldManager: "me"}).Apply(ctx, &widget{
			TypeMeta: meta.TypeMeta{APIVersion: "example.dev/v1", Kind: "Widget"}, ObjectMeta: meta.Named("b", "y"), Spec: widgetSpec{Size: 1},
		})
		require.NoError(t, err)
		require.Equal(t, int32(1), applied.Spec.Size)
		withStatus, err := front.Sub("status").Modify(ctx, "b", "y", func(w *widget) error {
			w.Status.Phase, w.Spec.Size = "Ready", 9
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, "Ready", withStatus.Status.Phase)
		require.Equal(t, int32(1), withStatus.Spec.Size, "the status alone is written")

		var names []string
		for w, err := range front.List(ctx, "", registry.ListRequest{}) {
			require.NoError(t, err)
			names = append(names, w.Name)
		}
		require.Equal(t, []string{"x", "y"}, names)
		dry, err := front.With(registry.WriteOptions{DryRun: true}).Create(ctx, &widget{ObjectMeta: meta.Named("a", "dry"), Spec: widgetSpec{Size: 1}})
		require.NoError(t, err)
		require.Equal(t, "dry", dry.Name)
		require.NoError(t, front.Delete(ctx, "a", "x", registry.DeleteOptions{UID: made.UID}))
		_, err = front.Get(ctx, "a", "x")
		require.True(t, status.IsNotFound(err))
		n, err := front.DeleteCollection(ctx, "b", registry.ListRequest{}, registry.DeleteOptions{})
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}

func TestAFrontWatches(t *testing.T) {
	e := start(t, memory.New(), nil, gears())
	v1Gear(t, e, "one", `{"teeth":4}`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen []string
	var ended error
	for event, err := range registry.From[betaGear](e).Watch(ctx, "a", registry.WatchRequest{}) {
		if err != nil {
			ended = err
			continue
		}
		switch event.Type {
		case meta.Bookmark:
			require.Nil(t, event.Object)
			v1Gear(t, e, "two", `{"teeth":5}`)
			continue
		case meta.Deleted:
			cancel()
		case meta.Added:
			if event.Object.Name == "two" {
				require.NoError(t, registry.From[gear](e).Delete(t.Context(), "a", "two", registry.DeleteOptions{}))
			}
		}
		seen = append(seen, fmt.Sprintf("%s %s %d", event.Type, event.Object.Name, event.Object.Cogs))
	}
	require.Equal(t, []string{"ADDED one 4", "ADDED two 5", "DELETED two 5"}, seen, "in the version of the Go type")
	require.ErrorIs(t, ended, context.Canceled)
}

func TestModifyLosesNoWrite(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e := start(t, b, nil, widgets())
		create(t, e, "x")
		front := registry.From[widget](e)
		const writers, each = 8, 10
		var group sync.WaitGroup
		for range writers {
			group.Go(func() {
				for range each {
					if _, err := front.Modify(t.Context(), "a", "x", func(w *widget) error { w.Spec.Size++; return nil }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		w, err := front.Get(t.Context(), "a", "x")
		require.NoError(t, err)
		require.Equal(t, int32(3+writers*each), w.Spec.Size)
	})
}

func TestModifyEnds(t *testing.T) {
	refuse := admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		return status.Conflict(widgetResource.GroupResource(), r.Name, "never")
	})
	chain, err := admission.NewChain(admission.Plugin{Name: "never", Validator: refuse})
	require.NoError(t, err)
	b := memory.New()
	create(t, start(t, b, nil, widgets()), "x")
	front := registry.From[widget](start(t, b, func(c *engine.Config) { c.Admission = chain }, widgets()))
	before, err := front.Get(t.Context(), "a", "x")
	require.NoError(t, err)

	calls := 0
	_, err = front.Modify(t.Context(), "a", "x", func(w *widget) error { calls++; w.Spec.Size++; return nil })
	require.True(t, status.IsConflict(err), "a conflict that no other write has caused is not tried again")
	require.ErrorContains(t, err, "never")
	require.Equal(t, 1, calls)
	_, err = front.Modify(t.Context(), "a", "x", func(*widget) error { return errEnough })
	require.Equal(t, errEnough, err)
	same, err := front.Modify(t.Context(), "a", "x", func(*widget) error { return nil })
	require.NoError(t, err, "nothing is written when nothing changes")
	require.Equal(t, before, same)
	_, err = front.Modify(t.Context(), "a", "absent", func(*widget) error { return nil })
	require.True(t, status.IsNotFound(err))
}

var errEnough = errors.New("enough")

// A struct that knows less than the stored object changes what it knows and nothing else.
func TestModifyKeepsWhatAVersionCannotSay(t *testing.T) {
	e := start(t, memory.New(), nil, gears())
	v1Gear(t, e, "x", `{"teeth":4,"secret":"s"}`)
	g, err := registry.From[betaGear](e).Modify(t.Context(), "a", "x", func(g *betaGear) error { g.Cogs = 6; return nil })
	require.NoError(t, err)
	require.Equal(t, int32(6), g.Cogs)
	require.Equal(t, map[string]any{"teeth": int64(6), "color": "blue", "secret": "s"}, get(t, e, gearAt("v1", "x"))["spec"])
}

func TestForInARule(t *testing.T) {
	kind, zone := widgets(), zones()
	kind.Rules.Validate = func(ctx context.Context, w *widget, f *status.Fields) {
		if _, err := registry.For[gear](ctx).Get(ctx, w.Namespace, w.Spec.Owner); status.IsNotFound(err) {
			f.At("spec", "owner").NotFound(w.Spec.Owner)
		} else if err != nil {
			f.At("spec", "owner").Invalid(w.Spec.Owner, err.Error())
		}
	}
	e := start(t, memory.New(), nil, kind, gears())
	send := func() error {
		_, err := e.Create(t.Context(), inA, []byte(`{"metadata":{"name":"x"},"spec":{"size":1,"owner":"o"}}`), registry.WriteOptions{})
		return err
	}
	require.ErrorContains(t, send(), "Not found")
	v1Gear(t, e, "o", `{"teeth":4}`)
	require.NoError(t, send())

	_, err := registry.For[gear](t.Context()).Get(t.Context(), "a", "o")
	require.ErrorContains(t, err, "use From", "outside of a rule")
	for _, err := range registry.For[gear](t.Context()).List(t.Context(), "a", registry.ListRequest{}) {
		require.ErrorContains(t, err, "use From")
	}
	_, err = registry.From[gadget](e).Get(t.Context(), "", "o")
	require.ErrorContains(t, err, "the server has no kind of Go type engine_test.gadget")
	r, err := zone.Resource()
	require.NoError(t, err)
	require.NoError(t, e.Install(t.Context(), r))
	_, err = registry.From[widget](e).Get(t.Context(), "a", "x")
	require.ErrorContains(t, err, "Go type engine_test.widget belongs to more than one kind: ")
}

func TestAFrontWritesAsTheCallerOrTheServer(t *testing.T) {
	var user string
	note := admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error { user = r.User.Name; return nil })
	chain, err := admission.NewChain(admission.Plugin{Name: "note", Validator: note})
	require.NoError(t, err)
	front := registry.From[widget](start(t, memory.New(), func(c *engine.Config) { c.Admission = chain }, widgets()))
	ctx := authn.WithUser(t.Context(), authn.User{Name: "ann"})
	_, err = front.Create(ctx, &widget{ObjectMeta: meta.Named("a", "x"), Spec: widgetSpec{Size: 1}})
	require.NoError(t, err)
	require.Equal(t, "ann", user)
	require.NoError(t, front.AsSystem().Delete(ctx, "a", "x", registry.DeleteOptions{}))
	require.Equal(t, "system:apiserver", user)
}
