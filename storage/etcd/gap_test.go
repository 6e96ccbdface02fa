package etcd

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kindwright/kindwright/storage"
)

// compactedEtcd is an etcd in which the store's base was stored anew at revision 15, that was compacted
// at 18, and has a change at 20. Who was cut off at 12 knows the base from 10.
type compactedEtcd struct {
	clientv3.KV
	clientv3.Watcher
	watches int
}

const (
	oldBase, newBase = 1_000, 1_000_000
	lines            = `[{"from":10,"base":1000},{"base":1000000}]`
)

func (e *compactedEtcd) Do(_ context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	compare, _, _ := op.Txn()
	resp := &clientv3.TxnResponse{Header: &etcdserverpb.ResponseHeader{Revision: 20}}
	if resp.Succeeded = compare[0].GetCompare().GetModRevision() == 15; !resp.Succeeded {
		base := &etcdserverpb.RangeResponse{Kvs: []*mvccpb.KeyValue{{Value: []byte(lines), ModRevision: 15}}}
		resp.Responses = []*etcdserverpb.ResponseOp{{Response: &etcdserverpb.ResponseOp_ResponseRange{ResponseRange: base}}}
	}
	return resp.OpResponse(), nil
}

func (e *compactedEtcd) Watch(ctx context.Context, _ string, _ ...clientv3.OpOption) clientv3.WatchChan {
	responses := make(chan clientv3.WatchResponse, 1)
	context.AfterFunc(ctx, func() { close(responses) })
	if e.watches++; e.watches == 1 {
		responses <- clientv3.WatchResponse{CompactRevision: 18, Canceled: true}
		return responses
	}
	change := &clientv3.Event{Type: clientv3.EventTypePut, Kv: &mvccpb.KeyValue{
		Key: []byte("/p/d/r/widgets/a"), Value: []byte(seal([]byte("v"), 0, 1)), ModRevision: 20, CreateRevision: 20,
	}}
	responses <- clientv3.WatchResponse{Header: &etcdserverpb.ResponseHeader{Revision: 20}, Events: []*clientv3.Event{change}}
	return responses
}

func (e *compactedEtcd) RequestProgress(context.Context) error { return nil }

// The base is a record like others: a watch that was cut off until it was compacted is not told that it
// has changed. What happened since counts by the new one all the same.
func TestABaseThatChangedBeforeACompactionIsLearned(t *testing.T) {
	fake := &compactedEtcd{}
	db := bare(t)
	db.client, db.kv = &clientv3.Client{Watcher: fake}, fake
	db.running.Go(db.feed.run)

	var commits []commitRecord
	var reached int64
	for ok := false; !ok; {
		commits, reached, ok = db.feed.past(t.Context(), "", 18, 20, 10)
	}
	require.Equal(t, int64(20), reached)
	require.Len(t, commits, 1)
	require.Equal(t, storage.Revision(newBase+128*20), commits[0].batch.Revision, "not %d", oldBase+128*20)
}
