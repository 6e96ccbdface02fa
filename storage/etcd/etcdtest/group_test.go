package etcdtest_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/etcd"
	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
)

// told is a commit with what its caller was told.
type told struct {
	ops []storage.Op
	rev storage.Revision
	err error
}

// atOnce makes commits while nothing reaches etcd, so that most of them wait for their turn.
func atOnce(db storage.Backend, p *etcdtest.Proxy, commits ...[]storage.Op) []told {
	all := make([]told, len(commits))
	var running sync.WaitGroup
	p.Stall()
	for i, ops := range commits {
		running.Go(func() {
			rev, err := db.Commit(context.Background(), ops)
			all[i] = told{ops, rev, err}
		})
	}
	time.Sleep(100 * time.Millisecond)
	p.Resume()
	running.Wait()
	return all
}

// shared returns those of some revisions that follow another one without a gap. Transactions of etcd lie
// further apart.
func shared(revs []storage.Revision) []storage.Revision {
	slices.Sort(revs)
	var all []storage.Revision
	for i := range revs {
		if i > 0 && revs[i] == revs[i-1]+1 {
			all = append(all, revs[i])
		}
	}
	return all
}

func creates(n int, format string) [][]storage.Op {
	all := make([][]storage.Op, n)
	for i := range all {
		name := fmt.Sprintf(format, i)
		all[i] = []storage.Op{storage.Put(widget(name), []byte(name), storage.Absent), storage.Put(gadget(name), []byte(name), storage.Absent)}
	}
	return all
}

// Commits that come at the same time share transactions of etcd. Each has a revision of its own, which
// reads, watches, histories and expectations know, in the log and read from etcd.
func TestCommitsShareTransactions(t *testing.T) {
	s := &stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{})}
	p := etcdtest.NewProxy(t, s.cluster.Endpoints()[0][len("http://"):])
	prefix := s.prefix()
	writer, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{"http://" + p.Address()}, Prefix: prefix})
	require.NoError(t, err)
	before := commit(t, writer, storage.Put(widget("w000"), []byte("old"), storage.Absent))
	made := creates(60, "w%03d")
	made[0] = []storage.Op{storage.Put(widget("w000"), []byte("w000"), storage.Expect(before)), storage.Put(gadget("w000"), []byte("w000"), storage.Any)}

	var revs []storage.Revision
	written := map[storage.Revision][]storage.Op{}
	for _, c := range atOnce(writer, p, made...) {
		require.NoError(t, c.err)
		require.NotContains(t, written, c.rev)
		written[c.rev] = c.ops
		revs = append(revs, c.rev)
	}
	require.NotEmpty(t, shared(revs), "no two of 60 commits were one transaction")

	reader, err := etcd.Open(t.Context(), etcd.Config{Endpoints: s.cluster.Endpoints(), Prefix: prefix, MaxLogBytes: 1})
	require.NoError(t, err)
	for name, db := range map[string]*etcd.DB{"log": writer, "etcd": reader} {
		t.Run(name, func(t *testing.T) {
			for i, rev := range revs {
				ops := written[rev]
				if name == "etcd" && i%9 != 5 {
					continue // each question takes a stream of its own
				}
				require.Equal(t, rev, revisionOf(t, db, ops[0].Key))
				requireOne(t, db, before, revs, i, ops)
				requireListed(t, db, revs[:i+1], written)
			}
		})
	}
	after := commit(t, writer, storage.Put(written[revs[7]][0].Key, nil, storage.Expect(revs[7])))
	require.Greater(t, after, revs[len(revs)-1])
	_, err = writer.Commit(t.Context(), []storage.Op{storage.Put(written[revs[8]][0].Key, nil, storage.Expect(revs[8]+1))})
	var conflict *storage.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, revs[8], conflict.Actual)
	require.NoError(t, writer.Close())
	require.NoError(t, reader.Close())
}

