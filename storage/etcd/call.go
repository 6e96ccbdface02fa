package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/kindwright/kindwright/storage"
)

// A call to etcd is one or more attempts. An attempt without an answer is given up after a while,
// because the next one may go to another member. Between attempts is a short pause. Both grow.
const (
	firstLimit   = time.Second
	longestLimit = 4 * time.Second
	firstPause   = 10 * time.Millisecond
	longestPause = 250 * time.Millisecond
)

// attempt notes whether a request has left this process. gRPC's errors do not say so.
type attempt struct{ sent atomic.Bool }

type attemptKey struct{}

// sending is the handler of gRPC's events that fills in attempts.
type sending struct{}

var _ stats.Handler = sending{}

func (sending) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (sending) HandleRPC(ctx context.Context, event stats.RPCStats) {
	if _, ok := event.(*stats.OutHeader); ok {
		if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
			a.sent.Store(true)
		}
	}
}

func (sending) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (sending) HandleConn(context.Context, stats.ConnStats) {}

// errLate is why a context ends whose call has taken longer than Config.Timeout.
var errLate = errors.New("no answer within the timeout")

// impatient does not wait for connections: a call that cannot be sent is told at once why. Etcd's client
// would wait until the call's deadline and then know nothing.
type impatient struct{ etcdserverpb.KVClient }

func (i impatient) Txn(ctx context.Context, r *etcdserverpb.TxnRequest, o ...grpc.CallOption) (*etcdserverpb.TxnResponse, error) {
	return i.KVClient.Txn(ctx, r, append(o, grpc.WaitForReady(false))...)
}

func (i impatient) Compact(ctx context.Context, r *etcdserverpb.CompactionRequest, o ...grpc.CallOption) (*etcdserverpb.CompactionResponse, error) {
	return i.KVClient.Compact(ctx, r, append(o, grpc.WaitForReady(false))...)
}

// status asks one member how it is.
func (db *DB) status(ctx context.Context, endpoint string) (*etcdserverpb.StatusResponse, error) {
	conn, err := db.client.Dial(endpoint)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	s, err := etcdserverpb.NewMaintenanceClient(conn).Status(ctx, &etcdserverpb.StatusRequest{}, grpc.WaitForReady(false))
	return s, clientv3.ContextError(ctx, err)
}

// begin returns the context of a call, which Close and Config.Timeout end too. It fails if there is
// no need to begin.
func (db *DB) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if err := db.ended(); err != nil {
		return nil, nil, err
	}
	closing, cancel := context.WithCancelCause(clientv3.WithRequireLeader(ctx))
	stop := context.AfterFunc(db.life, func() { cancel(storage.ErrClosed) })
	inner, cancelTimer := context.WithTimeoutCause(closing, db.patience(), errLate)
	return inner, func() { stop(); cancelTimer(); cancel(nil) }, nil
}

// ended returns why the store takes no more calls, or nil.
func (db *DB) ended() error {
	if err := db.Healthy(); err != nil {
		return err
	}
	if db.life.Err() != nil {
		return storage.ErrClosed
	}
	return nil
}

// txn makes one attempt of a transaction. sent says whether it may have reached etcd.
func (db *DB) txn(ctx context.Context, limit time.Duration, op clientv3.Op) (resp *clientv3.TxnResponse, sent bool, err error) {
	seen := db.seen.Load()
	a := &attempt{}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, attemptKey{}, a), limit)
	defer cancel()
	if resp, err = db.do(ctx, op); err != nil {
		return nil, a.sent.Load(), err
	}
	if err := db.observe(resp.Header, seen); err != nil {
		return nil, true, err
	}
	return resp, true, nil
}

// do sends a transaction once. An answer of another form than the question is none: whatever it was that gave it,
// the transaction may have happened.
func (db *DB) do(ctx context.Context, op clientv3.Op) (*clientv3.TxnResponse, error) {
	answer, err := db.kv.Do(ctx, op)
	if err != nil {
		return nil, err
	}
	resp := answer.Txn()
	if resp == nil || resp.Header == nil || !answers((*etcdserverpb.TxnResponse)(resp), op) {
		return nil, errOtherForm
	}
	return resp, nil
}

