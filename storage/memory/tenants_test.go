package memory

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

// One operation is a commit of one of many tenants, each with a running watch, and its arrival there.
func BenchmarkTenants(b *testing.B) {
	for _, tenants := range []int{1, 1000} {
		b.Run(fmt.Sprintf("tenants=%d", tenants), func(b *testing.B) {
			db := New()
			ctx, cancel := context.WithCancel(context.Background())
			start, err := db.Revision(ctx)
			require.NoError(b, err)
			arrived := make(chan storage.Revision, 16)
			done := make(chan struct{}, tenants)
			for i := range tenants {
				view := storage.Prefix(db, fmt.Sprintf("tenant-%04d", i))
				go func() {
					defer func() { done <- struct{}{} }()
					for batch, err := range view.Watch(ctx, "", start) {
						if err == nil && !batch.Progress {
							arrived <- batch.Revision
						}
					}
				}()
			}
			tenant := storage.New(storage.Prefix(db, "tenant-0000"))
			ops := []storage.Op{storage.Put(storage.ObjectKey("widgets", "team", "a"), make([]byte, 1024), storage.Any)}
			b.ReportAllocs()
			for b.Loop() {
				rev, err := tenant.Commit(ctx, ops)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := tenant.Sync(ctx, ""); err != nil {
					b.Fatal(err)
				}
				for <-arrived < rev {
				}
			}
			cancel()
			for range tenants {
				<-done
			}
			require.NoError(b, db.Close())
		})
	}
}
