package etcd

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kindwright/kindwright/storage"
)

// Commit applies all operations in one transaction of etcd.
//
// A lost answer leaves open whether the transaction happened, and whether it will. If a change expects
// a revision, it is sent again, since both cannot succeed; see the comment of settle. Otherwise a
// fence makes sure that it does not happen any more, and the history says whether it did. What remains
// is ErrUnknownOutcome: for a commit of deletions alone, and if there is no time for that.
func (db *DB) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	ctx, cancel, err := db.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer cancel()
	c := newCommit(db, ops)
	if c.comparisons() > perCommit {
		if err := c.readExpected(ctx); err != nil {
			return 0, db.translate(ctx, err)
		}
	}
	for p := newPauses(); ; {
		rev, err := c.attempt(ctx, p.limit)
		switch {
		case err == nil:
			return rev, nil
		case errors.Is(err, errAgain):
			continue
		case errors.Is(err, rpctypes.ErrNoSpace):
			// Etcd says so of the transaction that exceeds the space, too, and that one it has applied.
			rev, unknown := c.applied(ctx)
			if unknown == nil && rev != 0 {
				return rev, nil
			}
			c.uncertain = c.uncertain || unknown != nil
		case transient(err):
			if !db.pause(ctx, p, err) {
				break
			}
			if !c.uncertain || c.pinned {
				continue
			}
			if rev, err = c.fenced(ctx); err == nil && rev != 0 {
				return rev, nil
			}
			if err == nil {
				continue
			}
		}
		return 0, outcome(c.uncertain, db.translate(ctx, err))
	}
}

// errAgain says that a refused transaction is to be made again, in another form.
var errAgain = errors.New("make the transaction again")

// commit is a commit on its way.
type commit struct {
	db    *DB
	ops   []storage.Op
	below []uint8 // by operation: how far its revision lies below the last one
	width int     // how many revisions the commit takes
	nonce nonce
	mark  *string // written as the owner, unless nil
	start int64   // a revision of etcd from before the first attempt

	joined bool // the first attempt, which may share a transaction, has been made

	// pinned: some change expects a revision, which no key has twice, so that the transaction cannot
	// happen twice. A key can be absent twice.
	pinned bool

	puts bool // some change leaves the nonce

	// verified: the records that are expected have been read, at these revisions of etcd, which are
	// all that needs to be compared. By operation; nil before that.
	verified []int64

	// uncertain: an attempt had no answer, so that it may have happened. If so, it compared a base
	// that was stored at the revision doubt or before.
	uncertain bool
	doubt     int64
}

func newCommit(db *DB, ops []storage.Op) *commit {
	c := &commit{db: db, ops: ops, below: make([]uint8, len(ops)), nonce: newNonce(), start: db.seen.Load(), width: 1}
	for i := range ops {
		if ops[i].Type == storage.OpCheck {
			continue
		}
		c.pinned = c.pinned || ops[i].Expect != storage.Any && ops[i].Expect != storage.Absent
		if ops[i].Type == storage.OpPut { // a deletion may change nothing
			c.puts, c.mark = true, db.mark.Load()
		}
		// Distances from an arbitrary last revision: of the operation, and of the first one.
		distance := lastOfAll - storage.RevisionOf(ops, i, lastOfAll)
		c.below[i] = uint8(distance)
		c.width = max(c.width, int(distance)+1)
	}
	return c
}

const lastOfAll storage.Revision = 1 << 20

// comparisons is how many comparisons an unverified transaction has.
func (c *commit) comparisons() int {
	n := 1
	for i := range c.ops {
		if c.ops[i].Expect != storage.Any {
			n += 3
		}
	}
	return n
}

// transaction returns the commit as one operation of etcd. If a comparison fails, it reads all keys
// that it compares.
func (c *commit) transaction(t *timeline, s seat) clientv3.Op {
	keys := c.db.keys
	compare := []clientv3.Cmp{t.unchanged(keys)}
	otherwise := []clientv3.Op{clientv3.OpGet(keys.base())}
	var then []clientv3.Op
	for i := range c.ops {
		op := &c.ops[i]
		key := keys.data(op.Key)
		switch {
		case op.Expect != storage.Any && c.verified != nil:
			compare = append(compare, clientv3.Compare(clientv3.ModRevision(key), "=", c.verified[i]))
		default:
			compare = append(compare, expected(t, key, op.Expect)...)
		}
		switch op.Type {
		case storage.OpPut:
			then = append(then, clientv3.OpPut(key, seal(op.Value, c.below[i]+s.shift, c.nonce.of(s.shared))))
		case storage.OpDelete:
			then = append(then, clientv3.OpDelete(key))
		}
		otherwise = append(otherwise, clientv3.OpGet(key))
	}
	if c.mark != nil {
		then = append(then, clientv3.OpPut(keys.owner(), *c.mark))
	}
	if c.width > 1 {
		then = append(then, clientv3.OpPut(keys.wide(), strconv.Itoa(c.width)))
	}
	return clientv3.OpTxn(compare, then, otherwise)
}

