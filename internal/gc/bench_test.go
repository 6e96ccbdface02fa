package gc

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
)

// BenchmarkChanged measures what a commit costs the dispatcher when it notifies the collector. The
// first three cases are typical.
func BenchmarkChanged(b *testing.B) {
	entry := func(i int, owners ...meta.UID) *watch.Entry {
		return watch.NewEntry(storage.ObjectKey("widgets", "ns", fmt.Sprint("n", i)), storage.Revision(i+1), watch.Body{}, watch.Facts{
			Namespace: "ns", Name: fmt.Sprint("n", i), UID: meta.UID(fmt.Sprintf("%036d", i)), Owners: owners,
		})
	}
	const others = 100_000 // references in the index
	prepare := func() *Collector {
		c := New()
		for i := range others {
			c.Changed(nil, entry(i, meta.UID(fmt.Sprintf("owner-%030d", i/100))))
		}
		c.queue = newQueue()
		return c
	}
	free, owned := entry(others+1), entry(others+2, "somebody")
	b.Run("create", func(b *testing.B) {
		c := prepare()
		b.ReportAllocs()
		for b.Loop() {
			c.Changed(nil, free)
		}
	})
	b.Run("update", func(b *testing.B) {
		c := prepare()
		b.ReportAllocs()
		for b.Loop() {
			c.Changed(free, free)
		}
	})
	b.Run("delete", func(b *testing.B) {
		c := prepare()
		b.ReportAllocs()
		for b.Loop() {
			c.Changed(free, nil)
		}
	})
	b.Run("update of a dependent", func(b *testing.B) {
		c := prepare()
		c.Changed(nil, owned)
		b.ReportAllocs()
		for b.Loop() {
			c.Changed(owned, owned)
		}
	})
	b.Run("create and delete a dependent", func(b *testing.B) {
		c := prepare()
		b.ReportAllocs()
		for b.Loop() {
			c.Changed(nil, owned)
			c.Changed(owned, nil)
		}
	})
}

// BenchmarkTakeOver measures what forking a server costs its collector.
func BenchmarkTakeOver(b *testing.B) {
	c := New()
	for i := range 10_000 {
		key := storage.ObjectKey("widgets", "ns", fmt.Sprint("n", i))
		c.Changed(nil, watch.NewEntry(key, 1, watch.Body{}, watch.Facts{Owners: []meta.UID{meta.UID(fmt.Sprint("owner", i%100))}}))
	}
	c.queue = newQueue()
	b.ReportAllocs()
	for b.Loop() {
		New().TakeOver(c)
	}
}

// BenchmarkCascade deletes ten thousand objects in three generations by deleting their root.
func BenchmarkCascade(b *testing.B) {
	for _, policy := range []meta.DeletionPropagation{meta.DeletePropagationBackground, meta.DeletePropagationForeground, meta.DeletePropagationOrphan} {
		b.Run(string(policy), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				db := memory.New()
				w := newWorld(b, db, kind(b, "aaa"), kind(b, "bbb"), kind(b, "ccc"))
				threeGenerations(w, 99)
				settled(b, w)
				b.StartTimer()
				w.delete("aaas/x/root", policy)
				settled(b, w)
				b.StopTimer()
				require.Empty(b, w.all("aaas"))
				w.stop()
				require.NoError(b, db.Close())
				b.StartTimer()
			}
		})
	}
}

func settled(b *testing.B, w *world) {
	require.Eventually(b, func() bool { return w.collector.Stats().Unsettled == 0 }, time.Minute, time.Millisecond)
}
