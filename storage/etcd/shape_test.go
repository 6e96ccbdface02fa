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
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/kindwright/kindwright/storage"
)

// strangeEtcd gives answers as they were made up by somebody else.
type strangeEtcd struct {
	etcdserverpb.KVClient
	answer func(*etcdserverpb.TxnRequest) (*etcdserverpb.TxnResponse, error)
}

func (e *strangeEtcd) Txn(ctx context.Context, r *etcdserverpb.TxnRequest, _ ...grpc.CallOption) (*etcdserverpb.TxnResponse, error) {
	sending{}.HandleRPC(ctx, &stats.OutHeader{}) // as gRPC does
	return e.answer(r)
}

func answering(resp *etcdserverpb.TxnResponse) func(*etcdserverpb.TxnRequest) (*etcdserverpb.TxnResponse, error) {
	return func(*etcdserverpb.TxnRequest) (*etcdserverpb.TxnResponse, error) { return resp, nil }
}

func header() *etcdserverpb.ResponseHeader { return &etcdserverpb.ResponseHeader{Revision: 20} }

func ranged(kvs ...*mvccpb.KeyValue) *etcdserverpb.ResponseOp {
	return &etcdserverpb.ResponseOp{Response: &etcdserverpb.ResponseOp_ResponseRange{ResponseRange: &etcdserverpb.RangeResponse{Kvs: kvs}}}
}

// sends begins to send groups of commits.
func (db *DB) sends() {
	db.groups = newGroups(db)
	for range senders {
		db.running.Go(db.groups.run)
	}
}

// An answer of another form than the question ended the process, wherever its parts were looked at.
func TestSTORE_AnAnswerOfAnotherFormIsNone(t *testing.T) {
	put := &etcdserverpb.ResponseOp{Response: &etcdserverpb.ResponseOp_ResponsePut{ResponsePut: &etcdserverpb.PutResponse{}}}
	deleted := &etcdserverpb.ResponseOp{Response: &etcdserverpb.ResponseOp_ResponseDeleteRange{
		ResponseDeleteRange: &etcdserverpb.DeleteRangeResponse{},
	}}
	for name, resp := range map[string]*etcdserverpb.TxnResponse{
		"empty":                     {},
		"without a header":          {Succeeded: true, Responses: []*etcdserverpb.ResponseOp{ranged()}},
		"refused, and nothing else": {Header: header()},
		"refused, with other parts": {Header: header(), Responses: []*etcdserverpb.ResponseOp{put, put}},
		"too few parts":             {Succeeded: true, Header: header()},
		"too many parts":            {Succeeded: true, Header: header(), Responses: []*etcdserverpb.ResponseOp{ranged(), ranged(), put}},
		"parts of another kind":     {Succeeded: true, Header: header(), Responses: []*etcdserverpb.ResponseOp{deleted}},
		"parts of no kind":          {Succeeded: true, Header: header(), Responses: []*etcdserverpb.ResponseOp{{}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := bare(t)
				db.kv = clientv3.NewKVFromKVClient(&strangeEtcd{answer: answering(resp)}, nil)
				db.sends()
				_, err := db.Get(t.Context(), "/r/widgets/o/a")
				require.ErrorIs(t, err, storage.ErrUnavailable)
				_, err = db.List(t.Context(), storage.ListRequest{Prefix: "/r/widgets/", Limit: 10})
				require.ErrorIs(t, err, storage.ErrUnavailable)
				short, cancel, err := db.begin(t.Context())
				require.NoError(t, err)
				defer cancel()
				_, err = db.inspect(short)
				require.ErrorIs(t, err, storage.ErrUnavailable)
				told := make(chan error, 2)
				for _, key := range []string{"/r/widgets/o/a", "/r/widgets/o/b"} { // they may share a transaction
					go func() {
						_, err := db.Commit(t.Context(), []storage.Op{storage.Put(key, nil, storage.Absent)})
						told <- err
					}()
				}
				require.ErrorIs(t, <-told, storage.ErrUnknownOutcome)
				require.ErrorIs(t, <-told, storage.ErrUnknownOutcome)
				require.ErrorIs(t, db.Advance(t.Context(), 1<<40), storage.ErrUnavailable)
				require.NoError(t, db.Healthy())
				db.end()
				db.running.Wait()
			})
		})
	}
}

