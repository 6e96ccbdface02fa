package etcd

import (
	"context"
	"encoding/json"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kindwright/kindwright/storage"
)

// Import writes records of another store, with the revisions that they had there; see
// [storage.Importer]. A value in etcd then begins with the revision itself, as its place in a
// transaction says nothing.
func (db *DB) Import(ctx context.Context, i storage.Import) error {
	ctx, cancel, err := db.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	ops, err := db.importing(i)
	if err == nil && len(ops) > 0 {
		err = db.bring(ctx, ops)
	}
	if err == nil && i.Above > 0 {
		err = db.beginAnew(ctx, i.Above)
	}
	return err
}

// importing returns the operations of an import, or why it is refused.
func (db *DB) importing(i storage.Import) ([]clientv3.Op, error) {
	if err := i.Check(); err != nil {
		return nil, err
	}
	limits, bytes := db.Limits(), 0
	if n := len(i.Put) + len(i.Delete); n > limits.MaxOps {
		return nil, fmt.Errorf("%w: import of %d records, the limit is %d", storage.ErrTooLarge, n, limits.MaxOps)
	}
	ops := make([]clientv3.Op, 0, len(i.Put)+len(i.Delete))
	for _, r := range i.Put {
		bytes += len(r.Key) + len(r.Value)
		if len(r.Value) > limits.MaxValueBytes || bytes > limits.MaxCommitBytes {
			return nil, fmt.Errorf("%w: import of %d bytes, the limit is %d", storage.ErrTooLarge, bytes, limits.MaxCommitBytes)
		}
		ops = append(ops, clientv3.OpPut(db.keys.data(r.Key), sealForeign(r.Value, r.Revision)))
	}
	for _, key := range i.Delete {
		ops = append(ops, clientv3.OpDelete(db.keys.data(key)))
	}
	return ops, nil
}

// bring writes operations that may be repeated, but not later: a repetition that comes after the next import would take
// that back. So an attempt without an answer, also of an earlier call, is fenced off before the next one.
func (db *DB) bring(ctx context.Context, ops []clientv3.Op) error {
	mark := db.mark.Load()
	if mark != nil {
		ops = append(ops, clientv3.OpPut(db.keys.owner(), *mark))
	}
	uncertain := false
	for p := newPauses(); ; {
		if err := db.fence(ctx, db.stray.Load()); err != nil {
			return outcome(uncertain, err)
		}
		t := db.timeline.Load()
		resp, sent, err := db.txn(ctx, p.limit, clientv3.OpTxn([]clientv3.Cmp{t.unchanged(db.keys)}, ops,
			[]clientv3.Op{clientv3.OpGet(db.keys.base())}))
		if err != nil && sent && !refusedUnread(err) {
			uncertain = true
			raise(&db.stray, t.stored)
		}
		switch {
		case err == nil && resp.Succeeded:
			db.mark.CompareAndSwap(mark, nil)
			return nil
		case err == nil:
			err = db.relearn(t, resp.Responses[0].GetResponseRange())
		case transient(err):
			if db.pause(ctx, p, err) {
				continue
			}
		}
		if err != nil {
			return outcome(uncertain, db.translate(ctx, err))
		}
	}
}

// outcome is the error of a write that may have happened if it is uncertain.
func outcome(uncertain bool, err error) error {
	if !uncertain {
		return err
	}
	return fmt.Errorf("%w: %w", storage.ErrUnknownOutcome, err)
}

// beginAnew replaces the timeline with one that begins now, above a revision and above all that the
// store has given out. Whatever was before is not in it, so it counts as compacted.
func (db *DB) beginAnew(ctx context.Context, above storage.Revision) error {
	first := db.timeline.Load().stored
	for p := newPauses(); ; {
		m, err := db.now(ctx)
		if err != nil {
			return err
		}
		t := db.timeline.Load()
		if t.stored != first && len(t.epochs) == 1 && t.first() > above {
			return nil // an attempt without an answer has happened
		}
		value, err := json.Marshal([]epoch{{Base: baseFor(max(above, m.revision)+1, m.mod)}})
		if err != nil {
			return err
		}
		resp, _, err := db.txn(ctx, p.limit, clientv3.OpTxn([]clientv3.Cmp{t.unchanged(db.keys)},
			[]clientv3.Op{clientv3.OpPut(db.keys.base(), string(value))}, []clientv3.Op{clientv3.OpGet(db.keys.base())}))
		switch {
		case err == nil && resp.Succeeded: // the next round learns it
		case err == nil:
			err = db.relearn(t, resp.Responses[0].GetResponseRange())
		case transient(err):
			if db.pause(ctx, p, err) {
				continue
			}
		}
		if err != nil {
			return db.translate(ctx, err)
		}
	}
}
