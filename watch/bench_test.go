package watch_test

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
)

// quick decodes nothing: a benchmark of this package is not one of JSON. The name is the key's.
func quick(r storage.Record) (*watch.Entry, error) {
	_, namespace, name, _ := storage.SplitObjectKey(r.Key)
	cut := len(r.Value) / 2
	return watch.NewEntry(r.Key, r.Revision, watch.Body{Prefix: r.Value[:cut], Suffix: r.Value[cut:]},
		watch.Facts{Namespace: namespace, Name: name, Labels: benchLabels(), Fields: []string{"red"}}), nil
}

func benchLabels() meta.LabelSet {
	return meta.LabelSet{{Key: "app", Value: "web"}, {Key: "tier", Value: "front"}}
}

// bench is a live view of n objects of 1 KiB in a store.
type bench struct {
	b     *testing.B
	store *storage.Store
	cache *watch.Cache
	value []byte
}

func newBench(b *testing.B, n int, change ...func(*watch.CacheConfig)) *bench {
	w := &bench{b: b, store: storage.New(memory.New()), value: []byte(strings.Repeat("x", 1024))}
	for i := range n {
		w.commit(storage.ObjectKey("widgets", "ns", fmt.Sprint("n", i)))
	}
	d := watch.NewDispatcher(w.store)
	cfg := config("widgets")
	cfg.Decode = quick
	for _, c := range change {
		c(&cfg)
	}
	var err error
	if w.cache, err = d.Add(b.Context(), cfg); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = d.Run(ctx) })
	b.Cleanup(func() {
		cancel()
		running.Wait()
		_ = w.store.Close()
	})
	return w
}

func (w *bench) commit(key string) storage.Revision {
	r, err := w.store.Commit(w.b.Context(), []storage.Op{storage.Put(key, w.value, storage.Any)})
	if err != nil {
		w.b.Fatal(err)
	}
	return r
}

// write commits and waits until the cache shows it, as every write of the engine does.
func (w *bench) write(key string) {
	if err := w.cache.WaitFor(w.b.Context(), w.commit(key)); err != nil {
		w.b.Fatal(err)
	}
}

func BenchmarkGet(b *testing.B) {
	w := newBench(b, 10_000)
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = storage.ObjectKey("widgets", "ns", fmt.Sprint("n", i))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, ok := w.cache.Get(keys[i]); !ok {
			b.Fatal(keys[i])
		}
		i = (i + 1) % len(keys)
	}
}

func BenchmarkFresh(b *testing.B) {
	w := newBench(b, 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := w.cache.Fresh(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// The body of a list of 10,000 objects of 1 KiB: what is left when nothing is encoded.
func BenchmarkList(b *testing.B) {
	w := newBench(b, 10_000)
	some, err := meta.ParseSelector("!absent")
	if err != nil {
		b.Fatal(err)
	}
	for name, f := range map[string]watch.Filter{"all": {}, "by label": {Labels: some}} {
		b.Run("written in parts/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for e := range w.cache.Snapshot().Ascend("", "") {
					if f.Matches(e) {
						_, _ = e.WriteTo(io.Discard)
					}
				}
			}
		})
	}
	b.Run("through a 32 KiB buffer", func(b *testing.B) {
		b.ReportAllocs()
		buf := make([]byte, 0, 36<<10)
		for b.Loop() {
			for e := range w.cache.Snapshot().Ascend("", "") {
				if buf = e.AppendJSON(buf); len(buf) >= 32<<10 {
					_, _ = io.Discard.Write(buf)
					buf = buf[:0]
				}
			}
		}
	})
}

// One write to a kind, until its writer knows that the cache has it.
func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 10_000} {
		for _, snapshots := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d objects, snapshot before each %v", n, snapshots), func(b *testing.B) {
				w := newBench(b, n)
				keys := make([]string, n)
				for i := range keys {
					keys[i] = storage.ObjectKey("widgets", "ns", fmt.Sprint("n", i))
				}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					if snapshots {
						w.cache.Snapshot()
					}
					w.write(keys[i*7919%n])
					i++
				}
			})
		}
	}
}

// One write until 1,000 watchers have its event.
func BenchmarkFanOut(b *testing.B) {
	w := newBench(b, 1)
	const watchers = 1000
	ctx, cancel := context.WithCancel(b.Context())
	var told, running sync.WaitGroup
	for range watchers {
		c, err := w.cache.Watch(ctx, watch.WatchRequest{})
		if err != nil {
			b.Fatal(err)
		}
		running.Go(func() {
			defer c.Close()
			buf := make([]watch.Event, 0, 8)
			for {
				events, err := c.Next(ctx, buf)
				if err != nil {
					return
				}
				for range events {
					told.Done()
				}
			}
		})
	}
	key := storage.ObjectKey("widgets", "ns", "n0")
	b.ReportAllocs()
	for b.Loop() {
		told.Add(watchers)
		w.commit(key)
		told.Wait()
	}
	b.StopTimer()
	cancel()
	running.Wait()
}

