package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
)

// benchBackends are the stores that writes are measured on.
func benchBackends(b *testing.B, bench func(b *testing.B, e *engine.Engine)) {
	b.Run("memory", func(b *testing.B) {
		db := memory.New()
		defer func() { require.NoError(b, db.Close()) }()
		bench(b, startBench(b, db))
	})
	b.Run("bbolt", func(b *testing.B) {
		db, err := bbolt.Open(b.TempDir() + "/db")
		require.NoError(b, err)
		defer func() { require.NoError(b, db.Close()) }()
		bench(b, startBench(b, db))
	})
}

func startBench(b *testing.B, db storage.Backend, changes ...func(*engine.Config)) *engine.Engine {
	b.Helper()
	cfg := engine.Config{Store: storage.New(db)}
	for _, change := range changes {
		change(&cfg)
	}
	e, err := engine.New(cfg)
	require.NoError(b, err)
	require.NoError(b, e.Start(b.Context()))
	b.Cleanup(e.Wait)
	r, err := widgets().Resource()
	require.NoError(b, err)
	require.NoError(b, e.Install(b.Context(), r))
	return e
}

// kilobyte is a widget of about 1 KiB.
func kilobyte(name string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":%q,"labels":{"app":"bench"}},"spec":{"size":3,"owner":"bench","note":%q}}`,
		name, strings.Repeat("lorem ip", 90))
}

