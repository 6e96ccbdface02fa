package etcd

import (
	"context"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kindwright/kindwright/storage"
)

// Get reads one key from a member that has asked the leader how far it must be.
func (db *DB) Get(ctx context.Context, key string) (storage.Record, error) {
	ctx, cancel, err := db.begin(ctx)
	if err != nil {
		return storage.Record{}, err
	}
	defer cancel()
	ranges, _, t, err := db.read(ctx, clientv3.OpGet(db.keys.data(key)))
	if err != nil {
		return storage.Record{}, err
	}
	if len(ranges[0].Kvs) == 0 {
		return storage.Record{}, storage.ErrNotFound
	}
	r := t.record(key, ranges[0].Kvs[0])
	return r, r.Err
}

// mostRecords is how many records a page has at most. Etcd sends a page as one message.
const mostRecords = 500

// List reads one page.
func (db *DB) List(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
	ctx, cancel, err := db.begin(ctx)
	if err != nil {
		return storage.Page{}, err
	}
	defer cancel()
	mod, at, err := db.listed(ctx, r.At)
	if err != nil {
		return storage.Page{}, err
	}
	begin, end := db.keys.below(r.Prefix)
	if r.After != "" {
		begin = max(begin, db.keys.data(r.After)+"\x00")
	}
	page := clientv3.OpGet(begin, clientv3.WithRange(end), clientv3.WithRev(mod), clientv3.WithLimit(int64(min(r.Limit, mostRecords))))
	ranges, now, t, err := db.read(ctx, page)
	if err != nil {
		return storage.Page{}, err
	}
	if at == 0 {
		at = t.last(now)
	}
	return storage.Page{Records: db.records(t, ranges[0].Kvs), Revision: at, More: ranges[0].More}, nil
}

// records makes the records of a page.
func (db *DB) records(t *timeline, kvs []*mvccpb.KeyValue) []storage.Record {
	records := make([]storage.Record, 0, len(kvs))
	for _, kv := range kvs {
		if key, ok := db.keys.key(kv.Key); ok {
			records = append(records, t.record(key, kv))
		}
	}
	return records
}

// listed returns the revision of etcd to list for a revision of the store, and which revision that
// is. Both are 0 for now.
func (db *DB) listed(ctx context.Context, at storage.Revision) (int64, storage.Revision, error) {
	if at == 0 {
		return 0, 0, nil
	}
	t := db.timeline.Load()
	p, err := t.locate(at)
	if err != nil || p.below == 0 {
		return p.mod, at, err
	}
	// No commit ends here. Either the revision is inside of a wide commit, or it belongs to none.
	ranges, _, _, err := db.read(ctx,
		clientv3.OpGet(db.keys.wide(), clientv3.WithRev(p.mod)),
		clientv3.OpGet(db.keys.wide(), clientv3.WithRev(p.mod-1), clientv3.WithCountOnly())) // is it compacted?
	if err != nil {
		return 0, 0, err
	}
	if int(p.below) < width(ranges[0].Kvs, p.mod) {
		return p.mod, t.last(p.mod), nil
	}
	return p.mod - 1, at, nil
}

// width reads how many revisions the commit at mod took, from the record of wide commits at that
// revision.
func width(kvs []*mvccpb.KeyValue, mod int64) int {
	if len(kvs) == 0 || kvs[0].ModRevision != mod {
		return 1
	}
	n, err := strconv.Atoi(string(kvs[0].Value))
	if err != nil {
		return 1
	}
	return min(max(n, 1), perCommit)
}
