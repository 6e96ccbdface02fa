package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

// slowPlugin counts the tries of writes to widgets, each of which takes a while.
func slowPlugin(t *testing.T, think func(ctx context.Context, r *admission.Request) error) *admission.Chain {
	t.Helper()
	chain, err := admission.NewChain(admission.Plugin{
		Name: "slow", Rules: ofWidgets(), Validator: admission.TypedValidator(func(ctx context.Context, r *admission.Request, _, _ *widget) error {
			return think(ctx, r)
		}),
	})
	require.NoError(t, err)
	return chain
}

// What many writes to one object cost grows as their number, not as its square, and each of them is made.
func TestUPDATE_11_ManyWritesToOneObjectTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writes = 300
		var tries atomic.Int64
		chain := slowPlugin(t, func(context.Context, *admission.Request) error {
			tries.Add(1)
			time.Sleep(time.Millisecond)
			return nil
		})
		e := start(t, memory.New(), func(c *engine.Config) { c.Admission = chain }, widgets())
		_, err := e.Create(t.Context(), inA, body("w", 1, ""), registry.WriteOptions{})
		require.NoError(t, err)
		tries.Store(0)
		var running sync.WaitGroup
		for i := range writes {
			running.Go(func() {
				patch := fmt.Sprintf(`{"metadata":{"labels":{"l%d":""}}}`, i)
				_, err := e.Patch(t.Context(), named("w"), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(patch)}, registry.WriteOptions{})
				require.NoError(t, err)
			})
		}
		running.Wait()
		got, err := e.Patch(t.Context(), named("w"), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{}`)}, registry.WriteOptions{})
		require.NoError(t, err)
		require.Len(t, at(tree(t, got), "metadata", "labels"), writes)
		require.LessOrEqual(t, tries.Load(), int64(3*writes), "a first try, one with the turn, and one for each first try that was faster")
	})
}

// A write that is slower than a turn waits for another one when it loses after all. It does not start again beside
// whoever has the turn: all that had lost so did, and most lost once more.
func TestUPDATE_11_SlowWritesTakeTurnsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writes = 60
		var tries atomic.Int64
		chain := slowPlugin(t, func(context.Context, *admission.Request) error {
			tries.Add(1)
			time.Sleep(1500 * time.Millisecond)
			return nil
		})
		e := start(t, memory.New(), func(c *engine.Config) { c.Admission = chain }, widgets())
		_, err := e.Create(t.Context(), inA, body("w", 1, ""), registry.WriteOptions{})
		require.NoError(t, err)
		tries.Store(0)
		var running sync.WaitGroup
		for i := range writes {
			running.Go(func() {
				patch := fmt.Sprintf(`{"metadata":{"labels":{"l%d":""}}}`, i)
				_, err := e.Patch(t.Context(), named("w"), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(patch)}, registry.WriteOptions{})
				require.NoError(t, err)
			})
		}
		running.Wait()
		require.LessOrEqual(t, tries.Load(), int64(4*writes), "a first try, and two for each that is made, since two are under way at once")
	})
}

// A deletion takes its turn among the writes to the object, so it does not lose until they end.
func TestUPDATE_11_DeletionsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writes = 300
		var tries atomic.Int64
		chain := slowPlugin(t, func(_ context.Context, r *admission.Request) error {
			time.Sleep(time.Millisecond)
			if r.Operation == admission.Delete {
				tries.Add(1)
				time.Sleep(2 * time.Millisecond) // as long as several writes
			}
			return nil
		})
		e := start(t, memory.New(), func(c *engine.Config) { c.Admission = chain }, widgets())
		patch := func(text string) error {
			_, err := e.Patch(t.Context(), named("w"), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(text)}, registry.WriteOptions{})
			return err
		}
		_, err := e.Create(t.Context(), inA, body("w", 1, ""), registry.WriteOptions{})
		require.NoError(t, err)
		require.NoError(t, patch(`{"metadata":{"finalizers":["example.com/held"]}}`))
		var running sync.WaitGroup
		for i := range writes {
			running.Go(func() { require.NoError(t, patch(fmt.Sprintf(`{"metadata":{"labels":{"l%d":""}}}`, i))) })
		}
		running.Go(func() {
			_, err := e.Delete(t.Context(), named("w"), registry.DeleteOptions{})
			require.NoError(t, err)
		})
		running.Wait()
		require.LessOrEqual(t, tries.Load(), int64(4))
	})
}

// A write that waits for its turn ends with its request, and keeps nobody else waiting. A hook that writes
// the object itself gets on.
func TestUPDATE_11_TurnsPassOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e *engine.Engine
		label := func(ctx context.Context, name string) error {
			patch := fmt.Sprintf(`{"metadata":{"labels":{%q:""}}}`, name)
			_, err := e.Patch(ctx, named("w"), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(patch)}, registry.WriteOptions{})
			return err
		}
		type inner struct{}
		var nested atomic.Int64
		chain := slowPlugin(t, func(ctx context.Context, _ *admission.Request) error {
			if ctx.Value(inner{}) != nil {
				return nil
			}
			time.Sleep(time.Millisecond)
			if n := nested.Add(1); n <= 20 {
				return label(context.WithValue(ctx, inner{}, true), fmt.Sprint("inner", n))
			}
			return nil
		})
		e = start(t, memory.New(), func(c *engine.Config) { c.Admission = chain }, widgets())
		nested.Store(100)
		_, err := e.Create(t.Context(), inA, body("w", 1, ""), registry.WriteOptions{})
		require.NoError(t, err)
		nested.Store(0)
		var running sync.WaitGroup
		for i := range 10 {
			running.Go(func() { require.NoError(t, label(t.Context(), fmt.Sprint("outer", i))) })
			running.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
				defer cancel()
				_ = label(ctx, "late") // some have too little time
			})
		}
		running.Wait()
		require.NoError(t, label(t.Context(), "last"))
		got, err := e.Patch(t.Context(), named("w"), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{}`)}, registry.WriteOptions{})
		require.NoError(t, err)
		labels := at(tree(t, got), "metadata", "labels")
		for i := range 10 {
			require.Contains(t, labels, fmt.Sprint("outer", i))
		}
	})
}
