package etcd

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

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

// A page has so many records at most, and fewer if those of its kind are large: etcd sends a page as
// one message, however large that is, and an attempt has a second or a few.
const (
	mostRecords   = 500
	fewestRecords = 8
	pageBytes     = 16 << 20
)

// sizes is how large records are, by the pages that were read last. The zero value knows nothing.
type sizes struct {
	mu   sync.Mutex
	mean map[string]int // by prefix of the resource, "" for all others; guarded by mu
}

// mostSizes is of how many resources the size is kept.
const mostSizes = 4096

// records is how many records below a prefix make a page.
func (s *sizes) records(prefix string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(max(pageBytes/max(s.mean[storage.ResourcePrefixOf(prefix)], 1), fewestRecords), mostRecords)
}

// note takes note of a page. Small records that follow large ones count only in time.
func (s *sizes) note(prefix string, kvs []*mvccpb.KeyValue) {
	if len(kvs) == 0 {
		return
	}
	total := 0
	for _, kv := range kvs {
		total += len(kv.Value)
	}
	prefix = storage.ResourcePrefixOf(prefix)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mean == nil || len(s.mean) >= mostSizes {
		s.mean = map[string]int{}
	}
	s.mean[prefix] = max(total/len(kvs), s.mean[prefix]/2)
}

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
	later, err := db.later(ctx, r.Prefix, mod, at)
	if err != nil {
		return storage.Page{}, err
	}
	begin, end := db.keys.below(r.Prefix)
	if r.After != "" {
		begin = max(begin, db.keys.data(r.After)+"\x00")
	}
	most := min(r.Limit, db.sizes.records(r.Prefix))
	ranges, now, t, err := db.readLess(ctx, func(late int) []clientv3.Op {
		r.Limit = max(most>>(2*late), min(most, fewestRecords))
		return []clientv3.Op{clientv3.OpGet(begin, clientv3.WithRange(end), clientv3.WithRev(mod), clientv3.WithLimit(int64(r.Limit)))}
	})
	if err != nil {
		return storage.Page{}, err
	}
	db.sizes.note(r.Prefix, ranges[0].Kvs)
	if at == 0 {
		at = t.last(now)
	}
	p := storage.Page{Records: db.records(t, ranges[0].Kvs), Revision: at, More: ranges[0].More}
	for i := range later {
		overlay(&p, r, later[i].Changes)
	}
	return p, nil
}

// later returns the commits above a revision of etcd and up to one of the store: those that shared a
// transaction with a later one.
func (db *DB) later(ctx context.Context, prefix string, mod int64, at storage.Revision) ([]storage.Batch, error) {
	t := db.timeline.Load()
	if mod == 0 || t.last(mod) >= at {
		return nil, nil
	}
	batches, _, err := db.past(ctx, query{prefix: prefix, after: t.last(mod), until: at, limit: perCommit})
	return batches, err
}

// overlay puts records that were written later into a page.
func overlay(p *storage.Page, r storage.ListRequest, changes []storage.Change) {
	for _, c := range changes {
		if c.Key <= r.After || p.More && len(p.Records) > 0 && c.Key > p.Records[len(p.Records)-1].Key {
			continue // another page has it
		}
		record := storage.Record{Key: c.Key, Value: c.Value, Revision: c.Revision, Err: c.Err}
		i, there := slices.BinarySearchFunc(p.Records, c.Key, func(r storage.Record, key string) int { return strings.Compare(r.Key, key) })
		if there {
			p.Records[i] = record
			continue
		}
		if p.Records = slices.Insert(p.Records, i, record); len(p.Records) > r.Limit {
			p.Records, p.More = p.Records[:r.Limit], true
		}
	}
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
	// No transaction ends here. Either the revision is inside of a wide commit, or it is that of a commit
	// that shared a transaction with later ones, or it belongs to none.
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
