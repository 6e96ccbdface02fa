package etcdtest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/etcd"
	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
)

// A commit whose answer is lost happens once, even if the key is by then as the commit expects it: absent
// again, or anything.
func TestLostAnswers(t *testing.T) {
	s := &stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{})}
	for name, expect := range map[string]storage.Expect{"a creation": storage.Absent, "a write of whatever is there": storage.Any} {
		t.Run(name, func(t *testing.T) {
			other := s.fresh(t)
			start, err := other.Revision(t.Context())
			require.NoError(t, err)
			p := etcdtest.NewProxy(t, s.cluster.Endpoints()[0][len("http://"):])
			db, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{"http://" + p.Address()}, Prefix: other.Prefix()})
			require.NoError(t, err)
			seen := follow(t, other)

			p.Mute()
			type answer struct {
				rev storage.Revision
				err error
			}
			told := make(chan answer, 1)
			go func() {
				rev, err := db.Commit(context.Background(), []storage.Op{storage.Put(widget("a"), []byte("once"), expect)})
				told <- answer{rev, err}
			}()
			var made storage.Batch
			for made = range seen.batches {
				if !made.Progress {
					break
				}
			}
			deleted := commit(t, other, storage.Delete(widget("a"), storage.Expect(made.Revision)))
			p.Cut()
			p.Resume()
			a := <-told
			require.NoError(t, a.err)
			require.Equal(t, made.Revision, a.rev)
			require.Equal(t, []storage.Revision{made.Revision, deleted}, revisions(replay(t, other, start)))
			// Revisions go on where they were.
			again := commit(t, db, storage.Put(widget("a"), nil, storage.Absent))
			require.Greater(t, again, deleted)
			require.Equal(t, again, revisionOf(t, other, widget("a")))
			late := s.open(t, other.Prefix())
			require.Equal(t, []storage.Revision{made.Revision, deleted, again}, revisions(replay(t, late, start)))
			for _, db := range []*etcd.DB{db, other, late} {
				require.NoError(t, db.Close())
			}
		})
	}
}
