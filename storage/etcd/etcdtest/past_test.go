package etcdtest_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/etcd"
	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
)

// behind opens a store through a proxy.
func behind(t *testing.T, s *stores, prefix string) (*etcd.DB, *etcdtest.Proxy) {
	t.Helper()
	p := etcdtest.NewProxy(t, s.cluster.Endpoints()[0][len("http://"):])
	config := etcd.Config{
		Endpoints: []string{"http://" + p.Address()}, Prefix: prefix, Timeout: 5 * time.Second,
	}
	db, err := etcd.Open(t.Context(), config)
	require.NoError(t, err)
	return db, p
}

// restored opens a store of a member that starts, and accepts that it is an older copy.
func restored(t *testing.T, s *stores, prefix string) *etcd.DB {
	t.Helper()
	config := etcd.Config{Endpoints: s.cluster.Endpoints(), Prefix: prefix, Restored: true}
	for {
		db, err := etcd.Open(t.Context(), config)
		if err == nil {
			return db
		}
		require.ErrorContains(t, err, "no endpoint answers")
		require.NoError(t, t.Context().Err())
	}
}

// ends waits until a handle refuses calls for good and its watch has ended for that reason.
func ends(t *testing.T, db *etcd.DB, f *follower) {
	t.Helper()
	for db.Healthy() == nil {
		_, err := db.Revision(t.Context())
		if !errors.Is(err, storage.ErrUnavailable) && !errors.Is(err, storage.ErrClosed) {
			require.NoError(t, err)
		}
		require.NoError(t, t.Context().Err())
		time.Sleep(10 * time.Millisecond)
	}
	for range f.batches { // it ends
	}
	require.ErrorIs(t, f.err, storage.ErrClosed)
	require.ErrorContains(t, f.err, "with Restored set")
}

// A server that is cut off while an older copy of etcd's data takes the place of the present one,
// and comes back when the copy has gone beyond what the server knows, must not go on: it would mix
// two histories. It is told by the base, which whoever accepts the copy writes anew.
func TestRestoredWhileAServerIsCutOff(t *testing.T) {
	for name, fences := range map[string]bool{
		"the base was stored before": false, "the base was stored since": true,
	} {
		t.Run(name, func(t *testing.T) {
			s := &stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{})}
			first := s.fresh(t)
			commit(t, first, storage.Put(widget("a"), []byte("saved"), storage.Absent))
			away, p := behind(t, s, first.Prefix())
			f := follow(t, away)
			member := s.cluster.Members[0]
			file := member.Save(t)
			var lost storage.Revision
			for range 20 {
				lost = commit(t, away, storage.Put(widget("lost"), nil, storage.Any))
			}
			if fences {
				now, err := away.Revision(t.Context())
				require.NoError(t, err)
				require.NoError(t, first.Advance(t.Context(), now+10_000))
				lost = commit(t, away, storage.Put(widget("lost"), nil, storage.Any))
			}
			require.NotEmpty(t, f.until(t, lost))
			require.NoError(t, first.Close())

			p.Stall()
			member.Kill()
			member.Restore(t, file)
			member.Start(t)
			present := restored(t, s, first.Prefix())
			var newest storage.Revision
			for range 60 {
				newest = commit(t, present, storage.Put(widget("new"), nil, storage.Any))
			}
			require.Greater(t, newest, lost)
			p.Resume()
			p.Cut()
			ends(t, away, f)
			require.NoError(t, away.Close())
			require.NoError(t, present.Close())
		})
	}
}

// A copy that is restored with --bump-revision is above all that was given out. A server that ran
// meanwhile has lost its history and nothing else: readers are told, and what is stored is served.
func TestRestoredWithABump(t *testing.T) {
	s := &stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{})}
	db := s.fresh(t)
	member := s.cluster.Members[0]
	saved := commit(t, db, storage.Put(widget("a"), []byte("saved"), storage.Absent))
	file := member.Save(t)
	lost := commit(t, db, storage.Put(widget("a"), []byte("lost"), storage.Expect(saved)))
	f := follow(t, db)
	member.Kill()
	member.RestoreAbove(t, file, 1_000_000)
	member.Start(t)
	for range f.batches { // it ends
	}
	require.ErrorIs(t, f.err, storage.ErrCompacted)
	r, err := db.Get(t.Context(), widget("a"))
	require.NoError(t, err)
	require.Equal(t, []byte("saved"), r.Value)
	_, err = db.Commit(t.Context(), []storage.Op{storage.Put(widget("a"), nil, storage.Expect(lost))})
	var conflict *storage.ConflictError
	require.ErrorAs(t, err, &conflict, "what was lost is not expected in vain")
	_, err = db.List(t.Context(), storage.ListRequest{Limit: 1, At: lost})
	require.ErrorIs(t, err, storage.ErrCompacted)
	_, err = db.History(t.Context(), storage.HistoryRequest{After: lost, Limit: 10})
	require.ErrorIs(t, err, storage.ErrCompacted)
	again := follow(t, db)
	next := commit(t, db, storage.Put(widget("a"), []byte("next"), storage.Expect(r.Revision)))
	require.Greater(t, next, lost)
	require.Equal(t, []storage.Revision{next}, revisions(again.until(t, next)))
	require.NoError(t, db.Close())
}

