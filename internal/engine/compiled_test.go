package engine_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/registry"
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
