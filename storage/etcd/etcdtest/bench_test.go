package etcdtest_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
)

// together calls f b.N times in all, from a number of goroutines.
func together(b *testing.B, callers int, f func(i int64) error) {
	b.Helper()
	var next atomic.Int64
	var running sync.WaitGroup
	b.ResetTimer()
	for range callers {
		running.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := f(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

func BenchmarkRevision(b *testing.B) {
	s := &stores{cluster: etcdtest.Start(b, 1, etcdtest.Options{})}
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("%d callers", callers), func(b *testing.B) {
			db := s.fresh(b)
			together(b, callers, func(int64) error {
				_, err := db.Revision(b.Context())
				return err
			})
			require.NoError(b, db.Close())
		})
	}
}

// BenchmarkCreate creates objects of 1 KiB.
func BenchmarkCreate(b *testing.B) {
	s := &stores{cluster: etcdtest.Start(b, 1, etcdtest.Options{})}
	value := make([]byte, 1024)
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("%d writers", writers), func(b *testing.B) {
			db := s.fresh(b)
			together(b, writers, func(i int64) error {
				key := storage.ObjectKey("widgets", "ns", fmt.Sprint(i))
				_, err := db.Commit(b.Context(), []storage.Op{storage.Put(key, value, storage.Absent)})
				return err
			})
			require.NoError(b, db.Close())
		})
	}
}

func BenchmarkGet(b *testing.B) {
	s := &stores{cluster: etcdtest.Start(b, 1, etcdtest.Options{})}
	db := s.fresh(b)
	key := storage.ObjectKey("widgets", "ns", "a")
	_, err := db.Commit(b.Context(), []storage.Op{storage.Put(key, make([]byte, 1024), storage.Absent)})
	require.NoError(b, err)
	together(b, 64, func(int64) error {
		_, err := db.Get(b.Context(), key)
		return err
	})
	require.NoError(b, db.Close())
}

// BenchmarkFresh measures how long a server needs to see in a watch what another one has committed, and
// be sure that it has seen all: alone in etcd, and beside somebody who writes all the time.
func BenchmarkFresh(b *testing.B) {
	s := &stores{cluster: etcdtest.Start(b, 3, etcdtest.Options{})}
	for _, neighbours := range []int{0, 1} {
		b.Run(fmt.Sprintf("%d neighbours", neighbours), func(b *testing.B) {
			writer := s.fresh(b)
			reader := s.open(b, writer.Prefix())
			ctx, cancel := context.WithCancel(b.Context())
			var running sync.WaitGroup
			for range neighbours {
				client := s.cluster.Client(b)
				running.Go(func() {
					for ctx.Err() == nil {
						_, _ = client.Put(ctx, "/neighbour", "")
					}
				})
			}
			start, err := reader.Revision(ctx)
			require.NoError(b, err)
			next, stop := iter.Pull2(reader.Watch(ctx, storage.ResourcePrefix("widgets"), start))
			took := make([]time.Duration, 0, b.N)
			for b.Loop() {
				_, err := writer.Commit(ctx, []storage.Op{storage.Put(widget("a"), nil, storage.Any)})
				require.NoError(b, err)
				begin := time.Now()
				now, err := reader.Sync(ctx, "")
				require.NoError(b, err)
				for reached := storage.Revision(0); reached < now; {
					batch, err, _ := next()
					require.NoError(b, err)
					reached = batch.Revision
				}
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*999/1000].Microseconds()), "p99.9-µs")
			stop()
			cancel()
			running.Wait()
			require.NoError(b, writer.Close())
			require.NoError(b, reader.Close())
		})
	}
}
