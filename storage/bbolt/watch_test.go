package bbolt

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

// A watch that falls out of memory continues in the file and returns to memory, at exact revisions
// and however small the memory is.
func TestWatchSwitchesBetweenMemoryAndFile(t *testing.T) {
	for _, recent := range []int{1, 1000, 20_000, 1 << 20} {
		t.Run(fmt.Sprintf("%d bytes recent", recent), func(t *testing.T) {
			db := openFast(t, WithRecentBytes(recent))
			start := db.Statistics().Revision
			const commits = 3000 // over several steps of both
			for i := range 1500 {
				put(t, db, widget(i%50), fmt.Sprint(i))
			}
			var writer sync.WaitGroup
			writer.Go(func() {
				for i := 1500; i < commits; i++ {
					if _, err := db.Commit(t.Context(), []storage.Op{storage.Put(widget(i%50), fmt.Append(nil, i), storage.Any)}); err != nil {
						t.Error(err)
						return
					}
				}
			})
			n := 0
			for b, err := range db.Watch(t.Context(), "", start) {
				require.NoError(t, err)
				if b.Progress {
					continue
				}
				require.Len(t, b.Changes, 1)
				require.Equal(t, fmt.Sprint(n), string(b.Changes[0].Value))
				require.Nil(t, b.Changes[0].Prev)
				if n++; n == commits {
					break
				}
			}
			writer.Wait()
			require.NoError(t, db.Close())
		})
	}
}

// Large values end a step early, and a commit is never split.
func TestWatchOfLargeValues(t *testing.T) {
	db := openFast(t, WithRecentBytes(1))
	start := db.Statistics().Revision
	for range 4 {
		var ops []storage.Op
		for i := range 3 {
			ops = append(ops, storage.Put(widget(i), make([]byte, historyBytes/2+i), storage.Any))
		}
		_, err := db.Commit(t.Context(), ops)
		require.NoError(t, err)
	}
	n := 0
	for b, err := range db.Watch(t.Context(), "", start) {
		require.NoError(t, err)
		require.Len(t, b.Changes, 3)
		if n++; n == 4 {
			break
		}
	}
	require.NoError(t, db.Close())
}

// When compaction overtakes a slow reader of the file, the reader receives an error. Before that it
// received a prefix of the history without a gap.
func TestWatchOvertakenByCompaction(t *testing.T) {
	db := openFast(t, WithRecentBytes(1))
	start := db.Statistics().Revision
	for i := range 3 * historyRecords {
		put(t, db, widget(i%10), fmt.Sprint(i))
	}
	n := 0
	var end error
	for b, err := range db.Watch(t.Context(), "", start) {
		if end = err; err != nil {
			continue
		}
		require.Equal(t, fmt.Sprint(n), string(b.Changes[0].Value))
		if n++; n == 10 {
			require.NoError(t, db.Compact(t.Context(), db.Statistics().Revision))
		}
	}
	require.ErrorIs(t, end, storage.ErrCompacted)
	require.GreaterOrEqual(t, n, 10)
	require.NoError(t, db.Close())
}

// The memory for watches keeps to its budget.
func TestRingBudget(t *testing.T) {
	r := ring{budget: 5000, after: 1}
	for i := range 100 {
		rev := storage.Revision(i + 2)
		r.push(storage.Batch{Revision: rev, Changes: []storage.Change{{Value: make([]byte, i*10)}}})
		require.LessOrEqual(t, r.bytes, r.budget)
		batches, ok := r.since(r.after)
		require.True(t, ok)
		sum := 0
		for j, b := range batches {
			require.Equal(t, r.after+1+storage.Revision(j), b.Revision)
			sum += batchBytes(b)
		}
		require.Equal(t, sum, r.bytes)
		require.Equal(t, rev, r.after+storage.Revision(len(batches)))
		_, ok = r.since(r.after - 1)
		require.False(t, ok)
		rest, ok := r.since(rev)
		require.True(t, ok)
		require.Empty(t, rest)
	}
	r.push(storage.Batch{Revision: 200, Changes: []storage.Change{{Value: make([]byte, 10_000)}}})
	require.Equal(t, ring{budget: 5000, after: 200, batches: r.batches}, r, "one that is too large is not kept")
}