// One write to the kind while 10,000 watchers wait for something else. Compare with
// BenchmarkAppend.
func BenchmarkIdleWatchers(b *testing.B) {
	selected := func(text string) watch.Filter {
		selector, err := meta.ParseSelector(text)
		if err != nil {
			b.Fatal(err)
		}
		return watch.Filter{Namespace: "ns", Labels: selector}
	}
	for _, asked := range []struct {
		name   string
		filter func(i int) watch.Filter
	}{
		{"none", nil},
		{"single objects", func(i int) watch.Filter { return watch.Filter{Namespace: "ns", Name: fmt.Sprint("watched", i)} }},
		{"one label selector", func(int) watch.Filter { return selected("app in (other,another)") }},
		{"a label value each", func(i int) watch.Filter { return selected(fmt.Sprint("app=other", i)) }},
		{"a label selector each", func(i int) watch.Filter { return selected(fmt.Sprintf("app in (other%d,another)", i)) }},
		{"a label each", func(i int) watch.Filter { return selected(fmt.Sprint("other", i)) }},
	} {
		b.Run(asked.name, func(b *testing.B) {
			w := newBench(b, 1)
			ctx, cancel := context.WithCancel(b.Context())
			var running sync.WaitGroup
			for i := 0; i < 10_000 && asked.filter != nil; i++ {
				c, err := w.cache.Watch(ctx, watch.WatchRequest{Filter: asked.filter(i)})
				if err != nil {
					b.Fatal(err)
				}
				running.Go(func() {
					defer c.Close()
					_, _ = c.Next(ctx, nil)
				})
			}
			key := storage.ObjectKey("widgets", "ns", "n0")
			b.ReportAllocs()
			for b.Loop() {
				w.write(key)
			}
			b.StopTimer()
			cancel()
			running.Wait()
		})
	}
}

// The start of a watch with 10,000 initial events, and its end.
func BenchmarkInitialEvents(b *testing.B) {
	w := newBench(b, 10_000)
	buf := make([]watch.Event, 0, 256)
	frame := make([]byte, 0, 2048)
	b.ReportAllocs()
	for b.Loop() {
		c, err := w.cache.WatchFromSnapshot(w.cache.Snapshot(), watch.Filter{})
		if err != nil {
			b.Fatal(err)
		}
		for marked := false; !marked; {
			events, err := c.Next(b.Context(), buf)
			if err != nil {
				b.Fatal(err)
			}
			for _, e := range events {
				frame = e.AppendFrame(frame[:0])
				marked = e.Type == meta.Bookmark
			}
		}
		c.Close()
	}
}

// BenchmarkSelect lists one object in a hundred by label: with an index, and without.
func BenchmarkSelect(b *testing.B) {
	for _, n := range []int{10_000, 200_000} {
		for name, most := range map[string]int{"indexed": 0, "scanned": -1} {
			b.Run(fmt.Sprintf("%s/of=%d", name, n), func(b *testing.B) {
				w := newLabelled(b, n, most)
				selector, err := meta.ParseSelector("app=a5")
				if err != nil {
					b.Fatal(err)
				}
				list := func() (found int) {
					for range w.cache.Snapshot().Select(watch.Filter{Labels: selector}, "") {
						found++
					}
					return found
				}
				for range 10 {
					list()
				}
				for b.Loop() {
					if list() != n/100 {
						b.Fatal("not one in a hundred")
					}
				}
			})
		}
	}
}

// BenchmarkIndexedWrite changes objects of a kind with indexes, with a snapshot for each change.
func BenchmarkIndexedWrite(b *testing.B) {
	for _, indexes := range []int{0, 1, 8} {
		b.Run(fmt.Sprintf("indexes=%d", indexes), func(b *testing.B) {
			w := newLabelled(b, 10_000, 0)
			for i := range indexes {
				selector, err := meta.ParseSelector("app=a5")
				if i > 0 {
					selector, err = meta.ParseSelector(fmt.Sprintf("k%d=5", i))
				}
				if err != nil {
					b.Fatal(err)
				}
				for range 10 {
					for range w.cache.Snapshot().Select(watch.Filter{Labels: selector}, "") {
					}
				}
			}
			b.ReportMetric(float64(w.cache.Statistics().Indexes), "indexes")
			i := 0
			for b.Loop() {
				i++
				w.write(storage.ObjectKey("widgets", "ns", fmt.Sprint("n", i%10_000)))
				w.cache.Snapshot()
			}
		})
	}
}

// newLabelled is newBench with a hundred values of the label app, and seven more labels.
func newLabelled(b *testing.B, n, maxIndexes int) *bench {
	return newBench(b, n, func(c *watch.CacheConfig) {
		c.MaxIndexes = maxIndexes
		c.Decode = func(r storage.Record) (*watch.Entry, error) {
			_, namespace, name, _ := storage.SplitObjectKey(r.Key)
			i, _ := strconv.Atoi(name[1:])
			labels := map[string]string{"app": fmt.Sprint("a", i%100)}
			for k := 1; k < 8; k++ {
				labels[fmt.Sprint("k", k)] = fmt.Sprint(i % 10)
			}
			cut := len(r.Value) / 2
			return watch.NewEntry(r.Key, r.Revision, watch.Body{Prefix: r.Value[:cut], Suffix: r.Value[cut:]},
				watch.Facts{Namespace: namespace, Name: name, Labels: meta.NewLabelSet(labels), Fields: []string{"red"}}), nil
		}
	})
}
