package etcd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/kindwright/kindwright/storage"
)

// History reads from the log of recent commits, if they are all there, and otherwise from etcd.
func (db *DB) History(ctx context.Context, r storage.HistoryRequest) (storage.HistoryPage, error) {
	ctx, cancel, err := db.begin(ctx)
	if err != nil {
		return storage.HistoryPage{}, err
	}
	defer cancel()
	now := db.seen.Load()
	if r.Until == 0 || max(r.After, r.Until) > db.timeline.Load().last(now) {
		m, err := db.now(ctx)
		switch {
		case err != nil:
			return storage.HistoryPage{}, err
		case max(r.After, r.Until) > m.revision:
			return storage.HistoryPage{}, storage.ErrFutureRevision
		}
		now = m.mod
	}
	t := db.timeline.Load()
	q := query{prefix: r.Prefix, after: r.After, until: r.Until, limit: r.Limit, prev: r.Prev}
	if q.until == 0 {
		q.until = t.last(now)
	}
	if _, err := db.watchable(ctx, r.After); err != nil {
		return storage.HistoryPage{}, err
	}
	batches, reached, err := db.past(ctx, q)
	if err != nil {
		return storage.HistoryPage{}, err
	}
	return storage.HistoryPage{Batches: batches, Revision: reached, More: reached < q.until}, nil
}

// query asks for past changes. Both ends are known to be at or below the current revision.
type query struct {
	prefix       string
	after, until storage.Revision
	limit        int
	prev         bool
}

// past answers a query with some commits and the revision it has reached.
func (db *DB) past(ctx context.Context, q query) ([]storage.Batch, storage.Revision, error) {
	t := db.timeline.Load()
	after, err := t.locate(q.after)
	if err != nil {
		return nil, 0, err
	}
	until, err := t.locate(q.until)
	if err != nil {
		return nil, 0, err
	}
	commits, reached, ok := db.feed.past(ctx, q.prefix, after.whole(), until.mod, q.limit)
	if ok && q.prev {
		err = db.fillPrevious(ctx, t, commits)
	}
	if !ok {
		commits, reached, err = db.ancient(ctx, t, q, after.whole()+1, until.mod)
	}
	if err != nil {
		return nil, 0, err
	}
	var batches []storage.Batch
	for i := range commits {
		b := commits[i].batch.Below(q.prefix)
		if b.Changes = between(b.Changes, q.after, q.until); len(b.Changes) > 0 {
			batches = append(batches, b)
		}
	}
	if reached < until.mod {
		return batches, t.last(reached), nil
	}
	if n := len(batches); n > 0 {
		return batches, max(q.until, batches[n-1].Revision), nil
	}
	return batches, q.until, nil
}

// between cuts changes to those above after. If the first of them is above until, there are none.
func between(changes []storage.Change, after, until storage.Revision) []storage.Change {
	i := slices.IndexFunc(changes, func(c storage.Change) bool { return c.Revision > after })
	if i < 0 || changes[i].Revision > until {
		return nil
	}
	return changes[i:]
}

// ancient reads commits from etcd.
func (db *DB) ancient(ctx context.Context, t *timeline, q query, from, until int64) ([]commitRecord, int64, error) {
	if _, _, _, err := db.read(ctx, clientv3.OpGet(db.keys.base(), clientv3.WithRev(from-1), clientv3.WithCountOnly())); err != nil {
		return nil, 0, err // above all ErrCompacted, which etcd's watch would say one revision later
	}
	begin, end := db.keys.below(q.prefix)
	events, reached, err := db.events(ctx, scope{begin, end}, from, until, q.limit, q.prev)
	if err != nil {
		return nil, 0, db.translate(ctx, err)
	}
	var commits []commitRecord
	for len(events) > 0 {
		n := sameCommit(events)
		commits = append(commits, commitRecord{mod: events[0].Kv.ModRevision, events: events[:n]})
		events = events[n:]
	}
	if err := db.fillWidths(ctx, commits, from); err != nil {
		return nil, 0, err
	}
	for i := range commits {
		if err := commits[i].assemble(db.keys, t, q.prev); err != nil {
			return nil, 0, err
		}
	}
	return apart(commits), reached, nil
}

