package etcdtest_test

import (
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/etcd"
	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
)

func widget(name string) string { return storage.ObjectKey("widgets", "ns", name) }
func gadget(name string) string { return storage.ObjectKey("gadgets", "ns", name) }

func commit(t *testing.T, db storage.Backend, ops ...storage.Op) storage.Revision {
	t.Helper()
	rev, err := db.Commit(t.Context(), ops)
	require.NoError(t, err)
	return rev
}

func revisionOf(t *testing.T, db storage.Backend, key string) storage.Revision {
	t.Helper()
	r, err := db.Get(t.Context(), key)
	require.NoError(t, err)
	return r.Revision
}

// wideStory makes a wide commit between two narrow ones, and returns it with its revision.
func wideStory(t *testing.T, db storage.Backend) (before storage.Revision, ops []storage.Op, last storage.Revision) {
	t.Helper()
	commit(t, db, storage.Put(widget("b"), []byte("old"), storage.Absent))
	commit(t, db, storage.Put(gadget("z"), []byte("old"), storage.Absent))
	before = commit(t, db, storage.Put(storage.SysKey("phase"), []byte("old"), storage.Absent))
	ops = []storage.Op{
		storage.Put(widget("c"), []byte("3"), storage.Absent),
		storage.Put(widget("a"), []byte("1"), storage.Absent),
		storage.Delete(widget("b"), storage.Expect(revisionOf(t, db, widget("b")))),
		storage.Put(gadget("g"), []byte("g"), storage.Absent),
		storage.Delete(gadget("z"), storage.Expect(revisionOf(t, db, gadget("z")))),
		storage.Delete(storage.SysKey("phase"), storage.Expect(before)),
	}
	last = commit(t, db, ops...)
	commit(t, db, storage.Put(widget("later"), nil, storage.Any))
	return before, ops, last
}

// requireWide compares a batch with the changes of a wide commit below a prefix and above a revision.
func requireWide(t *testing.T, got storage.Batch, ops []storage.Op, last storage.Revision, prefix string, after storage.Revision) {
	t.Helper()
	want := map[string]storage.Revision{}
	for i, op := range ops {
		if rev := storage.RevisionOf(ops, i, last); rev > after && strings.HasPrefix(op.Key, prefix) {
			want[op.Key] = rev
		}
	}
	require.Equal(t, last, got.Revision)
	have := map[string]storage.Revision{}
	var previous storage.Change
	for _, c := range got.Changes {
		have[c.Key] = c.Revision
		require.True(t, previous.Revision < c.Revision || previous.Revision == c.Revision && previous.Key < c.Key,
			"the order of %q at %d and %q at %d", previous.Key, previous.Revision, c.Key, c.Revision)
		previous = c
	}
	require.Equal(t, want, have)
}

func firstBatch(t *testing.T, watch iter.Seq2[storage.Batch, error]) storage.Batch {
	t.Helper()
	for b, err := range watch {
		require.NoError(t, err)
		if !b.Progress {
			return b
		}
	}
	return storage.Batch{}
}

// A commit with several changes of one resource takes as many revisions, in the log of the handle that
// made it and for one that reads it from etcd.
func TestWideCommits(t *testing.T) {
	s := &stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{})}
	writer := s.fresh(t)
	before, ops, last := wideStory(t, writer)
	first := storage.RevisionOf(ops, 1, last)
	require.Equal(t, last-2, first)

	// A handle whose log is too small for anything reads from etcd.
	reader, err := etcd.Open(t.Context(), etcd.Config{Endpoints: s.cluster.Endpoints(), Prefix: writer.Prefix(), MaxLogBytes: 1})
	require.NoError(t, err)
	for name, db := range map[string]*etcd.DB{"log": writer, "etcd": reader} {
		t.Run(name, func(t *testing.T) {
			for i, op := range ops {
				if op.Type == storage.OpPut {
					require.Equal(t, storage.RevisionOf(ops, i, last), revisionOf(t, db, op.Key))
				}
			}
			requireListsWhole(t, db, before, first, last)
			for _, prefix := range []string{"", storage.ResourcePrefix("widgets"), storage.NamespacePrefix("gadgets", "ns"), widget("b"), "/sys/"} {
				for after := before; after < last; after++ {
					if after > before && after < first-1 {
						continue // revisions that nobody was given
					}
					requireRest(t, db, ops, last, prefix, after)
				}
			}
		})
	}
	require.NoError(t, writer.Close())
	require.NoError(t, reader.Close())
}

// requireListsWhole lists at revisions inside of a wide commit.
func requireListsWhole(t *testing.T, db *etcd.DB, before, first, last storage.Revision) {
	t.Helper()
	whole, err := db.List(t.Context(), storage.ListRequest{Limit: 10, At: last})
	require.NoError(t, err)
	for at := first; at <= last; at++ {
		p, err := db.List(t.Context(), storage.ListRequest{Limit: 10, At: at})
		require.NoError(t, err)
		require.Equal(t, whole, p, "list at %d", at)
	}
	old, err := db.List(t.Context(), storage.ListRequest{Limit: 10, At: before})
	require.NoError(t, err)
	gap, err := db.List(t.Context(), storage.ListRequest{Limit: 10, At: first - 1})
	require.NoError(t, err)
	require.Equal(t, old.Records, gap.Records, "nothing happened before the first revision")
}

