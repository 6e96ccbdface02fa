package memory

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/watches"
	"github.com/kindwright/kindwright/storage"
)

// reader runs a watch in the bubble and stores what it yields.
type reader struct {
	batches []storage.Batch
	end     error
}

func read(ctx context.Context, db *DB, prefix string, after storage.Revision) *reader {
	r := &reader{}
	go func() {
		for b, err := range db.Watch(ctx, prefix, after) {
			if err != nil {
				r.end = err
				return
			}
			r.batches = append(r.batches, b)
		}
	}()
	return r
}

func parked(db *DB) int {
	db.mu.RLock()
	defer db.mu.RUnlock()
	return db.watches.Parked()
}

func TestForeignCommitsDoNotWakeAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := New()
		start := db.current
		ctx, cancel := context.WithCancel(t.Context())
		const n = 1000
		var readers []*reader
		for i := range n {
			readers = append(readers, read(ctx, db, key(fmt.Sprint(i)), start))
		}
		synctest.Wait()
		require.Equal(t, n, parked(db))

		put(t, db, key("foreign"))
		require.Equal(t, n, parked(db), "nobody woke, before anybody could have parked again")
		rev := put(t, db, key("7"))
		require.Equal(t, n-1, parked(db), "one woke")
		synctest.Wait()
		require.Equal(t, n, parked(db))
		require.Len(t, readers[7].batches, 1)
		require.Equal(t, rev, readers[7].batches[0].Revision)
		require.NoError(t, db.Check(ctx))

		cancel()
		synctest.Wait()
		for _, r := range readers {
			require.ErrorIs(t, r.end, context.Canceled)
		}
		require.Zero(t, db.watches.Len(), "ended watches are forgotten")
		require.Zero(t, parked(db))
		require.NoError(t, db.Close())
	})
}

func TestSyncBringsProgressAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := New()
		defer func() { require.NoError(t, db.Close()) }()
		r := read(t.Context(), db, "/r/none/", db.current)
		synctest.Wait()
		begin := time.Now()
		rev := put(t, db, key("a"))
		synctest.Wait()
		require.Empty(t, r.batches, "nobody asked")
		_, err := db.Sync(t.Context(), "")
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, []storage.Batch{{Revision: rev, Progress: true}}, r.batches)
		require.Zero(t, time.Since(begin))

		_, err = db.Sync(t.Context(), "")
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.Len(t, r.batches, 1, "nothing new, nothing to tell")
	})
}

func TestProgressComesUnaskedWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := New()
		r := read(t.Context(), db, "/r/none/", db.current)
		synctest.Wait()
		var rev storage.Revision
		for range 100 {
			rev = put(t, db, key("a"))
		}
		time.Sleep(watches.ProgressEvery)
		synctest.Wait()
		require.Equal(t, []storage.Batch{{Revision: rev, Progress: true}}, r.batches)

		put(t, db, key("a"))
		require.NoError(t, db.Close()) // and waits for the timer
		synctest.Wait()
		require.ErrorIs(t, r.end, storage.ErrClosed)
	})
}

func TestAPrefixThatEndsWithinASegmentIsStillExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := New()
		start := db.current
		none, within := read(t.Context(), db, "x", start), read(t.Context(), db, "/r/wid", start)
		synctest.Wait()
		put(t, db, storage.ObjectKey("gadgets", "", "a"))
		rev := put(t, db, key("a"))
		synctest.Wait()
		require.Empty(t, none.batches)
		require.Len(t, within.batches, 1)
		require.Equal(t, rev, within.batches[0].Revision)
		require.NoError(t, db.Close())
	})
}

func TestLongHistoryIsReadInSteps(t *testing.T) {
	db := New()
	defer func() { require.NoError(t, db.Close()) }()
	start := db.current
	for range 3*watchStep + 1 {
		put(t, db, key("foreign"))
	}
	rev := put(t, db, storage.ObjectKey("gadgets", "", "a"))
	for b, err := range db.Watch(t.Context(), "/r/gadgets/", start) {
		require.NoError(t, err)
		require.Equal(t, rev, b.Revision)
		break
	}
	n := 0
	for b, err := range db.Watch(t.Context(), "", start) {
		require.NoError(t, err)
		require.Len(t, b.Changes, 1)
		if n++; b.Revision == rev {
			break
		}
	}
	require.Equal(t, 3*watchStep+2, n)
}

func TestAWatchThatBeginsBehindIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := New()
		start := db.current
		rev := put(t, db, key("foreign"))
		r := read(t.Context(), db, "/r/none/", start)
		synctest.Wait()
		require.Equal(t, []storage.Batch{{Revision: rev, Progress: true}}, r.batches)
		require.NoError(t, db.Close())
	})
}

// Rule 4: one kind is idle, others write a lot, and compaction runs. No watch ends.
func TestRule4_CompactionDoesNotOvertakeASleepingWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := New()
		r := read(t.Context(), db, storage.ResourcePrefix("idle"), db.current)
		synctest.Wait()
		var last storage.Revision
		for range 10_000 {
			last = put(t, db, key("foreign"))
		}
		require.NoError(t, db.Compact(t.Context(), last))
		rev := put(t, db, storage.ObjectKey("idle", "", "a"))
		synctest.Wait()
		require.NoError(t, r.end)
		require.Equal(t, rev, r.batches[len(r.batches)-1].Revision)
		require.NoError(t, db.Close())
	})
}