// requireOne looks at the i-th commit as a watch and a history tell it, which begin right before it.
func requireOne(t *testing.T, db *etcd.DB, before storage.Revision, revs []storage.Revision, i int, ops []storage.Op) {
	t.Helper()
	if i > 0 {
		before = revs[i-1]
	}
	page, err := db.History(t.Context(), storage.HistoryRequest{After: before, Until: revs[i], Limit: 1, Prev: true})
	require.NoError(t, err)
	require.False(t, page.More)
	require.Len(t, page.Batches, 1)
	for _, b := range []storage.Batch{page.Batches[0], firstBatch(t, db.Watch(t.Context(), "", before))} {
		require.Equal(t, revs[i], b.Revision)
		require.Len(t, b.Changes, len(ops))
		for _, c := range b.Changes {
			require.Equal(t, revs[i], c.Revision)
			require.True(t, slices.ContainsFunc(ops, func(op storage.Op) bool { return op.Key == c.Key && string(op.Value) == string(c.Value) }), c.Key)
		}
	}
	for _, c := range page.Batches[0].Changes {
		require.Equal(t, c.Key == widget("w000"), c.Prev != nil, c.Key)
	}
}

// requireListed pages through the widgets at the last one of some revisions.
func requireListed(t *testing.T, db *etcd.DB, revs []storage.Revision, written map[storage.Revision][]storage.Op) {
	t.Helper()
	at := revs[len(revs)-1]
	want := map[string]storage.Revision{widget("w000"): 0} // the old one, until it is replaced
	for _, rev := range revs {
		want[written[rev][0].Key] = rev
	}
	have := map[string]storage.Revision{}
	for r := (storage.ListRequest{Prefix: storage.ResourcePrefix("widgets"), Limit: 7, At: at}); ; {
		p, err := db.List(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, at, p.Revision)
		require.LessOrEqual(t, len(p.Records), r.Limit)
		for _, record := range p.Records {
			require.Greater(t, record.Key, r.After)
			have[record.Key], r.After = record.Revision, record.Key
			if string(record.Value) == "old" {
				have[record.Key] = 0
			}
		}
		if !p.More {
			break
		}
	}
	require.Equal(t, want, have, "list at %d", at)
}

// A commit that reads or writes what another one writes is in no transaction with it: both would be judged by the
// state before.
func TestCommitsOfOneTransactionAreApart(t *testing.T) {
	s := &stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{})}
	p := etcdtest.NewProxy(t, s.cluster.Endpoints()[0][len("http://"):])
	db, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{"http://" + p.Address()}, Prefix: s.prefix()})
	require.NoError(t, err)
	for round := range 10 {
		name := func(s string) string { return fmt.Sprintf("%d-%s", round, s) }
		x := commit(t, db, storage.Put(widget(name("x")), nil, storage.Absent))
		y := commit(t, db, storage.Put(widget(name("y")), nil, storage.Absent))
		for what, pair := range map[string][][]storage.Op{
			"both create": {{storage.Put(widget(name("one")), []byte("a"), storage.Absent)}, {storage.Put(widget(name("one")), []byte("b"), storage.Absent)}},
			"each writes what the other one has seen": {
				{storage.Check(widget(name("x")), storage.Expect(x)), storage.Put(widget(name("y")), []byte("a"), storage.Any)},
				{storage.Check(widget(name("y")), storage.Expect(y)), storage.Put(widget(name("x")), []byte("b"), storage.Any)},
			},
		} {
			filler := creates(30, name(what)+"-%03d")
			all := atOnce(db, p, slices.Concat(filler[:15], pair, filler[15:])...)
			for _, c := range slices.Concat(all[:15], all[17:]) {
				require.NoError(t, c.err)
			}
			failed := slices.DeleteFunc(all[15:17], func(c told) bool { return c.err == nil })
			require.Len(t, failed, 1, what)
			var conflict *storage.ConflictError
			require.ErrorAs(t, failed[0].err, &conflict)
		}
	}
	require.NoError(t, db.Close())
}