// expected returns the comparisons for an expectation: the revision of etcd, and the first byte of
// the value, which tells records of one commit apart. Only records that were imported have revisions
// from before the store; their values begin with them.
func expected(t *timeline, key string, e storage.Expect) []clientv3.Cmp {
	switch e {
	case storage.Any:
		return nil
	case storage.Absent:
		return []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", 0)}
	}
	if rev := storage.Revision(e); rev < t.first() {
		return []clientv3.Cmp{
			clientv3.Compare(clientv3.Value(key), ">", foreignPrefix(rev)),
			clientv3.Compare(clientv3.Value(key), "<", foreignPrefix(rev+1)),
		}
	}
	p, err := t.locate(storage.Revision(e))
	if err != nil {
		p.mod = never
	}
	compare := []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(key), "=", p.mod),
		clientv3.Compare(clientv3.Value(key), "<", string([]byte{p.below + 1})),
	}
	if p.below > 0 {
		compare = append(compare, clientv3.Compare(clientv3.Value(key), ">", string([]byte{p.below})))
	}
	return compare
}

// never is the revision of no record in etcd.
const never = -1

// attempt makes one attempt. The first one may share a transaction with other commits.
func (c *commit) attempt(ctx context.Context, limit time.Duration) (storage.Revision, error) {
	if c.joined || !c.joins() {
		return c.try(ctx, limit)
	}
	c.joined = true
	return c.db.groups.try(ctx, c)
}

// try makes one attempt alone.
func (c *commit) try(ctx context.Context, limit time.Duration) (storage.Revision, error) {
	t := c.db.timeline.Load()
	if !c.pinned && !c.puts {
		limit = c.db.config.Timeout // there is only one attempt
	}
	resp, sent, err := c.db.txn(ctx, limit, c.transaction(t, seat{}))
	if err != nil {
		c.failed(t, sent, err)
		return 0, err
	}
	return c.answered(ctx, t, seat{}, resp)
}

// failed notes that an attempt that compared the base of a timeline had no answer.
func (c *commit) failed(t *timeline, sent bool, err error) {
	if sent && !refusedUnread(err) {
		c.uncertain, c.doubt = true, max(c.doubt, t.stored)
	}
}

// answered is what the answer to an attempt means.
func (c *commit) answered(ctx context.Context, t *timeline, s seat, resp *clientv3.TxnResponse) (storage.Revision, error) {
	if resp.Succeeded {
		c.db.mark.CompareAndSwap(c.mark, nil)
		return t.last(resp.Header.Revision) - storage.Revision(s.shift), nil
	}
	return c.refused(ctx, t, resp)
}

// refused finds out why a comparison failed.
func (c *commit) refused(ctx context.Context, t *timeline, resp *clientv3.TxnResponse) (storage.Revision, error) {
	found := resp.Responses
	base := found[0].GetResponseRange()
	if len(base.Kvs) == 0 || base.Kvs[0].ModRevision != t.stored {
		if err := c.db.relearn(t, base); err != nil {
			return 0, err
		}
		return 0, errAgain
	}
	if c.uncertain && !c.superseded(t, found[1:]) {
		rev, err := c.fenced(ctx)
		if rev == 0 && err == nil {
			err = errAgain
		}
		return rev, err
	}
	if c.uncertain {
		rev, err := c.settle(ctx, found[1:], resp.Header.Revision)
		if rev != 0 || err != nil {
			return rev, err
		}
		c.uncertain = false
	}
	if conflict := c.conflict(t, found[1:]); conflict != nil {
		return 0, conflict
	}
	// Only values differ that are not ours.
	c.verify(found[1:])
	return 0, errAgain
}

// conflict returns the first operation whose expectation does not hold for the records found.
func (c *commit) conflict(t *timeline, found []*etcdserverpb.ResponseOp) error {
	for i := range c.ops {
		var actual storage.Revision
		if kvs := found[i].GetResponseRange().Kvs; len(kvs) > 0 {
			actual = t.record(c.ops[i].Key, kvs[0]).Revision
		}
		if !c.ops[i].Expect.Holds(actual) {
			return &storage.ConflictError{Key: c.ops[i].Key, Expected: c.ops[i].Expect, Actual: actual}
		}
	}
	return nil
}