// The tokens of etcd's users are in the memory of its members. A member that restarts knows none; a
// password that changes makes all invalid.
func TestTokensThatAreForgotten(t *testing.T) {
	s := &stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{})}
	client := s.cluster.Client(t)
	for _, step := range []func() error{
		func() error { _, err := client.RoleAdd(t.Context(), "root"); return err },
		func() error { _, err := client.UserAdd(t.Context(), "root", "secret"); return err },
		func() error { _, err := client.UserGrantRole(t.Context(), "root", "root"); return err },
		func() error { _, err := client.AuthEnable(t.Context()); return err },
	} {
		require.NoError(t, step())
	}
	config := etcd.Config{
		Endpoints: s.cluster.Endpoints(), User: "root", Password: "secret", Prefix: "/api",
	}
	db, err := etcd.Open(t.Context(), config)
	require.NoError(t, err)
	admin, err := clientv3.New(clientv3.Config{
		Endpoints: s.cluster.Endpoints(), Username: "root", Password: "secret",
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, admin.Close()) }()
	f := follow(t, db)
	var want []storage.Revision
	write := func() {
		t.Helper()
		want = append(want, commit(t, db, storage.Put(widget("a"), nil, storage.Any)))
	}
	write()
	for range *rounds {
		s.cluster.Members[0].Kill()
		s.cluster.Members[0].Start(t)
		readyAgain(t, db)
		write()
		_, err = admin.UserAdd(t.Context(), "other", "x") // a new revision of what users may do
		require.NoError(t, err)
		write()
		_, err = admin.UserDelete(t.Context(), "other")
		require.NoError(t, err)
		write()
	}
	require.Equal(t, want, revisions(f.until(t, want[len(want)-1])))
	require.NoError(t, db.Close())
}

// Certificates are replaced while a server runs: connections that are made from then on show the
// new one.
func TestCertificatesAreReplaced(t *testing.T) {
	ours := newAuthority(t)
	server, serverKey := ours.issue(t, time.Now().Add(time.Hour))
	options := etcdtest.Options{Cert: server, Key: serverKey, ClientCA: ours.file(t)}
	cluster := etcdtest.Start(t, 1, options)
	cert, key := ours.issue(t, time.Now().Add(time.Hour))
	settings, err := etcd.TLSFiles(ours.file(t), cert, key)
	require.NoError(t, err)
	p := etcdtest.NewProxy(t, cluster.Endpoints()[0][len("https://"):])
	config := etcd.Config{
		Endpoints: []string{"https://" + p.Address()}, TLS: settings, Timeout: 2 * time.Second,
	}
	db, err := etcd.Open(t.Context(), config)
	require.NoError(t, err)
	f := follow(t, db)
	one := commit(t, db, storage.Put(widget("a"), nil, storage.Absent))
	replace := func(until time.Time) {
		c, k := ours.issue(t, until)
		require.NoError(t, os.Rename(c, cert))
		require.NoError(t, os.Rename(k, key))
		p.Cut()
	}
	replace(time.Now().Add(-time.Minute))
	notReady(t, db)
	_, err = db.Commit(t.Context(), []storage.Op{storage.Put(widget("a"), nil, storage.Any)})
	require.ErrorIs(t, err, storage.ErrUnavailable)
	replace(time.Now().Add(time.Hour))
	readyAgain(t, db)
	two := commit(t, db, storage.Put(widget("a"), nil, storage.Any))
	require.Equal(t, []storage.Revision{one, two}, revisions(f.until(t, two)))
	require.NoError(t, db.Close())
}

// If the history that would tell whether a commit happened has been compacted, nobody knows, and
// nobody guesses: neither success nor a refusal.
func TestALostAnswerWhoseHistoryIsGone(t *testing.T) {
	s := &stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{})}
	other := s.fresh(t)
	db, p := behind(t, s, other.Prefix())
	seen := follow(t, other)
	p.Mute()
	told := make(chan error, 1)
	go func() {
		put := storage.Put(widget("a"), []byte("once"), storage.Absent)
		_, err := db.Commit(context.Background(), []storage.Op{put})
		told <- err
	}()
	var made storage.Batch
	for made = range seen.batches {
		if !made.Progress {
			break
		}
	}
	deleted := commit(t, other, storage.Delete(widget("a"), storage.Expect(made.Revision)))
	require.NoError(t, other.Compact(t.Context(), deleted))
	p.Cut()
	p.Resume()
	require.ErrorIs(t, <-told, storage.ErrUnknownOutcome)
	_, err := other.Get(t.Context(), widget("a"))
	require.ErrorIs(t, err, storage.ErrNotFound, "it was not made a second time")
	require.NoError(t, db.Close())
	require.NoError(t, other.Close())
}
