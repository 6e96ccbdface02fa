package etcd

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/kindwright/kindwright/storage"
)

// heldEtcd is an etcd that holds transactions back: whoever sent them gets no answer, and they happen later.
type heldEtcd struct {
	etcdserverpb.KVClient
	rev    int64
	stored map[string]*mvccpb.KeyValue
	hold   int // how many that write
	held   []*etcdserverpb.TxnRequest
}

func newHeldEtcd(hold int) *heldEtcd {
	base := &mvccpb.KeyValue{Key: []byte("/p/m/base"), Value: []byte(`[{"from":10,"base":1000}]`), ModRevision: 10}
	return &heldEtcd{rev: 20, hold: hold, stored: map[string]*mvccpb.KeyValue{"/p/m/base": base}}
}

func (e *heldEtcd) Txn(ctx context.Context, r *etcdserverpb.TxnRequest, _ ...grpc.CallOption) (*etcdserverpb.TxnResponse, error) {
	sending{}.HandleRPC(ctx, &stats.OutHeader{})
	writes := false
	for _, op := range r.Success {
		writes = writes || op.GetRequestPut() != nil
	}
	if writes && e.hold > 0 {
		e.hold--
		e.held = append(e.held, r)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return e.apply(r), nil
}

// apply carries a transaction out whose comparisons are about the revisions of keys.
func (e *heldEtcd) apply(r *etcdserverpb.TxnRequest) *etcdserverpb.TxnResponse {
	resp := &etcdserverpb.TxnResponse{Succeeded: true}
	for _, c := range r.Compare {
		var mod int64
		if kv := e.stored[string(c.Key)]; kv != nil {
			mod = kv.ModRevision
		}
		resp.Succeeded = resp.Succeeded && mod == c.GetModRevision()
	}
	ops := r.Success
	if !resp.Succeeded {
		ops = r.Failure
	}
	next := e.rev + 1
	for _, op := range ops {
		if put := op.GetRequestPut(); put != nil {
			e.rev = next
			e.stored[string(put.Key)] = &mvccpb.KeyValue{Key: put.Key, Value: put.Value, ModRevision: next}
			resp.Responses = append(resp.Responses, &etcdserverpb.ResponseOp{
				Response: &etcdserverpb.ResponseOp_ResponsePut{ResponsePut: &etcdserverpb.PutResponse{}},
			})
			continue
		}
		var found []*mvccpb.KeyValue
		if kv := e.stored[string(op.GetRequestRange().Key)]; kv != nil {
			found = append(found, kv)
		}
		resp.Responses = append(resp.Responses, ranged(found...))
	}
	resp.Header = &etcdserverpb.ResponseHeader{Revision: e.rev}
	return resp
}

// An import whose answer was lost could still happen, and took back what a later import had written: the copy of a
// store had an old value, and nobody knew.
func TestSTORE_AnImportWithoutAnAnswerDoesNotHappenLater(t *testing.T) {
	for name, hold := range map[string]int{"within a call": 1, "of a call before": 20} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, e := bare(t), newHeldEtcd(hold)
				db.kv = clientv3.NewKVFromKVClient(e, nil)
				imports := func(value string, rev storage.Revision) error {
					return db.Import(t.Context(), storage.Import{Put: []storage.Record{{Key: "/r/widgets/o/a", Value: []byte(value), Revision: rev}}})
				}
				err := imports("old", 7)
				if hold > 1 {
					require.ErrorIs(t, err, storage.ErrUnknownOutcome)
					e.hold = 0
					err = imports("old", 7)
				}
				require.NoError(t, err)
				require.NoError(t, imports("new", 8))
				require.NotEmpty(t, e.held)
				for _, late := range e.held {
					e.apply(late)
				}
				r, err := db.Get(t.Context(), "/r/widgets/o/a")
				require.NoError(t, err)
				require.Equal(t, "new", string(r.Value))
				require.Equal(t, storage.Revision(8), r.Revision)
			})
		})
	}
}
