package memory

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

func key(name string) string { return storage.ObjectKey("widgets", "team", name) }

func put(t testing.TB, db *DB, key string) storage.Revision {
	rev, err := db.Commit(context.Background(), []storage.Op{storage.Put(key, []byte("x"), storage.Any)})
	require.NoError(t, err)
	return rev
}

func remove(t testing.TB, db *DB, key string) storage.Revision {
	rev, err := db.Commit(context.Background(), []storage.Op{storage.Delete(key, storage.Any)})
	require.NoError(t, err)
	return rev
}

// Rule 5: a store without its past starts above anything ever issued.
func TestRule5_ANewStoreBeginsAboveTheRevisionsOfOlderOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last storage.Revision
		for range 10 {
			db := New()
			first, err := db.Revision(t.Context())
			require.NoError(t, err)
			require.Greater(t, first, last)
			for range 900 {
				last = put(t, db, key("a"))
			}
			require.NoError(t, db.Close())
			time.Sleep(time.Millisecond) // less than a million commits a second
		}
	})
}

func TestOptions(t *testing.T) {
	db := New(nil, WithFirstRevision(41), WithNow(func() time.Time { return time.Unix(7, 0) }), WithLimits(storage.Limits{MaxOps: 3}))
	require.Equal(t, storage.Limits{MaxValueBytes: 4 << 20, MaxOps: 3, MaxCommitBytes: 64 << 20}, db.Limits())
	require.Equal(t, storage.Revision(42), put(t, db, key("a")))
	for b, err := range db.Watch(t.Context(), "", 41) {
		require.NoError(t, err)
		require.Equal(t, time.Unix(7, 0), b.Time)
		break
	}
	before1970 := New(WithNow(func() time.Time { return time.Unix(-7, 0) }), WithFirstRevision(0))
	rev, err := before1970.Revision(t.Context())
	require.NoError(t, err)
	require.NotZero(t, rev)
	require.Less(t, rev, storage.Revision(1)<<63, "a negative time does not become a huge revision")
}

func TestCompactionFreesWhatCannotBeRead(t *testing.T) {
	db := New()
	for i := range 3 * trimStep {
		put(t, db, key(fmt.Sprint(i%7)))
	}
	last := remove(t, db, key("6"))
	require.NoError(t, db.Compact(t.Context(), last))
	require.NoError(t, db.Check(t.Context()))
	require.Empty(t, db.log.batches)
	require.Equal(t, 6, db.keys.Len(), "the deleted key is gone")
	for _, h := range db.keys.Ascend("") {
		require.Len(t, h.versions, 1)
	}
}

// interrupt is a context that runs a function the n-th time that somebody asks whether it has
// ended. That is between two steps, when no lock is held.
type interrupt struct {
	context.Context
	asked, at int
	do        func()
}

func (c *interrupt) Err() error {
	if c.asked++; c.asked == c.at {
		c.do()
	}
	return nil
}

func TestAListWalksOverManyDeletedKeysInSteps(t *testing.T) {
	db := New()
	for i := range 2*listStep + 10 {
		k := key(fmt.Sprintf("%06d", i))
		put(t, db, k)
		remove(t, db, k)
	}
	put(t, db, key("x"))
	pinned := put(t, db, key("y"))

	committed := false
	ctx := &interrupt{Context: t.Context(), at: 2, do: func() { committed = true; put(t, db, key("z")) }}
	p, err := db.List(ctx, storage.ListRequest{Limit: 5})
	require.NoError(t, err)
	require.True(t, committed, "a commit came between two steps")
	require.Equal(t, pinned, p.Revision)
	require.Len(t, p.Records, 2)

	ctx = &interrupt{Context: t.Context(), at: 2, do: func() { require.NoError(t, db.Compact(t.Context(), pinned+1)) }}
	_, err = db.List(ctx, storage.ListRequest{At: pinned, Limit: 5})
	require.ErrorIs(t, err, storage.ErrCompacted)
}

func TestAListOfNowBeginsAgainWhenItsNowIsCompacted(t *testing.T) {
	db := New()
	for i := range listStep + 10 {
		k := key(fmt.Sprintf("%06d", i))
		put(t, db, k)
		remove(t, db, k)
	}
	var last storage.Revision
	ctx := &interrupt{Context: t.Context(), at: 2, do: func() {
		last = put(t, db, key("z"))
		require.NoError(t, db.Compact(t.Context(), last))
	}}
	p, err := db.List(ctx, storage.ListRequest{Limit: 5})
	require.NoError(t, err)
	require.Equal(t, last, p.Revision)
	require.Len(t, p.Records, 1)
}

// Check must detect each way to break the invariants.
func TestCheckNoticesDamage(t *testing.T) {
	for name, damage := range map[string]func(db *DB){
		"compacted above current":    func(db *DB) { db.compacted = db.current + 1 },
		"a key without versions":     func(db *DB) { db.keys.Set("x", &history{}) },
		"a version out of order":     func(db *DB) { h, _ := db.keys.Get(key("a")); h.versions[0].revision = db.current },
		"a record of another key":    func(db *DB) { h, _ := db.keys.Get(key("a")); h.versions[0].record.Key = "x" },
		"a key deleted twice":        func(db *DB) { h, _ := db.keys.Get(key("b")); h.versions[0].record = nil },
		"a change without history":   func(db *DB) { db.keys.Delete(key("a")) },
		"a change after its commit":  func(db *DB) { db.log.batches[1].Changes[0].Revision += 1 },
		"a commit lost from the log": func(db *DB) { db.log.drop(1) },
		"a commit twice in the log":  func(db *DB) { db.log.append(db.log.batches[0]) },
		"an empty commit in the log": func(db *DB) { db.log.batches[1].Changes = nil },
	} {
		t.Run(name, func(t *testing.T) {
			db := New()
			put(t, db, key("a"))
			put(t, db, key("a"))
			put(t, db, key("b"))
			remove(t, db, key("b"))
			require.NoError(t, db.Check(t.Context()))
			damage(db)
			require.Error(t, db.Check(t.Context()))
		})
	}
	db := New()
	require.NoError(t, db.Close())
	require.ErrorIs(t, db.Check(t.Context()), storage.ErrClosed)
}