// A commit whose caller does not wait any more while it waits for its turn does not happen.
func TestCommitsThatAreWithdrawn(t *testing.T) {
	s := &stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{})}
	p := etcdtest.NewProxy(t, s.cluster.Endpoints()[0][len("http://"):])
	db, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{"http://" + p.Address()}, Prefix: s.prefix()})
	require.NoError(t, err)
	start := commit(t, db, storage.Put(widget("a"), nil, storage.Absent))
	ctx, cancel := context.WithCancel(t.Context())
	p.Stall()
	var running sync.WaitGroup
	errs := make([]error, 50)
	for i, ops := range creates(len(errs), "w%03d") {
		running.Go(func() { _, errs[i] = db.Commit(ctx, ops) })
		if i < 10 {
			time.Sleep(10 * time.Millisecond) // each sender has one of these under way, so that the others wait
		}
	}
	time.Sleep(100 * time.Millisecond)
	cancel()
	running.Wait()
	p.Resume()
	for i := range 8 { // what waited is under way before these, or together with them
		commit(t, db, storage.Put(gadget(fmt.Sprint("later ", i)), []byte("later"), storage.Absent))
	}
	happened := map[string]bool{}
	for _, b := range replay(t, db, start) {
		happened[string(b.Changes[0].Value)] = true
	}
	withdrawn := 0
	for i, err := range errs {
		require.ErrorIs(t, err, context.Canceled)
		if !strings.Contains(err.Error(), storage.ErrUnknownOutcome.Error()) {
			withdrawn++
			require.False(t, happened[fmt.Sprintf("w%03d", i)], "%v", err)
		}
	}
	require.NotZero(t, withdrawn)
	require.NoError(t, db.Close())
}

// Commits whose answers are lost happen once each, though they shared transactions.
func TestLostAnswersOfSharedTransactions(t *testing.T) {
	s := &stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{})}
	other := s.fresh(t)
	p := etcdtest.NewProxy(t, s.cluster.Endpoints()[0][len("http://"):])
	db, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{"http://" + p.Address()}, Prefix: other.Prefix()})
	require.NoError(t, err)
	start, err := other.Revision(t.Context())
	require.NoError(t, err)
	acknowledged := map[string]storage.Revision{}
	for round := range 5 {
		all := make([]told, 200)
		var running sync.WaitGroup
		for w := range 40 { // five commits each
			running.Go(func() {
				for i := w * 5; i < w*5+5; i++ {
					key := widget(fmt.Sprintf("%d-%d", round, i))
					rev, err := db.Commit(context.Background(), []storage.Op{storage.Put(key, []byte(key), storage.Absent)})
					all[i] = told{[]storage.Op{{Key: key}}, rev, err}
				}
			})
		}
		time.Sleep(time.Duration(round) * time.Millisecond)
		p.Mute()
		time.Sleep(50 * time.Millisecond)
		p.Cut()
		p.Resume()
		running.Wait()
		for _, c := range all {
			require.NoError(t, c.err)
			acknowledged[c.ops[0].Key] = c.rev
		}
	}
	happened := map[string]storage.Revision{}
	for _, b := range replay(t, other, start) {
		require.Len(t, b.Changes, 1)
		require.NotContains(t, happened, b.Changes[0].Key, "happened twice")
		happened[b.Changes[0].Key] = b.Revision
	}
	require.Equal(t, acknowledged, happened)
	revs := slices.Sorted(maps.Values(happened))
	require.NotEmpty(t, shared(revs))
	// A watch that begins in the past takes its log in steps, which do not end inside of a transaction.
	var watched []storage.Revision
	for b, err := range other.Watch(t.Context(), storage.ResourcePrefix("widgets"), start) {
		require.NoError(t, err)
		if watched = append(watched, b.Revision); b.Revision == revs[len(revs)-1] {
			break
		}
	}
	require.Equal(t, revs, watched)
	require.NoError(t, db.Close())
	require.NoError(t, other.Close())
}