// What goes wrong between here and etcd is no answer of etcd, whatever code gRPC has for it: a read is asked
// again, and a write finds out whether it has happened.
func TestSTORE_ABrokenStreamIsNoAnswer(t *testing.T) {
	for _, broken := range []error{
		status.Error(codes.Internal, "server closed the stream without sending trailers"),
		status.Error(codes.Internal, "stream terminated by RST_STREAM with error code: INTERNAL_ERROR"),
		status.Error(codes.Unknown, "unexpected HTTP status code received from server: 500 (Internal Server Error)"),
	} {
		t.Run(broken.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := bare(t)
				calls := 0
				var written []byte
				db.kv = clientv3.NewKVFromKVClient(&strangeEtcd{answer: func(r *etcdserverpb.TxnRequest) (*etcdserverpb.TxnResponse, error) {
					calls++
					if calls == 1 {
						for _, op := range r.Success {
							if put := op.GetRequestPut(); put != nil {
								written = put.Value
							}
						}
						return nil, broken
					}
					kv := &mvccpb.KeyValue{Key: []byte("/p/d/r/widgets/o/a"), Value: written, ModRevision: 20}
					if len(written) == 0 {
						kv.Value = []byte(seal([]byte("v"), 0, 1))
						return &etcdserverpb.TxnResponse{Succeeded: true, Header: header(), Responses: []*etcdserverpb.ResponseOp{ranged(kv)}}, nil
					}
					base := &mvccpb.KeyValue{Key: []byte("/p/m/base"), Value: []byte(`[{"from":10,"base":1000}]`), ModRevision: 10}
					return &etcdserverpb.TxnResponse{Header: header(), Responses: []*etcdserverpb.ResponseOp{ranged(base), ranged(kv)}}, nil
				}}, nil)
				r, err := db.Get(t.Context(), "/r/widgets/o/a")
				require.NoError(t, err)
				require.Equal(t, "v", string(r.Value))

				calls = 0
				db.sends()
				rev, err := db.Commit(t.Context(), []storage.Op{storage.Put("/r/widgets/o/a", []byte("w"), storage.Expect(1000+128*12))})
				require.NoError(t, err)
				require.Equal(t, storage.Revision(1000+128*20), rev)
				db.end()
				db.running.Wait()
			})
		})
	}
}

// silentWatch is an etcd that does not confirm its first watches. Etcd's client waits for that.
type silentWatch struct {
	lateWatch
	silent int64
}

func (s *silentWatch) Watch(ctx context.Context, key string, o ...clientv3.OpOption) clientv3.WatchChan {
	if s.watches.Load() < s.silent {
		s.watches.Add(1)
		<-ctx.Done()
		ended := make(chan clientv3.WatchResponse)
		close(ended)
		return ended
	}
	return s.lateWatch.Watch(ctx, key, o...)
}

// A member that takes the request for a watch and does not confirm it held up all watches of the store for as long
// as it liked, also after calls went to members that serve.
func TestWATCH_AWatchThatIsNotConfirmedIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := bare(t)
		db.client = &clientv3.Client{Watcher: &silentWatch{silent: 2}}
		db.feed.owe("", 20)
		db.running.Go(db.feed.run)
		time.Sleep(time.Minute)
		require.Equal(t, int64(20), db.feed.position())
		require.Equal(t, stallTime, db.feed.confirm)
		db.end()
		db.running.Wait()
	})
}

// Whoever is sent to other members does not wait for the confirmation of the one before.
func TestWATCH_AWatchThatIsNotConfirmedGoesToMembersThatServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := bare(t)
		watcher := &silentWatch{silent: 1}
		db.client = &clientv3.Client{Watcher: watcher}
		db.feed.confirm = time.Hour
		db.running.Go(db.feed.run)
		synctest.Wait()
		require.Equal(t, int64(1), watcher.watches.Load())
		db.feed.reroute()
		time.Sleep(time.Second)
		require.Equal(t, int64(2), watcher.watches.Load())
		db.end()
		db.running.Wait()
	})
}
