package etcd

import (
	"context"
	"encoding/json"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// fence makes sure that no transaction happens any more that compares the base as it was stored at a
// revision of etcd or before. It stores the same base again, unless somebody has. All servers learn of
// that by the refusal of their next call, which they repeat at once.
func (db *DB) fence(ctx context.Context, stored int64) error {
	for p := newPauses(); ; {
		t := db.timeline.Load()
		if t.stored > stored {
			return nil
		}
		value, err := json.Marshal(t.epochs)
		if err != nil {
			return err
		}
		op := clientv3.OpTxn([]clientv3.Cmp{t.unchanged(db.keys)},
			[]clientv3.Op{clientv3.OpPut(db.keys.base(), string(value)), clientv3.OpGet(db.keys.base())},
			[]clientv3.Op{clientv3.OpGet(db.keys.base())})
		resp, _, err := db.txn(ctx, p.limit, op)
		switch {
		case err == nil:
			err = db.relearn(t, resp.Responses[len(resp.Responses)-1].GetResponseRange())
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
