package bbolt

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"sync"
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
			ops = ops[:0]
		}
	}
}

func benchStore(b *testing.B, records int, opts ...Option) *DB {
	db := open(b, filepath.Join(b.TempDir(), "store.db"), opts...)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	fill(b, db, records)
	return db
}

// One operation is one commit that updates one of 10,000 records.
func BenchmarkCommit(b *testing.B) {
	const keys = 10_000
	ops := make([][]storage.Op, keys)
	for i := range ops {
		ops[i] = []storage.Op{storage.Put(benchKey(i), benchValue(i), storage.Any)}
	}
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			db := benchStore(b, keys)
			before := db.Statistics()
			var n atomic.Int64
			var running sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for range writers {
				running.Go(func() {
					for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
						if _, err := db.Commit(context.Background(), ops[i%keys]); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			running.Wait()
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

// One operation is one page of a list of 100,000 records.
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

// One operation is one commit of one key, delivered to one watch.
func BenchmarkWatch(b *testing.B) {
	const keys, commits = 1000, 20_000
	for name, recent := range map[string]int{"memory": 1 << 30, "file": 1} {
		b.Run("from="+name, func(b *testing.B) {
			db := openFast(b, WithRecentBytes(recent))
			b.Cleanup(func() { require.NoError(b, db.Close()) })
			fill(b, db, keys)
			start := db.Statistics().Revision
			for i := range commits {
				_, err := db.Commit(context.Background(), []storage.Op{storage.Put(benchKey(i%keys), benchValue(i), storage.Any)})
				require.NoError(b, err)
			}
			end := db.Statistics().Revision
			b.ReportAllocs()
			n := 0
			b.ResetTimer()
			for n < b.N {
				for batch, err := range db.Watch(context.Background(), "", start) {
					if err != nil || len(batch.Changes) != 1 {
						b.Fatal(err, batch)
					}
					if n++; n >= b.N || batch.Revision == end {
						break
					}
				}
			}
		})
	}
}

// Open verifies 100,000 records of 1 KiB. The figure includes Close.
func BenchmarkOpen100k(b *testing.B) {
	path := filepath.Join(b.TempDir(), "store.db")
	db := open(b, path)
	fill(b, db, 100_000)
	size := db.Statistics().FileBytes
	require.NoError(b, db.Close())
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, open(b, path).Close())
	}
}
