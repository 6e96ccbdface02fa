package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
	trees "github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage/memory"
)

// The race detector sees a write to a description that somebody else has.
func TestADescriptionIsOnlyRead(t *testing.T) {
	described, err := widgets().Resource()
	require.NoError(t, err)
	described.Names.Singular, described.NameRule = "", nil // what a server fills in, in a copy of its own
	var running sync.WaitGroup
	for range 2 {
		e := start(t, memory.New(), nil)
		running.Go(func() {
			if !assertInstalled(t, e, described) {
				return
			}
			for range 5 {
				running.Go(func() { _, _ = e.Create(context.Background(), inA, body("x", 1, ""), registry.WriteOptions{}) })
				e.RemoveVersions(widgetResource)
				assertInstalled(t, e, described)
			}
		})
	}
	running.Wait()
	require.Empty(t, described.Names.Singular)
	require.Nil(t, described.NameRule)
}

func assertInstalled(t *testing.T, e *engine.Engine, r *registry.Resource) bool {
	if err := e.Install(context.Background(), r); err != nil {
		t.Error(err)
		return false
	}
	return true
}

// What a program does with a description after it was installed changes nothing that is served.
func TestADescriptionMayBeChangedAfterInstall(t *testing.T) {
	described, err := widgets().Resource()
	require.NoError(t, err)
	described.Columns = []openapi.Column{{Name: "Size", Type: "integer", Path: []string{"spec", "size"}}}
	e := start(t, memory.New(), nil)
	require.NoError(t, e.Install(t.Context(), described))
	create(t, e, "x")
	served, _ := e.Set().Lookup(widgetResource)
	names, columns, selectable := served.Kind.Names, served.Kind.Columns[0], slices.Clone(served.Kind.Selectable)
	require.NotEmpty(t, names.ShortNames)
	require.NotEmpty(t, selectable)

	stop := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() { // the race detector sees what is shared
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = e.List(context.Background(), inA, registry.ListRequest{})
				_ = slices.Contains(served.Kind.Names.ShortNames, "wd")
				_ = slices.Contains(served.Kind.Selectable, "spec.owner")
			}
		}
	})
	for range 100 {
		described.Names.ShortNames[0], described.Columns[0].Name, described.Selectable[0] = "zz", "Other", "spec.other"
		described.Names, described.Plural, described.ClusterScoped, described.Schema = registry.Names{Kind: "Gizmo", ShortNames: described.Names.ShortNames}, "gizmos", true, nil
		described.Hooks = registry.Hooks{Validate: func(context.Context, registry.Tree, *status.Fields) { panic("not installed") }}
	}
	close(stop)
	reading.Wait()
	require.Equal(t, "wd", names.ShortNames[0])
	require.Equal(t, names, served.Kind.Names)
	require.Equal(t, columns, served.Kind.Columns[0])
	require.Equal(t, selectable, served.Kind.Selectable)
	create(t, e, "y")
}

// A hook whose result is no object of the kind fails the request, and nothing is stored.
func TestAHookThatBreaksTheSchemaIsRefused(t *testing.T) {
	broken := func(_ context.Context, object registry.Tree) (registry.Tree, error) {
		return trees.With(object, "many", "spec", "size"), nil
	}
	for name, hooks := range map[string]registry.Hooks{
		"Default":  {Default: broken},
		"Complete": {Complete: func(ctx context.Context, t, _ registry.Tree) (registry.Tree, error) { return broken(ctx, t) }},
	} {
		described := describe(t, widgets())
		described.Hooks = hooks
		e := start(t, memory.New(), nil)
		require.NoError(t, e.Install(t.Context(), described))
		_, err := e.Create(t.Context(), inA, body("x", 1, ""), registry.WriteOptions{})
		require.Equal(t, meta.ReasonInternalError, reason(t, err), name)
		require.ErrorContains(t, errors.Unwrap(err), "the "+name+" hook of widgets.example.dev made an object its schema refuses")
		_, err = e.Get(t.Context(), named("x"), registry.ListRequest{})
		require.True(t, status.IsNotFound(err))
	}
}