// requireRest reads on after a revision inside of a wide commit, by a watch and by History.
func requireRest(t *testing.T, db *etcd.DB, ops []storage.Op, last storage.Revision, prefix string, after storage.Revision) {
	t.Helper()
	page, err := db.History(t.Context(), storage.HistoryRequest{Prefix: prefix, After: after, Until: last, Limit: 1, Prev: true})
	require.NoError(t, err)
	require.False(t, page.More)
	if len(page.Batches) == 0 {
		requireWide(t, storage.Batch{Revision: last}, ops, last, prefix, after)
		return
	}
	requireWide(t, page.Batches[0], ops, last, prefix, after)
	requireWide(t, firstBatch(t, db.Watch(t.Context(), prefix, after)), ops, last, prefix, after)
	for _, c := range page.Batches[0].Changes {
		require.Equal(t, c.Deleted, c.Prev != nil, "the previous record of %q", c.Key)
		if c.Deleted {
			require.Equal(t, "old", string(c.Prev.Value))
		}
	}
}

// Records of one commit have one revision in etcd, and are told apart all the same.
func TestWideExpectations(t *testing.T) {
	s := &stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{})}
	db := s.fresh(t)
	var ops []storage.Op
	for i := range 100 {
		ops = append(ops, storage.Put(widget(fmt.Sprintf("%03d", i)), nil, storage.Absent))
	}
	last := commit(t, db, ops...)
	for _, i := range []int{0, 42, 99} {
		actual := storage.RevisionOf(ops, i, last)
		for _, wrong := range []storage.Revision{actual - 1, actual + 1, last + 1} {
			_, err := db.Commit(t.Context(), []storage.Op{storage.Put(ops[i].Key, nil, storage.Expect(wrong))})
			var conflict *storage.ConflictError
			require.ErrorAs(t, err, &conflict)
			require.Equal(t, storage.ConflictError{Key: ops[i].Key, Expected: storage.Expect(wrong), Actual: actual}, *conflict)
		}
	}
	// So many comparisons do not fit into a transaction; the records are read before.
	for i := range ops {
		ops[i].Expect = storage.Expect(storage.RevisionOf(ops, i, last))
	}
	wrong := append([]storage.Op(nil), ops...)
	wrong[7].Expect++
	_, err := db.Commit(t.Context(), wrong)
	var conflict *storage.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, wrong[7].Key, conflict.Key)
	require.Greater(t, commit(t, db, ops...), last)
	_, err = db.Commit(t.Context(), ops)
	require.ErrorAs(t, err, &conflict)
	require.NoError(t, db.Close())
}

// A value that something else wrote is one record that cannot be read.
func TestForeignValues(t *testing.T) {
	s := &stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{})}
	db := s.fresh(t)
	start := commit(t, db, storage.Put(widget("a"), []byte("a"), storage.Absent))
	_, err := s.cluster.Client(t).Put(t.Context(), db.Prefix()+"/d"+widget("b"), "x")
	require.NoError(t, err)
	r, err := db.Get(t.Context(), widget("b"))
	require.ErrorIs(t, err, storage.ErrUnreadable)
	require.ErrorIs(t, r.Err, storage.ErrUnreadable)
	p, err := db.List(t.Context(), storage.ListRequest{Limit: 10})
	require.NoError(t, err)
	require.Len(t, p.Records, 2)
	require.NoError(t, p.Records[0].Err)
	require.Equal(t, r.Revision, p.Records[1].Revision)
	require.ErrorIs(t, p.Records[1].Err, storage.ErrUnreadable)
	b := firstBatch(t, db.Watch(t.Context(), "", start))
	require.ErrorIs(t, b.Changes[0].Err, storage.ErrUnreadable)
	commit(t, db, storage.Delete(widget("b"), storage.Expect(r.Revision)))
	_, err = db.Get(t.Context(), widget("b"))
	require.ErrorIs(t, err, storage.ErrNotFound)
	require.NoError(t, db.Close())
}

// Advance takes all handles beyond a revision; what was before can still be read.
func TestAdvance(t *testing.T) {
	s := &stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{})}
	a := s.fresh(t)
	b := s.open(t, a.Prefix())
	old := commit(t, a, storage.Put(widget("a"), []byte("old"), storage.Absent))
	to := old + 1<<40
	require.NoError(t, a.Advance(t.Context(), to))
	for _, db := range []*etcd.DB{a, b} {
		rev, err := db.Revision(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, rev, to)
		require.Equal(t, old, revisionOf(t, db, widget("a")))
	}
	next := commit(t, b, storage.Put(widget("a"), []byte("new"), storage.Expect(old)))
	require.Greater(t, next, to)
	for _, db := range []*etcd.DB{a, b} {
		require.Equal(t, next, firstBatch(t, db.Watch(t.Context(), "", old)).Revision)
		p, err := db.List(t.Context(), storage.ListRequest{Limit: 10, At: old})
		require.NoError(t, err)
		require.Equal(t, "old", string(p.Records[0].Value))
		require.NoError(t, db.Holds(t.Context(), old))
		require.NoError(t, db.Holds(t.Context(), next))
		require.NoError(t, db.Advance(t.Context(), to), "it is there already")
		require.ErrorIs(t, db.Holds(t.Context(), to-1<<20), storage.ErrCompacted)
	}
	after, err := a.Revision(t.Context())
	require.NoError(t, err)
	require.Equal(t, next, after)
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
}