func BenchmarkCreate(b *testing.B) {
	benchBackends(b, func(b *testing.B, e *engine.Engine) {
		n := 0
		b.ReportAllocs()
		for b.Loop() {
			n++
			if _, err := e.Create(b.Context(), inA, kilobyte(fmt.Sprintf("w%09d", n)), registry.WriteOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCreateIdlePlugin is BenchmarkCreate on a server with a plugin that handles other writes.
func BenchmarkCreateIdlePlugin(b *testing.B) {
	chain, err := admission.NewChain(admission.Plugin{
		Name: "idle", Rules: []admission.Rule{{Groups: []string{"apps"}, Resources: []string{"deployments"}}},
		Mutator:   admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) { return r.Object, nil }),
		Validator: admission.ValidatorFunc(func(context.Context, *admission.Request) error { return nil }),
	})
	require.NoError(b, err)
	e := startBench(b, memory.New(), func(c *engine.Config) { c.Admission = chain })
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		if _, err := e.Create(b.Context(), inA, kilobyte(fmt.Sprintf("w%09d", n)), registry.WriteOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCreateParallel64(b *testing.B) {
	benchBackends(b, func(b *testing.B, e *engine.Engine) {
		var n atomic.Int64
		b.ReportAllocs()
		b.SetParallelism(32) // times two processors
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := e.Create(b.Context(), inA, kilobyte(fmt.Sprintf("w%09d", n.Add(1))), registry.WriteOptions{}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}

func BenchmarkGet(b *testing.B) {
	e := startBench(b, memory.New())
	_, err := e.Create(b.Context(), inA, kilobyte("x"), registry.WriteOptions{})
	require.NoError(b, err)
	target := named("x")
	b.ReportAllocs()
	for b.Loop() {
		entry, err := e.Get(b.Context(), target, registry.ListRequest{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := entry.WriteTo(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMergePatch(b *testing.B) {
	benchBackends(b, func(b *testing.B, e *engine.Engine) {
		_, err := e.Create(b.Context(), inA, kilobyte("x"), registry.WriteOptions{})
		require.NoError(b, err)
		n := 0
		b.ReportAllocs()
		for b.Loop() {
			n++
			if _, err := merge(b.Context(), e, named("x"), fmt.Sprintf(`{"spec":{"size":%d}}`, n%1000+1)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkWrites is one write of 1 KiB of each sort. Each changes something unless its name says otherwise.
func BenchmarkWrites(b *testing.B) {
	e := startBench(b, memory.New())
	n := 0
	sized := func(size int) []byte {
		return bytes.Replace(kilobyte("x"), []byte(`"size":3`), fmt.Appendf(nil, `"size":%d`, size), 1)
	}
	create := func(name string) error {
		_, err := e.Create(b.Context(), inA, kilobyte(name), registry.WriteOptions{FieldManager: "bench"})
		return err
	}
	update := func(size int) error {
		_, err := e.Update(b.Context(), named("x"), sized(size), registry.WriteOptions{FieldManager: "bench"})
		return err
	}
	patched := func(name string, kind meta.PatchType, body []byte) error {
		_, err := e.Patch(b.Context(), named(name), registry.PatchRequest{Type: kind, Body: body}, registry.WriteOptions{FieldManager: "bench"})
		return err
	}
	require.NoError(b, create("x"))
	applied := func(size int) []byte { return bytes.Replace(sized(size), []byte(`"x"`), []byte(`"applied"`), 1) }
	for _, write := range []struct {
		name string
		run  func() error
	}{
		{"create", func() error { return create(fmt.Sprintf("w%09d", n)) }},
		{"update", func() error { return update(n%1000 + 1) }},
		{"update no-op", func() error { return update(7) }},
		{"merge patch", func() error {
			return patched("x", meta.MergePatch, fmt.Appendf(nil, `{"spec":{"size":%d}}`, n%1000+1))
		}},
		{"apply", func() error { return patched("applied", meta.ApplyPatch, applied(n%1000+1)) }},
		{"apply no-op", func() error { return patched("applied", meta.ApplyPatch, applied(7)) }},
		{"delete", func() error {
			_, err := e.Delete(b.Context(), named(fmt.Sprintf("w%09d", n)), registry.DeleteOptions{})
			return err
		}},
	} {
		b.Run(write.name, func(b *testing.B) {
			if write.name == "delete" {
				for i := range b.N {
					require.NoError(b, create(fmt.Sprintf("w%09d", n+i+1)))
				}
				b.ResetTimer()
			}
			b.ReportAllocs()
			for range b.N {
				n++
				if err := write.run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFirstPageOfThePast is the first page of 200,000 objects as they were before the latest change. Only the store has
// that state.
func BenchmarkFirstPageOfThePast(b *testing.B) {
	db := memory.New()
	defer func() { require.NoError(b, db.Close()) }()
	e := startBench(b, db)
	for i := range 200_000 {
		_, err := e.Create(b.Context(), inA, fmt.Appendf(nil, `{"metadata":{"name":"w%06d"},"spec":{"size":1}}`, i), registry.WriteOptions{})
		require.NoError(b, err)
	}
	now, err := e.List(b.Context(), inA, registry.ListRequest{}) // without a limit, so that nothing is pinned
	require.NoError(b, err)
	_, err = e.Delete(b.Context(), named("w100000"), registry.DeleteOptions{})
	require.NoError(b, err)
	then := registry.ListRequest{Limit: 500, Version: now.Revision, Match: meta.ResourceVersionMatchExact}
	b.ReportAllocs()
	for b.Loop() {
		l, err := e.List(b.Context(), inA, then)
		require.NoError(b, err)
		require.NotNil(b, l.Remaining)
		require.EqualValues(b, 199_500, *l.Remaining)
	}
}

// BenchmarkLoad is the start of a server with 64 kinds and 200,000 objects.
func BenchmarkLoad(b *testing.B) {
	db := memory.New()
	defer func() { require.NoError(b, db.Close()) }()
	const kinds = 64
	var all []*registry.Resource
	for i := range kinds {
		k := widgets()
		k.Plural, k.Names = fmt.Sprintf("kind%02ds", i), registry.Names{Kind: fmt.Sprintf("Kind%02d", i)}
		r, err := k.Resource()
		require.NoError(b, err)
		all = append(all, r)
	}
	load := func() (*engine.Engine, func()) {
		e, err := engine.New(engine.Config{Store: storage.New(db)})
		require.NoError(b, err)
		ctx, cancel := context.WithCancel(b.Context())
		require.NoError(b, e.Start(ctx))
		require.NoError(b, e.Install(ctx, all...))
		return e, func() { cancel(); e.Wait() }
	}
	e, stop := load()
	for i := range 200_000 {
		body := fmt.Appendf(nil, `{"metadata":{"name":"w%06d"},"spec":{"size":1}}`, i)
		_, err := e.Create(b.Context(), registry.Target{Resource: all[i%kinds].GroupVersionResource(), Namespace: "a"}, body, registry.WriteOptions{})
		require.NoError(b, err)
	}
	stop()
	b.ReportAllocs()
	for b.Loop() {
		_, stop := load()
		stop()
	}
}

// BenchmarkRemote is a write over a store whose calls take two milliseconds.
func BenchmarkRemote(b *testing.B) {
	store := newPrompt(memory.New())
	e := startBench(b, store)
	_, err := e.Create(b.Context(), inA, kilobyte("x"), registry.WriteOptions{})
	require.NoError(b, err)
	store.latency.Store(int64(2 * time.Millisecond))
	n := 0
	for _, verb := range []struct {
		name string
		run  func() error
	}{
		{"get", func() error { _, err := e.Get(b.Context(), named("x"), registry.ListRequest{}); return err }},
		{"create", func() error {
			_, err := e.Create(b.Context(), inA, kilobyte(fmt.Sprintf("w%09d", n)), registry.WriteOptions{})
			return err
		}},
		{"merge patch", func() error {
			_, err := merge(b.Context(), e, named("x"), fmt.Sprintf(`{"spec":{"size":%d}}`, n%1000+1))
			return err
		}},
		{"merge patch no-op", func() error { _, err := merge(b.Context(), e, named("x"), `{}`); return err }},
		{"delete", func() error {
			_, err := e.Delete(b.Context(), named(fmt.Sprintf("w%09d", n)), registry.DeleteOptions{})
			return err
		}},
	} {
		b.Run(verb.name, func(b *testing.B) {
			if verb.name == "delete" {
				store.latency.Store(0)
				for i := range b.N {
					_, err := e.Create(b.Context(), inA, kilobyte(fmt.Sprintf("w%09d", n+i+1)), registry.WriteOptions{})
					require.NoError(b, err)
				}
				store.latency.Store(int64(2 * time.Millisecond))
			}
			trips := store.trips()
			b.ResetTimer()
			for range b.N {
				n++
				require.NoError(b, verb.run())
			}
			b.ReportMetric(float64(store.trips()-trips)/float64(b.N), "round-trips/op")
		})
	}
}