// apart takes commits that shared a transaction apart.
func apart(commits []commitRecord) []commitRecord {
	if !slices.ContainsFunc(commits, func(c commitRecord) bool { return c.shared }) {
		return commits
	}
	var all []commitRecord
	for _, c := range commits {
		for rest := c.batch.Changes; c.shared && len(rest) > 0; {
			n := slices.IndexFunc(rest, func(change storage.Change) bool { return change.Revision != rest[0].Revision })
			if n < 0 {
				n = len(rest)
			}
			one := commitRecord{mod: c.mod, width: 1, batch: storage.Batch{Revision: rest[0].Revision, Changes: rest[:n:n]}, created: c.created}
			for i := range one.batch.Changes {
				one.bytes += sizeOf(&one.batch.Changes[i])
			}
			all, rest = append(all, one), rest[n:]
		}
		if !c.shared {
			all = append(all, c)
		}
	}
	return all
}

// sameCommit returns how many events the first commit has.
func sameCommit(events []*clientv3.Event) int {
	n := slices.IndexFunc(events, func(e *clientv3.Event) bool { return e.Kv.ModRevision != events[0].Kv.ModRevision })
	if n < 0 {
		return len(events)
	}
	return n
}

// scope is a range of keys in etcd.
type scope struct{ begin, end string }

// mostRanges is how many ranges are read in one transaction.
const mostRanges = 100

// fillWidths finds out how wide commits with deletions are, because a deletion does not say which
// revision it has. Of a wide one it reads the events of all keys.
func (db *DB) fillWidths(ctx context.Context, commits []commitRecord, from int64) error {
	var unsure []*commitRecord
	for i := range commits {
		commits[i].width = 1
		if slices.ContainsFunc(commits[i].events, func(e *clientv3.Event) bool { return e.Type == clientv3.EventTypeDelete }) {
			unsure = append(unsure, &commits[i])
		}
	}
	if len(unsure) == 0 {
		return nil
	}
	newest, _, _, err := db.read(ctx, clientv3.OpGet(db.keys.wide()))
	if err != nil || len(newest[0].Kvs) == 0 || newest[0].Kvs[0].ModRevision < from {
		return err
	}
	for chunk := range slices.Chunk(unsure, mostRanges) {
		ops := make([]clientv3.Op, len(chunk))
		for i, c := range chunk {
			ops[i] = clientv3.OpGet(db.keys.wide(), clientv3.WithRev(c.mod))
		}
		ranges, _, _, err := db.read(ctx, ops...)
		if err != nil {
			return err
		}
		for i, c := range chunk {
			if c.width = width(ranges[i].Kvs, c.mod); c.width == 1 {
				continue
			}
			begin, end := db.keys.below("")
			if c.events, _, err = db.events(ctx, scope{begin, end}, c.mod, c.mod, 0, true); err != nil {
				return db.translate(ctx, err)
			}
		}
	}
	return nil
}

// fillPrevious reads the previous records of changes from the log.
func (db *DB) fillPrevious(ctx context.Context, t *timeline, commits []commitRecord) error {
	var missing []*storage.Change
	var ops []clientv3.Op
	for i := range commits {
		c := &commits[i]
		c.batch.Changes = slices.Clone(c.batch.Changes)
		for j := range c.batch.Changes {
			if change := &c.batch.Changes[j]; !c.created[change.Key] {
				missing = append(missing, change)
				ops = append(ops, clientv3.OpGet(db.keys.data(change.Key), clientv3.WithRev(c.mod-1)))
			}
		}
	}
	for len(ops) > 0 {
		n := min(mostRanges, len(ops))
		ranges, _, _, err := db.read(ctx, ops[:n]...)
		if err != nil {
			return err
		}
		for i, r := range ranges {
			if len(r.Kvs) == 0 {
				return storage.ErrCompacted
			}
			record := t.record(missing[i].Key, r.Kvs[0])
			missing[i].Prev = &record
		}
		ops, missing = ops[n:], missing[n:]
	}
	return nil
}

// commitRecord is a commit as a watch of etcd reports it.
type commitRecord struct {
	mod     int64
	width   int
	shared  bool              // several commits of one transaction, until they are taken apart
	events  []*clientv3.Event // until it is assembled
	batch   storage.Batch
	created map[string]bool // the keys that did not exist before; nil if there are none
	bytes   int
}

