package memory

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

// state is what a store holds at a revision, by key.
type state map[string]storage.Revision

func stateOf(t testing.TB, db storage.Backend, at storage.Revision) state {
	t.Helper()
	out := state{}
	r := storage.ListRequest{At: at, Limit: 7}
	for {
		page, err := db.List(context.Background(), r)
		require.NoError(t, err)
		for _, rec := range page.Records {
			out[rec.Key] = rec.Revision
			r.After = rec.Key
		}
		if r.At = page.Revision; !page.More {
			return out
		}
	}
}

// branch is a store of a family with its expected contents: its states by revision.
type branch struct {
	db        *DB
	states    map[storage.Revision]state
	current   storage.Revision
	compacted storage.Revision
}

func (b *branch) fork(t testing.TB) *branch {
	db, err := b.db.Fork()
	require.NoError(t, err)
	return &branch{db: db, states: maps.Clone(b.states), current: b.current, compacted: b.compacted}
}

func (b *branch) commit(t testing.TB, ops ...storage.Op) {
	next := maps.Clone(b.states[b.current])
	changed := false
	for _, op := range ops {
		if _, had := next[op.Key]; op.Type == storage.OpDelete {
			changed = changed || had
			delete(next, op.Key)
			continue
		}
		next[op.Key], changed = b.current+1, true
	}
	rev, err := b.db.Commit(context.Background(), ops)
	require.NoError(t, err)
	if changed {
		b.current++
		b.states[b.current] = next
	}
	require.Equal(t, b.current, rev)
}

// check compares everything that can be read, at all revisions.
func (b *branch) check(t testing.TB) {
	t.Helper()
	require.NoError(t, b.db.Check(context.Background()))
	for rev := b.compacted; rev <= b.current; rev++ {
		require.Equal(t, b.states[rev], stateOf(t, b.db, rev), "revision %d", rev)
	}
	_, err := b.db.List(context.Background(), storage.ListRequest{At: b.compacted - 1, Limit: 1})
	require.ErrorIs(t, err, storage.ErrCompacted)
	from := b.compacted
	if b.current == from {
		return
	}
	seen := maps.Clone(b.states[from])
	page, err := b.db.History(context.Background(), storage.HistoryRequest{After: from, Limit: 1 << 20, Prev: true})
	require.NoError(t, err)
	require.Equal(t, b.current, page.Revision)
	for _, batch := range page.Batches {
		for _, c := range batch.Changes {
			prev := storage.Revision(0)
			if c.Prev != nil {
				prev = c.Prev.Revision
			}
			require.Equal(t, seen[c.Key], prev, "what %s was before revision %d", c.Key, batch.Revision)
			if delete(seen, c.Key); !c.Deleted {
				seen[c.Key] = c.Revision
			}
		}
		require.Equal(t, b.states[batch.Revision], seen, "revision %d", batch.Revision)
	}
}

// TestForksGoTheirOwnWays makes a family of stores write, delete, compact, fork and close at
// random, and compares each with its expected contents.
func TestForksGoTheirOwnWays(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 1))
		first := &branch{db: New(WithFirstRevision(100)), current: 100, compacted: 100, states: map[storage.Revision]state{100: {}}}
		family := []*branch{first}
		for range 400 {
			b := family[random.IntN(len(family))]
			switch random.IntN(20) {
			case 0:
				if len(family) < 8 {
					family = append(family, b.fork(t))
				}
			case 1:
				b.compacted += storage.Revision(random.IntN(int(b.current-b.compacted) + 1))
				require.NoError(t, b.db.Compact(t.Context(), b.compacted))
			case 2:
				if len(family) > 1 && random.IntN(4) == 0 {
					require.NoError(t, b.db.Close())
					family = slices.DeleteFunc(family, func(f *branch) bool { return f == b })
				}
			default:
				name, other := random.IntN(30), random.IntN(30)
				ops := []storage.Op{storage.Put(key(fmt.Sprint(name)), nil, storage.Any)}
				if random.IntN(3) == 0 {
					ops[0] = storage.Delete(key(fmt.Sprint(name)), storage.Any)
				}
				ops = append(ops, storage.Put(storage.SysKey(fmt.Sprint(other)), nil, storage.Any))
				b.commit(t, ops...)
			}
		}
		for _, b := range family {
			b.check(t)
			require.NoError(t, b.db.Close())
		}
		if t.Failed() {
			t.Logf("seed %d", seed)
			return
		}
	}
}

func TestAForkOfAClosedStoreIsRefused(t *testing.T) {
	db := New()
	require.NoError(t, db.Close())
	_, err := db.Fork()
	require.ErrorIs(t, err, storage.ErrClosed)
}

// A store that was made outside a bubble may be forked inside one while others write to it. The two
// share nothing that can block the bubble or that belongs to it.
func TestAForkLivesInTheBubbleItWasMadeIn(t *testing.T) {
	parent := New()
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				put(t, parent, key("parents"))
			}
		}
	})
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			db, err := parent.Fork()
			require.NoError(t, err)
			before, err := db.Revision(t.Context())
			require.NoError(t, err)
			var watcher sync.WaitGroup
			watcher.Go(func() {
				for batch, err := range db.Watch(t.Context(), "", before) {
					if err != nil || !batch.Progress {
						require.Equal(t, key("forks"), batch.Changes[0].Key)
						return
					}
				}
			})
			time.Sleep(time.Hour)
			require.Equal(t, before+1, put(t, db, key("forks")))
			watcher.Wait()
			require.NoError(t, db.Close())
		})
	}
	close(stop)
	writer.Wait()
	require.NotContains(t, stateOf(t, parent, 0), key("forks"))
}

func TestACopyHoldsWhatWasThereAtARevision(t *testing.T) {
	from := New()
	for i := range 2500 {
		put(t, from, key(fmt.Sprint(i)))
	}
	at := remove(t, from, key("7"))
	remove(t, from, key("8"))
	db, err := CopyOf(t.Context(), from, at)
	require.NoError(t, err)
	require.NoError(t, db.Check(t.Context()))
	want := stateOf(t, from, at)
	require.Len(t, want, 2499)
	require.Equal(t, want, stateOf(t, db, 0))
	require.Equal(t, at+1, put(t, db, key("9")))
	_, err = db.List(t.Context(), storage.ListRequest{At: at - 1, Limit: 1})
	require.ErrorIs(t, err, storage.ErrCompacted)
	_, err = CopyOf(t.Context(), from, at+100)
	require.ErrorIs(t, err, storage.ErrFutureRevision)
}

// BenchmarkFork measures a copy of ten thousand keys, and the first write to it.
func BenchmarkFork(b *testing.B) {
	db := New()
	for i := range 10_000 {
		put(b, db, key(fmt.Sprint(i)))
	}
	b.Run("fork", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = db.Fork()
		}
	})
	b.Run("fork and write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f, _ := db.Fork()
			put(b, f, key("4711"))
		}
	})
}