var errOtherForm = status.Error(codes.Unavailable, "the answer has another form than the question: is it etcd that listens there?")

// answers reports whether an answer has a part for each part of the transaction that was carried out.
func answers(r *etcdserverpb.TxnResponse, to clientv3.Op) bool {
	compared, asked, otherwise := to.Txn()
	switch {
	case r == nil || !r.Succeeded && len(compared) == 0:
		return false
	case !r.Succeeded:
		asked = otherwise
	}
	return slices.EqualFunc(r.Responses, asked, func(part *etcdserverpb.ResponseOp, of clientv3.Op) bool {
		switch {
		case of.IsGet():
			return part.GetResponseRange() != nil
		case of.IsPut():
			return part.GetResponsePut() != nil
		case of.IsDelete():
			return part.GetResponseDeleteRange() != nil
		}
		return answers(part.GetResponseTxn(), of)
	})
}

// observe takes note of the header of a linearizable answer. seen is what had been seen before the
// request: etcd cannot be older than that, unless it was replaced.
func (db *DB) observe(h *etcdserverpb.ResponseHeader, seen int64) error {
	switch {
	case h.ClusterId != db.cluster:
		return db.fail(fmt.Errorf("the endpoints led to cluster %x before, and lead to cluster %x now: %s", db.cluster, h.ClusterId, restoredAdvice))
	case h.Revision < seen:
		return db.fail(fmt.Errorf("etcd went back from its revision %d to %d, so it lost its past: %s", seen, h.Revision, restoredAdvice))
	}
	raise(&db.seen, h.Revision)
	return nil
}

// raise stores the higher one of two revisions.
func raise(a *atomic.Int64, mod int64) {
	for {
		old := a.Load()
		if old >= mod || a.CompareAndSwap(old, mod) {
			return
		}
	}
}

const restoredAdvice = "if it was restored from a backup or moved, stop all servers and start one of them once with " +
	"Restored set (--etcd-restored), so that no revision is given out twice"

// fail ends the store for good.
func (db *DB) fail(reason error) error {
	reason = fmt.Errorf("%w: %w", storage.ErrClosed, reason)
	if db.failure.CompareAndSwap(nil, &reason) {
		db.config.Logger.Error(reason, "the store in etcd is refused")
		db.feed.interrupt()
	}
	return *db.failure.Load()
}

// read runs range requests in one linearizable transaction. It returns their answers and the timeline
// in force. It repeats what was not answered until the context of the call ends.
func (db *DB) read(ctx context.Context, ops ...clientv3.Op) ([]*etcdserverpb.RangeResponse, int64, *timeline, error) {
	return db.readLess(ctx, func(int) []clientv3.Op { return ops })
}

// readLess is read with requests that can be smaller, by how many attempts had no answer in their time:
// it may be that there is too much to answer.
func (db *DB) readLess(ctx context.Context, ops func(late int) []clientv3.Op) ([]*etcdserverpb.RangeResponse, int64, *timeline, error) {
	late := 0
	for p := newPauses(); ; {
		t := db.timeline.Load()
		op := clientv3.OpTxn([]clientv3.Cmp{t.unchanged(db.keys)}, ops(late), []clientv3.Op{clientv3.OpGet(db.keys.base())})
		resp, _, err := db.txn(ctx, p.limit, op)
		switch {
		case err == nil && resp.Succeeded:
			ranges := make([]*etcdserverpb.RangeResponse, len(resp.Responses))
			for i, r := range resp.Responses {
				ranges[i] = r.GetResponseRange()
			}
			return ranges, resp.Header.Revision, t, nil
		case err == nil:
			err = db.relearn(t, resp.Responses[0].GetResponseRange())
		case transient(err):
			if tooLate(err) {
				late++
			}
			if db.pause(ctx, p, err) {
				continue
			}
		}
		if err != nil {
			return nil, 0, nil, db.translate(ctx, err)
		}
	}
}

