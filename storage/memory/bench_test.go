package memory_test

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

func benchKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = storage.ObjectKey("example.dev/widgets", fmt.Sprint("ns-", i%10), fmt.Sprintf("name-%06d", i))
	}
	return keys
}

// filled is a store of n objects of 1 KiB without history.
func filled(b *testing.B, n int) (*memory.DB, []string) {
	db, keys, value := memory.New(), benchKeys(n), make([]byte, 1024)
	var last storage.Revision
	for _, key := range keys {
		var err error
		if last, err = db.Commit(b.Context(), []storage.Op{storage.Put(key, value, storage.Absent)}); err != nil {
			b.Fatal(err)
		}
	}
	if err := db.Compact(b.Context(), last); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	return db, keys
}

// commits replaces keys in turn and compacts as a server would.
func commits(b *testing.B, s storage.Backend, keys []string) {
	value := make([]byte, 1024)
	ops := make([]storage.Op, 1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		ops[0] = storage.Put(keys[i*7919%len(keys)], value, storage.Any)
		rev, err := s.Commit(b.Context(), ops)
		if err != nil {
			b.Fatal(err)
		}
		if i%10_000 == 9_999 {
			if err := s.Compact(b.Context(), rev-1000); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprintf("%d keys", n), func(b *testing.B) {
			db, keys := filled(b, n)
			commits(b, db, keys)
		})
	}
	b.Run("10000 keys through Store", func(b *testing.B) {
		db, keys := filled(b, 10_000)
		commits(b, storage.New(db), keys)
	})
	b.Run("10000 keys through Store over Prefix", func(b *testing.B) {
		db, keys := filled(b, 10_000)
		commits(b, storage.New(storage.Prefix(db, "tenant")), keys)
	})
	b.Run("10000 keys, 3 operations through Store", func(b *testing.B) {
		db, keys := filled(b, 10_000)
		s, value := storage.New(db), make([]byte, 1024)
		phase := storage.SysKey("phase", "ns")
		active, err := s.Commit(b.Context(), []storage.Op{storage.Put(phase, nil, storage.Any)})
		if err != nil {
			b.Fatal(err)
		}
		ops := make([]storage.Op, 3)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			ops[0] = storage.Check(phase, storage.Expect(active))
			ops[1] = storage.Put(keys[i*7919%len(keys)], value, storage.Any)
			ops[2] = storage.Put(storage.SysKey("quota", "ns"), value, storage.Any)
			rev, err := s.Commit(b.Context(), ops)
			if err != nil {
				b.Fatal(err)
			}
			if i%10_000 == 9_999 {
				if err := s.Compact(b.Context(), rev-1000); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

func BenchmarkCommitParallel(b *testing.B) {
	db, keys := filled(b, 10_000)
	value := make([]byte, 1024)
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := n.Add(1)
			rev, err := db.Commit(context.Background(), []storage.Op{storage.Put(keys[i*7919%int64(len(keys))], value, storage.Any)})
			if err == nil && i%10_000 == 0 {
				err = db.Compact(context.Background(), rev-1000)
			}
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkGet(b *testing.B) {
	db, keys := filled(b, 10_000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := db.Get(b.Context(), keys[i*7919%len(keys)]); err != nil {
			b.Fatal(err)
		}
	}
}

// A page costs only what is on it, wherever it starts and whatever surrounds it.
func BenchmarkListPage(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		for _, limit := range []int{1, 500} {
			b.Run(fmt.Sprintf("%d of %d keys", limit, n), func(b *testing.B) {
				db, keys := filled(b, n)
				r := storage.ListRequest{Prefix: storage.ResourcePrefix("example.dev/widgets"), After: keys[n/2], Limit: limit}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := db.List(b.Context(), r); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkWatchHistory measures one batch from history.
func BenchmarkWatchHistory(b *testing.B) {
	db, keys := filled(b, 1_000)
	start, err := db.Revision(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	const history = 10_000
	for i := range history {
		if _, err := db.Commit(b.Context(), []storage.Op{storage.Put(keys[i%len(keys)], nil, storage.Any)}); err != nil {
			b.Fatal(err)
		}
	}
	next, stop := iter.Pull2(db.Watch(b.Context(), "", start))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if _, err, _ := next(); err != nil {
			b.Fatal(err)
		}
		if n++; n%history == 0 {
			stop()
			next, stop = iter.Pull2(db.Watch(b.Context(), "", start))
		}
	}
	stop()
}

// BenchmarkWatchDelivery measures a commit with its delivery to watchers that wake for it, beside
// many that do not.
func BenchmarkWatchDelivery(b *testing.B) {
	for _, c := range []struct{ concerned, others int }{{0, 0}, {1, 0}, {1, 10_000}, {100, 0}, {1_000, 0}} {
		b.Run(fmt.Sprintf("%d concerned, %d others", c.concerned, c.others), func(b *testing.B) {
			db, keys := filled(b, 1_000)
			ctx, cancel := context.WithCancel(b.Context())
			start, err := db.Revision(ctx)
			if err != nil {
				b.Fatal(err)
			}
			var running, delivered sync.WaitGroup
			for range c.concerned {
				running.Go(func() {
					for batch, err := range db.Watch(ctx, keys[0], start) {
						if err == nil && !batch.Progress {
							delivered.Done()
						}
					}
				})
			}
			for i := range c.others {
				running.Go(func() {
					for _, err := range db.Watch(ctx, keys[1+i%(len(keys)-1)], start) {
						if err != nil {
							return
						}
					}
				})
			}
			value := make([]byte, 1024)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				delivered.Add(c.concerned)
				rev, err := db.Commit(ctx, []storage.Op{storage.Put(keys[0], value, storage.Any)})
				if err != nil {
					b.Fatal(err)
				}
				delivered.Wait()
				if i%10_000 == 9_999 {
					if err := db.Compact(ctx, rev-10); err != nil {
						b.Fatal(err)
					}
				}
			}
			cancel()
			running.Wait()
		})
	}
}
