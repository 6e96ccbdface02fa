package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// Rules know the path of the write that they are asked about.
func TestUPDATE_11_RulesKnowThePath(t *testing.T) {
	var through []string
	k := vaseKind()
	k.Rules.Validate = func(ctx context.Context, _ *vase, _ *status.Fields) {
		through = append(through, registry.SubresourceFrom(ctx))
	}
	k.Rules.ValidateUpdate = func(ctx context.Context, v, old *vase, f *status.Fields) {
		if registry.SubresourceFrom(ctx) != "status" && v.Spec.Color != old.Spec.Color {
			f.At("spec", "color").Forbidden("has dried")
		}
	}
	e, err := engine.New(engine.Config{Store: storage.New(memory.New())})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		e.Wait()
	})
	r, err := k.Resource()
	require.NoError(t, err)
	require.NoError(t, e.Start(ctx))
	require.NoError(t, e.Install(ctx, r))
	target := registry.Target{Resource: r.GroupVersionResource(), Namespace: "default", Name: "v"}
	_, err = e.Create(ctx, registry.Target{Resource: target.Resource, Namespace: "default"}, []byte(`{"metadata":{"name":"v"},"spec":{"color":"red"}}`), registry.WriteOptions{})
	require.NoError(t, err)
	_, err = e.Update(ctx, target, []byte(`{"metadata":{"name":"v"},"spec":{"color":"blue"}}`), registry.WriteOptions{})
	require.ErrorContains(t, err, "spec.color: Forbidden: has dried")
	target.Subresource = "status"
	_, err = e.Update(ctx, target, []byte(`{"metadata":{"name":"v"},"status":{"shape":"round"}}`), registry.WriteOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"", "", "status"}, through)
}