// relearn is learn for the answer to a request that compared the base of a timeline, and was
// refused.
func (db *DB) relearn(t *timeline, r *etcdserverpb.RangeResponse) error {
	if len(r.Kvs) > 0 && r.Kvs[0].ModRevision < t.stored {
		return db.fail(fmt.Errorf("%s was stored at etcd's revision %d before and at %d now, "+
			"so etcd lost its past: %s", db.keys.base(), t.stored, r.Kvs[0].ModRevision, restoredAdvice))
	}
	return db.learn(r)
}

// learn takes over the timeline that etcd has.
func (db *DB) learn(r *etcdserverpb.RangeResponse) error {
	if len(r.Kvs) == 0 {
		return db.fail(fmt.Errorf("%s is gone from etcd: somebody deleted a part of the store; restore etcd from a backup", db.keys.base()))
	}
	t, err := decodeTimeline(r.Kvs[0].Value, r.Kvs[0].ModRevision)
	if err != nil {
		return db.fail(fmt.Errorf("%s cannot be read (%w): restore etcd from a backup", db.keys.base(), err))
	}
	for {
		old := db.timeline.Load()
		if old.stored >= t.stored {
			return nil
		}
		passed := db.feed.passed(t.stored) // it learns before it passes
		if !db.timeline.CompareAndSwap(old, t) {
			continue
		}
		if passed {
			return db.fail(fmt.Errorf("%s was stored at etcd's revision %d, at which there was "+
				"something else before, so etcd lost its past: %s", db.keys.base(), t.stored, restoredAdvice))
		}
		return nil
	}
}

// unchanged compares the timeline in etcd with this one.
func (t *timeline) unchanged(keys keyspace) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(keys.base()), "=", t.stored)
}

// transient reports whether the same request may succeed soon.
func transient(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true // of the attempt; the call's own end is looked at apart
	}
	for _, e := range []error{
		rpctypes.ErrNoLeader, rpctypes.ErrNotLeader, rpctypes.ErrLeaderChanged, rpctypes.ErrStopped, rpctypes.ErrTimeout,
		rpctypes.ErrTimeoutDueToLeaderFail, rpctypes.ErrTimeoutDueToConnectionLost, rpctypes.ErrTimeoutWaitAppliedIndex,
		rpctypes.ErrUnhealthy, rpctypes.ErrTooManyRequests, rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	switch code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return true
	case codes.Internal: // gRPC says so of streams that break; etcd does not use it
		return true
	}
	return strings.Contains(err.Error(), dropped) || strings.Contains(err.Error(), notGRPC)
}

// notGRPC is what gRPC says of an answer by something between here and etcd.
const notGRPC = "unexpected HTTP status code received from server"

// dropped is what etcd says to a proposal that it did not even begin with.
const dropped = "raft proposal dropped"

// refusedUnread reports whether etcd refused a transaction without looking at it.
func refusedUnread(err error) bool {
	for _, e := range []error{
		rpctypes.ErrNoLeader, rpctypes.ErrNotLeader, rpctypes.ErrTooManyRequests, rpctypes.ErrInvalidAuthToken,
		rpctypes.ErrAuthOldRevision, rpctypes.ErrNoSpace, rpctypes.ErrCorrupt, rpctypes.ErrPermissionDenied,
		rpctypes.ErrUserEmpty, rpctypes.ErrRequestTooLarge, rpctypes.ErrTooManyOps, rpctypes.ErrAuthFailed,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	switch code(err) {
	case codes.ResourceExhausted, codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.FailedPrecondition:
		return true
	}
	return strings.Contains(err.Error(), dropped)
}

// code is the gRPC code of an error.
func code(err error) codes.Code {
	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		return known.Code()
	}
	return status.Code(err)
}

