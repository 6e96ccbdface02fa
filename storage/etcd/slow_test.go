package etcd

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/kindwright/kindwright/storage"
)

// slowEtcd has 1,000 records of 1 MiB behind a line of 50 MiB a second.
type slowEtcd struct {
	etcdserverpb.KVClient
	keys []string
}

const perRecord = 20 * time.Millisecond

func newSlowEtcd() *slowEtcd {
	e := &slowEtcd{}
	for i := range 1000 {
		e.keys = append(e.keys, fmt.Sprintf("/p/d/r/widgets/o/%04d", i))
	}
	return e
}

var mebibyte = []byte(seal(make([]byte, 1<<20), 0, 1))

func (e *slowEtcd) Txn(ctx context.Context, r *etcdserverpb.TxnRequest, _ ...grpc.CallOption) (*etcdserverpb.TxnResponse, error) {
	resp := &etcdserverpb.TxnResponse{Succeeded: true, Header: &etcdserverpb.ResponseHeader{Revision: 20}}
	for _, op := range r.Success {
		request, answer := op.GetRequestRange(), &etcdserverpb.RangeResponse{}
		from, _ := slices.BinarySearch(e.keys, string(request.Key))
		found := e.keys[from:]
		if n := int(request.Limit); n < len(found) {
			found, answer.More = found[:n], true
		}
		for _, key := range found {
			answer.Kvs = append(answer.Kvs, &mvccpb.KeyValue{Key: []byte(key), Value: mebibyte, ModRevision: 15})
		}
		select {
		case <-time.After(time.Duration(len(found)) * perRecord):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		resp.Responses = append(resp.Responses, &etcdserverpb.ResponseOp{Response: &etcdserverpb.ResponseOp_ResponseRange{ResponseRange: answer}})
	}
	return resp, nil
}

// bare is a store that begins at revision 10 of etcd, without what asks and follows etcd by itself.
func bare(t *testing.T) *DB {
	t.Helper()
	life, end := context.WithCancel(t.Context())
	db := &DB{
		config: Config{MaxLogBytes: 1 << 20, Timeout: 10 * time.Second, Logger: logr.Discard()}, keys: keyspace{"/p"},
		life: life, end: end, looking: make(chan struct{}, 1), suspected: make(chan struct{}, 1),
	}
	chosen := make(chan struct{})
	db.chosen.Store(&chosen)
	line, err := decodeTimeline([]byte(`[{"from":10,"base":1000}]`), 10)
	require.NoError(t, err)
	db.timeline.Store(line)
	db.seen.Store(12)
	db.feed = newFeed(db, 12)
	t.Cleanup(func() { end(); db.running.Wait() })
	return db
}

// Etcd sends a page as one message, so 500 large records never came within the time of an attempt, and
// their kind was never served.
func TestPagesOfLargeRecordsAreShorter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := bare(t)
		db.kv = clientv3.NewKVFromKVClient(newSlowEtcd(), nil)
		request := storage.ListRequest{Prefix: "/r/widgets/", Limit: 10_000}
		var keys []string
		for more := true; more; {
			page, err := db.List(t.Context(), request)
			require.NoError(t, err)
			require.NotEmpty(t, page.Records)
			for _, r := range page.Records {
				keys = append(keys, "/p/d"+r.Key)
			}
			request.After, more = page.Records[len(page.Records)-1].Key, page.More
		}
		require.Equal(t, newSlowEtcd().keys, keys)
		require.Equal(t, 15, db.sizes.records("/r/widgets/o/"), "16 MiB with what precedes each value")
		require.Equal(t, mostRecords, db.sizes.records("/r/gadgets/"))
	})
}

// lateWatch is an etcd whose watches answer after five seconds, as one does that has much to tell.
type lateWatch struct {
	clientv3.Watcher
	watches atomic.Int64
}

func (l *lateWatch) Watch(ctx context.Context, _ string, _ ...clientv3.OpOption) clientv3.WatchChan {
	l.watches.Add(1)
	responses := make(chan clientv3.WatchResponse)
	go func() {
		defer close(responses)
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
			return
		}
		change := &clientv3.Event{Type: clientv3.EventTypePut, Kv: &mvccpb.KeyValue{
			Key: []byte("/p/d/r/widgets/o/a"), Value: []byte(seal([]byte("v"), 0, 1)), ModRevision: 20, CreateRevision: 20,
		}}
		select {
		case responses <- clientv3.WatchResponse{Header: &etcdserverpb.ResponseHeader{Revision: 20}, Events: []*clientv3.Event{change}}:
		case <-ctx.Done():
			return
		}
		<-ctx.Done()
	}()
	return responses
}

func (l *lateWatch) RequestProgress(context.Context) error { return nil }

// A stream without an answer for two seconds is given up, because its member may be dead. If each one
// takes longer than that, none would ever answer.
func TestAStreamThatAnswersLateIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := bare(t)
		late := &lateWatch{}
		db.client = &clientv3.Client{Watcher: late}
		db.feed.owe("", 20)
		db.running.Go(db.feed.run)
		time.Sleep(30 * time.Second)
		require.Equal(t, int64(20), db.feed.position())
		require.Equal(t, int64(3), late.watches.Load())
		require.Equal(t, stallTime, db.feed.patience, "a member that dies now is noticed soon")
		db.end()
		db.running.Wait()
	})
}

// largePast is an etcd with three changes of 16 MiB in its history, which it tells one by one.
type largePast struct{ clientv3.Watcher }

func (largePast) Watch(ctx context.Context, _ string, _ ...clientv3.OpOption) clientv3.WatchChan {
	responses := make(chan clientv3.WatchResponse, 3)
	large := make([]byte, pageBytes)
	for mod := int64(15); mod < 18; mod++ {
		change := &clientv3.Event{Kv: &mvccpb.KeyValue{Key: []byte("/p/d/r/widgets/o/a"), Value: large, ModRevision: mod}}
		responses <- clientv3.WatchResponse{Header: &etcdserverpb.ResponseHeader{Revision: 20}, Events: []*clientv3.Event{change}}
	}
	context.AfterFunc(ctx, func() { close(responses) })
	return responses
}

func (largePast) RequestProgress(context.Context) error { return nil }

// A reader that is behind has ten seconds for a page. Pages of 2,000 large changes took longer, each
// time from the beginning.
func TestPagesOfLargeChangesAreShorter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := bare(t)
		db.client = &clientv3.Client{Watcher: largePast{}}
		events, reached, err := db.events(t.Context(), scope{"/p/d/", "/p/d0"}, 13, 18, 1000, false)
		require.NoError(t, err)
		require.Len(t, events, 1)
		require.Equal(t, int64(15), reached)
		events, reached, err = db.events(t.Context(), scope{"/p/d/", "/p/d0"}, 13, 17, 0, false)
		require.NoError(t, err)
		require.Len(t, events, 3, "who has to know all of them gets them")
		require.Equal(t, int64(17), reached)
		synctest.Wait()
	})
}
