package etcd

import (
	"context"
	"iter"

	"github.com/kindwright/kindwright/storage"
)

// behindStep is how many changes a watch that is behind reads from etcd at once.
const behindStep = 2000

// Watch yields changes from the log of recent commits. A watch that begins or falls behind the log
// reads from etcd until it has caught up.
func (db *DB) Watch(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		if err := db.watch(ctx, prefix, after, func(b storage.Batch) bool { return yield(b, nil) }); err != nil {
			yield(storage.Batch{}, err)
		}
	}
}

// watch returns nil if the reader breaks off.
func (db *DB) watch(ctx context.Context, prefix string, after storage.Revision, yield func(storage.Batch) bool) error {
	position, err := db.watchable(ctx, after)
	if err != nil {
		return err
	}
	w := db.feed.enter(prefix, position, db.seen.Load())
	defer db.feed.leave(w)
	r := &watchReader{db: db, w: w, after: after, yield: yield}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := db.ended(); err != nil {
			return err
		}
		s := db.feed.next(w)
		switch {
		case s.behind > 0:
			more, err := r.catchUp(ctx, s.behind)
			if err != nil || !more {
				return err
			}
		case len(s.commits) > 0:
			if !r.hand(ctx, s.commits) {
				return r.err
			}
		case s.progress > 0:
			if !r.progress(s.progress) {
				return nil
			}
		case db.ended() == nil: // Close interrupts those that sleep before it
			select {
			case <-w.wake:
			case <-ctx.Done():
			case <-db.life.Done():
			}
		}
	}
}

// watchable returns the revision of etcd after which a watch begins, or why it cannot.
func (db *DB) watchable(ctx context.Context, after storage.Revision) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := db.ended(); err != nil {
		return 0, err
	}
	t := db.timeline.Load()
	if after > t.last(db.seen.Load()) {
		m, err := db.now(ctx)
		switch {
		case err != nil:
			return 0, err
		case after > m.revision:
			return 0, storage.ErrFutureRevision
		}
		t = db.timeline.Load()
	}
	p, err := t.locate(after)
	if err != nil {
		return 0, err
	}
	return p.whole(), db.kept(p.whole())
}

// watchReader hands over what a watch finds.
type watchReader struct {
	db    *DB
	w     *watcher
	after storage.Revision // the reader has everything up to here
	yield func(storage.Batch) bool
	err   error
}

// hand yields commits from the log. It returns false if the watch ends.
func (r *watchReader) hand(ctx context.Context, commits []commitRecord) bool {
	for i := range commits {
		b := commits[i].batch.Below(r.w.prefix)
		if b.Changes = between(b.Changes, r.after, b.Revision); len(b.Changes) == 0 {
			b.Progress = true // the reader has had these, and may be owed the rest of the commit
		}
		if b.Revision <= r.after {
			continue
		}
		if !r.give(b) {
			return false
		}
		if r.err = ctx.Err(); r.err != nil {
			return false
		}
		if r.err = r.db.ended(); r.err != nil {
			return false
		}
	}
	return true
}

func (r *watchReader) give(b storage.Batch) bool {
	r.after = b.Revision
	return r.yield(b)
}

func (r *watchReader) progress(mod int64) bool {
	rev := r.db.timeline.Load().last(mod)
	if rev < r.after {
		return true
	}
	return r.give(storage.Batch{Revision: rev, Progress: true})
}

// catchUp reads one page from etcd. It returns false if the reader breaks off.
func (r *watchReader) catchUp(ctx context.Context, upTo int64) (more bool, err error) {
	t := r.db.timeline.Load()
	q := query{prefix: r.w.prefix, after: r.after, until: t.last(upTo), limit: behindStep}
	inner, cancel, err := r.db.begin(ctx)
	if err != nil {
		return false, err
	}
	batches, reached, err := r.db.past(inner, q)
	cancel()
	if err != nil {
		return false, err
	}
	for _, b := range batches {
		if !r.give(b) {
			return false, nil
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
	}
	p, err := t.locate(reached)
	if err != nil {
		return false, err
	}
	told := int64(0)
	if n := len(batches); n > 0 {
		last, err := t.locate(batches[n-1].Revision)
		if err != nil {
			return false, err
		}
		told = last.whole()
	}
	r.after = max(r.after, reached)
	r.db.feed.caught(r.w, p.mod, told)
	return true, nil
}
