package etcd

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kindwright/kindwright/storage"
)

// Advance gives later revisions a higher base, unless the current one is high enough. All servers
// that have the store open learn of it before their next read or commit.
func (db *DB) Advance(ctx context.Context, to storage.Revision) error {
	ctx, cancel, err := db.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	for p := newPauses(); ; {
		m, err := db.now(ctx)
		if err != nil || m.revision >= to {
			return err
		}
		if err := storage.CheckStart(to); err != nil {
			return err
		}
		t := db.timeline.Load()
		value, err := t.advanced(baseFor(to, m.mod))
		if err != nil {
			return err
		}
		op := clientv3.OpTxn([]clientv3.Cmp{t.unchanged(db.keys)},
			[]clientv3.Op{clientv3.OpPut(db.keys.base(), string(value))}, []clientv3.Op{clientv3.OpGet(db.keys.base())})
		resp, _, err := db.txn(ctx, p.limit, op)
		switch {
		case err == nil && resp.Succeeded: // the next read learns it
		case err == nil:
			err = db.relearn(t, resp.Responses[0].GetResponseRange())
		case transient(err): // a repetition finds out whether it has happened
			if db.pause(ctx, p, err) {
				continue
			}
		}
		if err != nil {
			return db.translate(ctx, err)
		}
	}
}

// baseFor returns a base with which the revision after mod is at least a given one.
func baseFor(rev storage.Revision, mod int64) uint64 {
	past := perCommit * uint64(mod+1)
	if uint64(rev) < past {
		return 0
	}
	return uint64(rev) - past
}

// Holds returns ErrCompacted for revisions that an older copy of etcd's data took the place of.
func (db *DB) Holds(ctx context.Context, rev storage.Revision) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := db.ended(); err != nil {
		return err
	}
	t := db.timeline.Load()
	if rev < t.first() {
		return nil
	}
	_, err := t.locate(rev)
	if errors.Is(err, storage.ErrFutureRevision) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: revision %d is not in the history of this store", err, rev)
	}
	return nil
}
