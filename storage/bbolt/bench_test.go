package bbolt

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

// Keys and values of the size that objects have.
func benchKey(i int) string {
	return storage.ObjectKey("example.dev/widgets", fmt.Sprintf("ns-%02d", i%50), fmt.Sprintf("widget-%06d", i))
}

func benchValue(i int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%08d", i), 128) // 1 KiB
}

// fill writes n records, many in a commit.
func fill(t testing.TB, db *DB, n int) {
	t.Helper()
	const together = 100
	var ops []storage.Op
	for i := range n {
		ops = append(ops, storage.Put(benchKey(i), benchValue(i), storage.Any))
		if len(ops) == together || i == n-1 {
			_, err := db.Commit(context.Background(), ops)
			require.NoError(t, err)
			ops = ops[:0:0]
		}
	}
}

func benchStore(b *testing.B, records int, opts ...Option) *DB {
	db := open(b, filepath.Join(b.TempDir(), "store.db"), opts...)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	fill(b, db, records)
	return db
}

func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			db := benchStore(b, 10_000)
			before := db.Statistics()
			var n atomic.Int64
			b.SetParallelism(max(1, writers/2)) // times GOMAXPROCS, which is 2 where the figures come from
			b.ReportAllocs()
			commit := func() {
				i := int(n.Add(1)) % 10_000
				_, err := db.Commit(context.Background(), []storage.Op{storage.Put(benchKey(i), benchValue(i), storage.Any)})
				require.NoError(b, err)
			}
			b.ResetTimer()
			if writers == 1 {
				for range b.N {
					commit()
				}
			} else {
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						commit()
					}
				})
			}
			b.StopTimer()
			after := db.Statistics()
			b.ReportMetric(float64(after.Commits-before.Commits)/float64(after.Syncs-before.Syncs), "commits/sync")
		})
	}
}

func BenchmarkGet(b *testing.B) {
	const keys = 100_000
	db := benchStore(b, keys)
	names := make([]string, keys)
	for i := range names {
		names[i] = benchKey(i * 7919 % keys)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		r, err := db.Get(context.Background(), names[i%keys])
		if err != nil || len(r.Value) != 1024 {
			b.Fatal(err, len(r.Value))
		}
		i++
	}
}

func BenchmarkListPage500(b *testing.B) {
	db := benchStore(b, 100_000)
	b.ReportAllocs()
	after := ""
	for b.Loop() {
		p, err := db.List(context.Background(), storage.ListRequest{Prefix: "/r/", After: after, Limit: 500})
		if err != nil || len(p.Records) != 500 {
			b.Fatal(err, len(p.Records))
		}
		if after = ""; p.More {
			after = p.Records[499].Key
		}
	}
}

// One operation is one change, delivered to one watch that replays.
func BenchmarkWatch(b *testing.B) {
	for name, recent := range map[string]int{"memory": 1 << 30, "file": 1} {
		b.Run("from="+name, func(b *testing.B) {
			db := open(b, filepath.Join(b.TempDir(), "store.db"), WithRecentBytes(recent))
			b.Cleanup(func() { require.NoError(b, db.Close()) })
			start := db.Statistics().Revision
			fill(b, db, 10_000)
			fill(b, db, 10_000) // half of the changes have a previous record
			b.ReportAllocs()
			n := 0
			b.ResetTimer()
			for n < b.N {
				end := db.Statistics().Revision
				for batch, err := range db.Watch(context.Background(), "", start) {
					require.NoError(b, err)
					if n += len(batch.Changes); n >= b.N || batch.Revision == end {
						break
					}
				}
			}
		})
	}
}

func BenchmarkOpen100k(b *testing.B) {
	path := filepath.Join(b.TempDir(), "store.db")
	db := open(b, path)
	fill(b, db, 100_000)
	require.NoError(b, db.Close())
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		require.NoError(b, open(b, path).Close())
	}
	b.ReportMetric(float64(db.Statistics().FileBytes)/(1<<20), "MiB")
}
