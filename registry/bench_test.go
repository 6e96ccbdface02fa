package registry_test

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
)

// benchBackends are the stores that writes are measured on.
func benchBackends(b *testing.B, bench func(b *testing.B, e *registry.Engine)) {
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

func startBench(b *testing.B, db storage.Backend) *registry.Engine {
	b.Helper()
	e, err := registry.New(registry.Config{Store: storage.New(db)})
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
	benchBackends(b, func(b *testing.B, e *registry.Engine) {
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

func BenchmarkCreateParallel64(b *testing.B) {
	benchBackends(b, func(b *testing.B, e *registry.Engine) {
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
	benchBackends(b, func(b *testing.B, e *registry.Engine) {
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