// verify takes note of where in etcd the records are that the commit expects: their values cannot
// change while that stays.
func (c *commit) verify(found []*etcdserverpb.ResponseOp) {
	c.verified = make([]int64, len(c.ops))
	for i := range c.ops {
		if kvs := found[i].GetResponseRange().Kvs; len(kvs) > 0 {
			c.verified[i] = kvs[0].ModRevision
		}
	}
}

// readExpected reads the records that the commit expects. It is for commits with more comparisons
// than a transaction may have.
func (c *commit) readExpected(ctx context.Context) error {
	found, _, t, err := c.find(ctx)
	if err != nil {
		return err
	}
	if err := c.conflict(t, found); err != nil {
		return err
	}
	c.verify(found)
	return nil
}

// find reads the records of all keys of the commit.
func (c *commit) find(ctx context.Context) ([]*etcdserverpb.ResponseOp, int64, *timeline, error) {
	ops := make([]clientv3.Op, len(c.ops))
	for i := range c.ops {
		ops[i] = clientv3.OpGet(c.db.keys.data(c.ops[i].Key))
	}
	ranges, now, t, err := c.db.read(ctx, ops...)
	if err != nil {
		return nil, 0, nil, err
	}
	found := make([]*etcdserverpb.ResponseOp, len(ranges))
	for i, r := range ranges {
		found[i] = &etcdserverpb.ResponseOp{Response: &etcdserverpb.ResponseOp_ResponseRange{ResponseRange: r}}
	}
	return found, now, t, nil
}

// superseded reports whether a key has another revision than a change of the commit expects. No key
// has a revision twice, so the commit can never happen any more.
func (c *commit) superseded(t *timeline, found []*etcdserverpb.ResponseOp) bool {
	for i := range c.ops {
		if e := c.ops[i].Expect; e == storage.Any || e == storage.Absent {
			continue
		}
		kvs := found[i].GetResponseRange().Kvs
		if len(kvs) == 0 || !c.ops[i].Expect.Holds(t.record(c.ops[i].Key, kvs[0]).Revision) {
			return true
		}
	}
	return false
}

// fenced finds out whether an attempt without an answer has happened, after it made sure that none will
// happen any more. It returns the revision of the commit if one did, or 0.
func (c *commit) fenced(ctx context.Context) (storage.Revision, error) {
	if !c.puts {
		return 0, storage.ErrUnknownOutcome
	}
	if err := c.db.fence(ctx, c.doubt); err != nil {
		return 0, err
	}
	rev, err := c.applied(ctx)
	if err == nil && rev == 0 {
		c.uncertain = false
	}
	return rev, err
}

// applied returns the revision of the commit if an attempt has happened until now, or 0.
func (c *commit) applied(ctx context.Context) (storage.Revision, error) {
	found, now, _, err := c.find(ctx)
	if err != nil {
		return 0, err
	}
	return c.settle(ctx, found, now)
}

// settle finds out whether an attempt without an answer has happened, once a later one was refused.
// It returns the revision of the commit if it did, or 0.
//
// The refusal is final: a key has left the revision that the commit expects, or a fence has been set.
// So nothing of the commit can happen any more. It has happened if a value in etcd bears its number,
// or bore it since the first attempt. A commit of deletions alone leaves no number; then nobody knows.
func (c *commit) settle(ctx context.Context, found []*etcdserverpb.ResponseOp, now int64) (storage.Revision, error) {
	written := -1
	for i := range c.ops {
		if c.ops[i].Type != storage.OpPut {
			continue
		}
		written = i
		if kvs := found[i].GetResponseRange().Kvs; len(kvs) > 0 && c.wrote(kvs[0]) {
			return c.revision(i, kvs[0]), nil
		}
	}
	if written < 0 {
		return 0, storage.ErrUnknownOutcome
	}
	key := c.db.keys.data(c.ops[written].Key)
	events, _, err := c.db.events(ctx, scope{begin: key, end: key + "\x00"}, c.start+1, now, 0, false)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(events, func(e *clientv3.Event) bool { return e.Type == clientv3.EventTypePut && c.wrote(e.Kv) })
	if i < 0 {
		return 0, nil
	}
	return c.revision(written, events[i].Kv), nil
}

// wrote reports whether the commit wrote a value.
func (c *commit) wrote(kv *mvccpb.KeyValue) bool {
	_, _, n, err := open(kv.Value)
	return err == nil && n.of(false) == c.nonce
}

// revision is that of the commit, by the value that its i-th operation wrote.
func (c *commit) revision(i int, kv *mvccpb.KeyValue) storage.Revision {
	return c.db.timeline.Load().record(c.ops[i].Key, kv).Revision + storage.Revision(c.below[i])
}
