package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
)

// dryGate is a steady gate that notes for which creations it was asked, and whether they were dry runs.
type dryGate struct{ dry []bool }

func (g *dryGate) AdmitCreate(ctx context.Context, _ *storage.Store, _ meta.GroupResource, _, _ string) ([]storage.Op, error) {
	g.dry = append(g.dry, hookcontext.IsDryRun(ctx))
	return nil, nil
}

func (*dryGate) Steady() {}

// A gate that would create a namespace does not do so for a dry run, and what it says of one is not
// remembered for writes.
func TestQUERY_12_AGateKnowsDryRuns(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		g := &dryGate{}
		e := start(t, b, func(c *engine.Config) { c.Gate = g }, registry.Kind[pot]{Group: "shop.example.com", Version: "v1", Plural: "pots", Names: registry.Names{Kind: "Pot"}})
		pots := registry.Target{Resource: meta.GroupVersionResource{Group: "shop.example.com", Version: "v1", Resource: "pots"}, Namespace: "default"}
		create := func(name string, dry bool) {
			_, err := e.Create(t.Context(), pots, []byte(`{"metadata":{"name":"`+name+`"}}`), registry.WriteOptions{DryRun: dry})
			require.NoError(t, err)
		}
		create("a", true)
		create("a", false)
		create("b", false)
		create("c", true)
		require.Equal(t, []bool{true, false, true}, g.dry, "b is admitted by what was said of a")
	})
}
