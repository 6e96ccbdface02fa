package bbolt

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

// STORE-05: the history is never shorter than its window, also if the clock of the machine jumps
// while the server runs; and revisions go on rising.
func TestSTORE_05_AClockThatJumpsShortensNoHistory(t *testing.T) {
	for name, jump := range map[string]time.Duration{"back an hour": -time.Hour, "ahead a day": 24 * time.Hour, "not at all": 0} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			synctest.Test(t, func(t *testing.T) {
				var off atomic.Int64
				db, err := Open(path, WithNow(func() time.Time { return time.Now().Add(time.Duration(off.Load())) }))
				require.NoError(t, err)
				store := storage.New(db)
				ctx, cancel := context.WithCancel(t.Context())
				var retaining sync.WaitGroup
				retaining.Go(func() { _ = store.Retain(ctx, 5*time.Minute, 30*time.Second) })
				synctest.Wait()
				key := storage.ObjectKey("widgets", "team", "a")
				write := func() storage.Revision {
					rev, err := store.Commit(ctx, []storage.Op{storage.Put(key, []byte("v"), storage.Any)})
					require.NoError(t, err)
					return rev
				}
				first := write()
				off.Store(int64(jump))
				begin := time.Now()
				last := first
				for time.Since(begin) < 4*time.Minute+50*time.Second {
					time.Sleep(10 * time.Second)
					rev := write()
					require.Greater(t, rev, last)
					last = rev
					_, err := store.List(ctx, storage.ListRequest{At: first, Limit: 1})
					require.NoError(t, err, "after %v", time.Since(begin))
				}
				time.Sleep(2 * time.Minute)
				_, err = store.List(ctx, storage.ListRequest{At: first, Limit: 1})
				require.ErrorIs(t, err, storage.ErrCompacted, "in the end it goes")
				cancel()
				retaining.Wait()
				require.NoError(t, db.Close())

				// With the next start, too, no revision is given out again.
				db, err = Open(path)
				require.NoError(t, err)
				rev, err := db.Commit(t.Context(), []storage.Op{storage.Put(key, nil, storage.Any)})
				require.NoError(t, err)
				require.Greater(t, rev, last)
				require.NoError(t, db.Close())
			})
		})
	}
}

func TestNoClockIsTheUsualOne(t *testing.T) {
	db, err := Open(filepath.Join(t.TempDir(), "db"), WithNow(nil))
	require.NoError(t, err)
	require.NoError(t, db.Close())
}