// translate turns an error of etcd into one of package storage. ctx is the context of the call.
func (db *DB) translate(ctx context.Context, err error) error {
	switch {
	case translated(err):
		return err
	case db.ended() != nil:
		return db.ended()
	case errors.Is(err, rpctypes.ErrCompacted):
		return storage.ErrCompacted
	case errors.Is(err, rpctypes.ErrFutureRev):
		return storage.ErrFutureRevision
	case errors.Is(err, rpctypes.ErrNoSpace):
		db.suspect()
		return fmt.Errorf("%w: etcd is out of space (NOSPACE): compact and defragment it, then disarm the alarm", storage.ErrUnavailable)
	case errors.Is(err, rpctypes.ErrCorrupt):
		db.suspect()
		return fmt.Errorf("%w: etcd found its data corrupt (CORRUPT): replace the damaged member, then disarm the alarm", storage.ErrUnavailable)
	case errors.Is(err, rpctypes.ErrRequestTooLarge), errors.Is(err, rpctypes.ErrTooManyOps),
		code(err) == codes.ResourceExhausted && !errors.Is(err, rpctypes.ErrTooManyRequests):
		return fmt.Errorf("%w: %w", storage.ErrTooLarge, err)
	case refusedUser(err):
		db.suspect()
		return fmt.Errorf("%w: etcd: %w%s", storage.ErrUnavailable, plain(err), db.config.advice(err))
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), errLate):
		return ctx.Err()
	case transient(err):
		return fmt.Errorf("%w: etcd: %w", storage.ErrUnavailable, plain(err))
	}
	return fmt.Errorf("etcd: %w", err)
}

// refusedUser reports whether etcd refuses who asks, whatever it is asked. Somebody has changed a
// password or a role while this server runs, and can change it back, so that is not an error of one
// request.
func refusedUser(err error) bool {
	return slices.ContainsFunc([]error{
		rpctypes.ErrAuthFailed, rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound,
		rpctypes.ErrPermissionDenied,
	}, func(e error) bool { return errors.Is(err, e) })
}

// explain is translate with what to do about the error.
func (db *DB) explain(ctx context.Context, err error) error {
	told := db.translate(ctx, err)
	if refusedUser(err) {
		return told // has it already
	}
	return fmt.Errorf("%w%s", told, db.config.advice(err))
}

// translated reports whether an error is already one of package storage.
func translated(err error) bool {
	var conflict *storage.ConflictError
	return errors.As(err, &conflict) || errors.Is(err, storage.ErrClosed) || errors.Is(err, storage.ErrUnavailable) ||
		errors.Is(err, storage.ErrCompacted) || errors.Is(err, storage.ErrFutureRevision) || errors.Is(err, storage.ErrUnknownOutcome)
}

// plain is an error without its identity, so that an attempt that was given up does not look like the
// end of the caller's context.
func plain(err error) error { return errors.New(err.Error()) }

// pause waits before the next attempt. After one without any answer it waits until it is known which
// members serve, or the next attempt may go to the same one. It returns false if the context ends first.
func (db *DB) pause(ctx context.Context, p *pauses, err error) bool {
	chosen := db.suspect()
	if tooLate(err) {
		late := time.NewTimer(2 * others)
		defer late.Stop()
		select {
		case <-chosen:
		case <-late.C:
		case <-ctx.Done():
			return false
		}
	}
	return p.wait(ctx)
}

// tooLate reports whether an attempt was given up because its time was over.
func tooLate(err error) bool {
	return code(err) == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded)
}

// pauses are the waits between the attempts of a call, and how long an attempt may take.
type pauses struct{ next, limit time.Duration }

func newPauses() *pauses { return &pauses{next: firstPause, limit: firstLimit} }

// wait returns false if the context ends first.
func (p *pauses) wait(ctx context.Context) bool {
	t := time.NewTimer(p.next)
	defer t.Stop()
	// The first three attempts are short: by their end it is known which members serve, and mostly
	// there is a new leader.
	if p.next > 2*firstPause {
		p.limit = min(2*p.limit, longestLimit)
	}
	p.next = min(2*p.next, longestPause)
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