// assemble makes the batch of the events. A wide commit needs all of them.
func (c *commitRecord) assemble(keys keyspace, t *timeline, prev bool) error {
	last := t.last(c.mod)
	c.batch = storage.Batch{Revision: last}
	for _, e := range c.events {
		key, ok := keys.key(e.Kv.Key)
		if !ok {
			continue
		}
		change := storage.Change{Key: key, Revision: last, Deleted: e.Type == clientv3.EventTypeDelete}
		if !change.Deleted {
			r := t.record(key, e.Kv)
			change.Value, change.Revision, change.Err = r.Value, r.Revision, r.Err
			c.shared = c.shared || shared(e.Kv.Value)
		}
		switch {
		case e.IsCreate():
			if c.created == nil {
				c.created = map[string]bool{}
			}
			c.created[key] = true
		case prev && e.PrevKv == nil:
			// Compaction overtook etcd's reading of it; etcd does not say so.
			return fmt.Errorf("%w: the record before that of %q at %d", storage.ErrCompacted, key, last)
		case prev:
			r := t.record(key, e.PrevKv)
			change.Prev = &r
		}
		c.bytes += sizeOf(&change)
		c.batch.Changes = append(c.batch.Changes, change)
	}
	c.events = nil
	if c.width > 1 {
		rankDeletions(c.batch.Changes, last-storage.Revision(c.width-1))
	}
	slices.SortFunc(c.batch.Changes, func(a, b storage.Change) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), strings.Compare(a.Key, b.Key))
	})
	return nil
}

// changeBytes is about what a change takes in memory beside its key and value.
const changeBytes = 200

func sizeOf(c *storage.Change) int { return len(c.Key) + len(c.Value) + changeBytes }

// rankDeletions gives the deletions of a wide commit their revisions. first is its first revision.
func rankDeletions(changes []storage.Change, first storage.Revision) {
	slices.SortFunc(changes, func(a, b storage.Change) int { return strings.Compare(a.Key, b.Key) })
	ranks := map[string]storage.Revision{}
	for i := range changes {
		resource := storage.ResourcePrefixOf(changes[i].Key)
		if changes[i].Deleted {
			changes[i].Revision = first + ranks[resource]
		}
		if resource != "" {
			ranks[resource]++
		}
	}
}

// progressEvery is how often etcd is asked whether it has sent everything. It does not answer before.
const progressEvery = 20 * time.Millisecond

// events reads the events of a range of keys from one revision of etcd to another, or to the end of
// the commit with which there are limit of them, or fewer if they are large. It returns the revision
// that it has reached.
//
// It has a stream of its own: etcd reports progress of a stream only when all its watches have it.
func (db *DB) events(ctx context.Context, s scope, from, until int64, limit int, prev bool) ([]*clientv3.Event, int64, error) {
	if from > until {
		return nil, until, nil
	}
	ctx, cancel := context.WithCancel(db.ownStream(ctx))
	defer cancel()
	options := []clientv3.OpOption{clientv3.WithRange(s.end), clientv3.WithRev(from), clientv3.WithProgressNotify()}
	if prev {
		options = append(options, clientv3.WithPrevKV())
	}
	responses := db.client.Watch(ctx, s.begin, options...)
	ask := time.NewTicker(progressEvery)
	defer ask.Stop()
	var all []*clientv3.Event
	bytes := 0
	for {
		select {
		case <-ask.C:
			if err := db.client.RequestProgress(ctx); err != nil {
				return nil, 0, err
			}
		case r, ok := <-responses:
			if err := watchError(ctx, r, ok); err != nil {
				return nil, 0, err
			}
			for _, e := range r.Events {
				n, mod := len(all), e.Kv.ModRevision
				switch {
				case mod > until:
					return all, until, nil
				case limit > 0 && n >= limit && mod != all[n-1].Kv.ModRevision:
					return all, all[n-1].Kv.ModRevision, nil
				}
				all = append(all, e)
				if bytes += len(e.Kv.Value); e.PrevKv != nil {
					bytes += len(e.PrevKv.Value)
				}
			}
			n := len(all)
			switch {
			case r.IsProgressNotify() && r.Header.Revision >= until, n > 0 && all[n-1].Kv.ModRevision == until:
				return all, until, nil
			case limit > 0 && bytes >= pageBytes: // etcd tells of whole commits
				return all, all[n-1].Kv.ModRevision, nil
			}
		}
	}
}

// ownStream returns a context whose watches share no stream with others: etcd's client tells streams
// apart by what they send along.
func (db *DB) ownStream(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "kindwright-stream", strconv.FormatInt(db.streams.Add(1), 10))
}

// watchError returns why a watch of etcd has ended, or nil if it has not.
func watchError(ctx context.Context, r clientv3.WatchResponse, ok bool) error {
	if err := r.Err(); err != nil {
		return err
	}
	if ok && !r.Canceled {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return errStreamEnded
}
