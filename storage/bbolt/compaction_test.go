package bbolt

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/kindwright/kindwright/storage"
)

// logged is how many records the file holds.
func logged(t testing.TB, db *DB) int {
	t.Helper()
	n := 0
	require.NoError(t, db.bolt.View(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte(logBucket)).ForEach(func(_, _ []byte) error { n++; return nil })
	}))
	return n
}

// swept waits until compaction has removed its records from the file.
func swept(t testing.TB, db *DB, want int) {
	t.Helper()
	require.Eventually(t, func() bool { return logged(t, db) == want }, waitLimit, tick)
}

func TestCompactionRemovesRecords(t *testing.T) {
	ctx := t.Context()
	db := openFast(t)
	for round := range 5 {
		for i := range 300 { // more than one transaction can remove
			put(t, db, widget(i), fmt.Sprint(round))
		}
	}
	for i := range 100 {
		_, err := db.Commit(ctx, []storage.Op{storage.Delete(widget(i), storage.Any)})
		require.NoError(t, err)
	}
	rev := db.Statistics().Revision
	require.Equal(t, 1600, logged(t, db))
	require.NoError(t, db.Compact(ctx, rev-50)) // half of the deletions are history
	swept(t, db, 200+50*2)
	require.NoError(t, db.Compact(ctx, rev))
	swept(t, db, 200)
	st := db.Statistics()
	require.Equal(t, Statistics{
		Revision: rev, Compacted: rev, Keys: 200, Records: 200,
		FileBytes: st.FileBytes, Commits: 1600, Syncs: st.Syncs,
	}, st)
	require.NoError(t, db.Check(ctx))
	require.NoError(t, db.Close())
}

// Pages that compaction frees are reused, so a store that is overwritten again and again does not
// grow.
func TestCompactionFreesPages(t *testing.T) {
	db := openFast(t)
	round := func() {
		fill(t, db, 500)
		require.NoError(t, db.Compact(t.Context(), db.Statistics().Revision))
		swept(t, db, 500)
	}
	for range 5 {
		round()
	}
	before := db.Statistics().FileBytes
	for range 20 {
		round()
	}
	require.LessOrEqual(t, db.Statistics().FileBytes, before+growBytes)
	require.NoError(t, db.Close())
}

// If a process stops in the middle of the removal, the next one continues it.
func TestCompactionGoesOnAfterRestart(t *testing.T) {
	db, s := openSeam(t)
	for range 3 {
		fill(t, db, 1000)
	}
	h := s.hold()
	compacted := make(chan error)
	go func() { compacted <- db.Compact(t.Context(), db.Statistics().Revision) }()
	<-h.waiting // the transaction that stores the compacted revision
	h.pass <- struct{}{}
	require.NoError(t, <-compacted)
	<-h.waiting // the first that removes records
	h.pass <- struct{}{}
	<-h.waiting // and now the machine stops
	image := readFile(t, db.path)
	s.heal()
	h.pass <- struct{}{}
	want := tell(t, db)
	swept(t, db, 1000)
	require.NoError(t, db.Close())

	again := open(t, placeFile(t, image))
	same(t, want, tell(t, again), "from the image")
	swept(t, again, 1000)
	same(t, want, tell(t, again), "after the rest of the removal")
	require.NoError(t, again.Check(t.Context()))
	require.NoError(t, again.Close())
}

// Commits continue while many records are removed: a transaction does a limited part of the removal
// and includes the waiting commits.
func TestCommitsGoOnBesideCompaction(t *testing.T) {
	ctx := t.Context()
	db, s := openSeam(t)
	const keys = 5000
	fill(t, db, keys)
	fill(t, db, keys)
	h := s.hold()
	compacted := make(chan error)
	go func() { compacted <- db.Compact(ctx, db.Statistics().Revision) }()
	<-h.waiting // the transaction that stores the compacted revision
	waiting := enqueue(ctx, t, db, 0, storage.Put(storage.SysKey("beside"), nil, storage.Any))
	var states []state
	s.onCommit(func(really commitFunc, tx *bolt.Tx) error {
		states = append(states, stateIn(tx))
		return really(tx)
	})
	h.pass <- struct{}{}
	require.NoError(t, <-compacted)
	o := <-waiting
	require.NoError(t, o.err)
	swept(t, db, keys+1)
	require.NoError(t, db.Check(ctx))
	require.NoError(t, db.Close())

	require.Equal(t, o.rev, states[0].last, "the commit is in the first transaction that removes")
	require.Equal(t, uint64(2*keys+1-removals), states[0].records)
	before := uint64(2*keys) + 1
	for _, st := range states {
		require.LessOrEqual(t, before-st.records, uint64(removals))
		before = st.records
	}
	require.GreaterOrEqual(t, len(states), keys/removals)
}

// Reads, watches and checks run beside commits and compaction. This is for the race detector and
// for invariant 3: the file has every version in the index.
func TestReadersBesideCompaction(t *testing.T) {
	db := openFast(t, WithRecentBytes(1)) // watches read the file
	ctx := t.Context()
	start := put(t, db, widget(0), "x")
	var readers, writers sync.WaitGroup
	stop := make(chan struct{})
	loop := func(f func() error) {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := f(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	loop(func() error { _, err := db.Get(ctx, widget(0)); return err })
	loop(func() error { _, err := db.List(ctx, storage.ListRequest{Limit: 7}); return err })
	loop(func() error { return db.Check(ctx) })
	loop(func() error {
		from := db.Statistics()
		for b, err := range db.Watch(ctx, "", from.Revision-(from.Revision-from.Compacted)/2) {
			if err != nil {
				return ignore(err, storage.ErrCompacted)
			}
			if b.Revision >= from.Revision {
				break
			}
		}
		return nil
	})
	for w := range 2 {
		writers.Go(func() {
			for i := range 400 {
				rev, err := db.Commit(ctx, []storage.Op{storage.Put(widget(i%10), make([]byte, 10*i), storage.Any)})
				if err == nil && w == 0 {
					err = db.Compact(ctx, max(start, rev-5))
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	require.NoError(t, db.Check(ctx))
	require.NoError(t, db.Close())
}

// STORE-05: history survives a restart, and Retain compacts nothing in its first window.
func TestSTORE_05_HistoryOutlivesRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	db := open(t, path)
	write(t, db, 1, 30)
	want := tell(t, db)
	require.NotEmpty(t, want.batches)
	require.NoError(t, db.Close())
	db = open(t, path)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- storage.New(db).Retain(ctx, time.Hour, time.Millisecond) }()
	same(t, want, tell(t, db), "after a restart")
	stop()
	require.NoError(t, <-done)
	same(t, want, tell(t, db), "after a round of Retain")
	require.NoError(t, db.Close())
}
