package etcd

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kindwright/kindwright/storage"
)

// refusedLast is an etcd whose newest transaction was that of two commits, of which the last one was refused.
type refusedLast struct {
	clientv3.KV
	clientv3.Watcher
}

func (refusedLast) Do(_ context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	resp := &clientv3.TxnResponse{Succeeded: true, Header: &etcdserverpb.ResponseHeader{Revision: 20}}
	_, asked, _ := op.Txn()
	for range asked {
		resp.Responses = append(resp.Responses, ranged())
	}
	return resp.OpResponse(), nil
}

func (refusedLast) Watch(ctx context.Context, _ string, _ ...clientv3.OpOption) clientv3.WatchChan {
	responses := make(chan clientv3.WatchResponse, 1)
	context.AfterFunc(ctx, func() { close(responses) })
	change := &clientv3.Event{Type: clientv3.EventTypePut, Kv: &mvccpb.KeyValue{
		Key: []byte("/p/d/r/widgets/o/a"), Value: []byte(seal([]byte("v"), 1, grouped)), ModRevision: 20, CreateRevision: 20,
	}}
	responses <- clientv3.WatchResponse{Header: &etcdserverpb.ResponseHeader{Revision: 20}, Events: []*clientv3.Event{change}}
	return responses
}

func (refusedLast) RequestProgress(context.Context) error { return nil }

// A watch that has had a commit of a shared transaction is told of the revision at which that ends, too, though its
// last commit was refused or was about other keys. Readers that asked for the newest state waited until something
// else was written.
func TestAWatchReachesTheEndOfASharedTransaction(t *testing.T) {
	const start, first, end = 1000 + 128*12, 1000 + 128*20 - 1, 1000 + 128*20
	for name, floor := range map[string]int64{"from the log": 12, "from etcd": 20} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := bare(t)
				db.client, db.kv, db.feed = &clientv3.Client{Watcher: refusedLast{}}, refusedLast{}, newFeed(db, floor)
				if floor < 20 {
					db.running.Go(db.feed.run)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var reached []storage.Revision
				for b, err := range db.Watch(ctx, "", start) {
					require.NoError(t, err, "reached %d", reached)
					if reached = append(reached, b.Revision); b.Revision == end {
						break
					}
					now, err := db.Sync(t.Context(), "")
					require.NoError(t, err)
					require.Equal(t, storage.Revision(end), now)
				}
				require.Equal(t, []storage.Revision{first, end}, reached)
				db.end()
				db.running.Wait()
			})
		})
	}
}
