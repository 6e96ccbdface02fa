package etcdtest_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/etcd"
	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
)

// Etcd sends a long history in parts, each with the revision of the end. A reader must not take a part
// for the whole.
func TestLongHistories(t *testing.T) {
	s := &stores{cluster: etcdtest.Start(t, 1, etcdtest.Options{})}
	writer := s.fresh(t)
	start, err := writer.Revision(t.Context())
	require.NoError(t, err)
	live := follow(t, writer)
	var running sync.WaitGroup
	for w := range 10 {
		running.Go(func() {
			for range 350 {
				_, err := writer.Commit(t.Context(), []storage.Op{storage.Put(widget(fmt.Sprint(w)), nil, storage.Any)})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	last, err := writer.Revision(t.Context())
	require.NoError(t, err)
	want := revisions(live.until(t, last))
	require.Len(t, want, 3500)

	late := s.open(t, writer.Prefix())
	require.Equal(t, want, revisions(watchUntil(t, late, start, last)), "a log that begins in the past")
	require.Equal(t, want, revisions(replay(t, late, start)))
	require.NoError(t, late.Close())

	small, err := etcd.Open(t.Context(), etcd.Config{Endpoints: s.cluster.Endpoints(), Prefix: writer.Prefix(), MaxLogBytes: 1})
	require.NoError(t, err)
	require.Equal(t, want, revisions(watchUntil(t, small, start, last)), "without a log")
	require.Equal(t, want, revisions(replay(t, small, start)))
	require.NoError(t, small.Close())
	require.NoError(t, writer.Close())
}

// watchUntil returns the batches without progress of a watch that must reach a revision.
func watchUntil(t *testing.T, db storage.Backend, after, until storage.Revision) []storage.Batch {
	t.Helper()
	var all []storage.Batch
	for b, err := range db.Watch(t.Context(), storage.ResourcePrefix("widgets"), after) {
		require.NoError(t, err)
		if !b.Progress {
			all = append(all, b)
		}
		if b.Revision >= until {
			break
		}
	}
	return all
}
