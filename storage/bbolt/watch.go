package bbolt

import (
	"context"
	"iter"
	"time"

	"github.com/kindwright/kindwright/storage"
)

// A watch walks the commits in its reader's goroutine: the recent ones in memory, older ones in the
// file. It holds no lock and no transaction while the reader's code runs. Three positions make it
// exact:
//
//	told     what the reader knows: the revision of the last batch or progress
//	reached  where the walk is: all matches up to here have been yielded
//	current  where the store is
//
// told <= reached <= current. If reached == current > told, it reports progress. If all three are
// equal, it sleeps until the store moves.
type watch struct {
	db      *DB
	prefix  string
	told    storage.Revision
	reached storage.Revision
	ready   []storage.Batch // found, not yet yielded; reused
}

const (
	// watchStep is how many recent batches a watch reads before a writer gets the lock.
	watchStep = 256
	// historyRecords and historyBytes limit one read from the file.
	historyRecords = 1024
	historyBytes   = 1 << 20
)

// Watch yields the changes below prefix after a revision; see [storage.Backend].
func (db *DB) Watch(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		w := &watch{db: db, prefix: prefix, told: after, reached: after}
		err := w.begin(ctx)
		for err == nil {
			err = w.find(ctx)
			for _, b := range w.ready {
				if err = ctx.Err(); err != nil {
					break
				}
				w.told = b.Revision
				if !yield(b, nil) {
					return
				}
			}
		}
		yield(storage.Batch{}, err)
	}
}

// begin rejects a watch that starts outside the history.
func (w *watch) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	db := w.db
	return db.look(func() error {
		switch {
		case w.told > db.current:
			return storage.ErrFutureRevision
		case w.told < db.compacted:
			return storage.ErrCompacted
		}
		return nil
	})
}

// find fills ready with at least one batch, or returns the error that ends the watch.
func (w *watch) find(ctx context.Context) error {
	clear(w.ready)
	w.ready = w.ready[:0]
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		news, err := w.walk()
		if err != nil || len(w.ready) > 0 {
			return err
		}
		if news == nil {
			continue
		}
		select {
		case <-news:
		case <-w.db.done:
		case <-ctx.Done():
		}
	}
}

// walk advances by one step. If it has reached current and reported that, it returns the channel
// that is closed by the next news.
func (w *watch) walk() (news <-chan struct{}, err error) {
	news, recent, err := w.walkRecent()
	if err != nil || recent {
		return news, err
	}
	return nil, w.walkFile()
}

// walkRecent walks in memory. recent is false if reached is no longer there.
func (w *watch) walkRecent() (news <-chan struct{}, recent bool, err error) {
	db := w.db
	db.mu.RLock()
	defer db.mu.RUnlock()
	if db.closing {
		return nil, false, storage.ErrClosed
	}
	batches, ok := db.recent.since(w.reached)
	if !ok {
		return nil, false, nil
	}
	more := len(batches) > watchStep
	if more {
		batches = batches[:watchStep]
	}
	for _, b := range batches {
		if b = b.Below(w.prefix); len(b.Changes) > 0 {
			w.ready = append(w.ready, b)
		}
	}
	if more {
		w.reached = batches[watchStep-1].Revision
		return nil, true, nil
	}
	w.reached = db.current
	if len(w.ready) > 0 {
		return nil, true, nil
	}
	if w.told < w.reached {
		w.ready = append(w.ready, storage.Batch{Revision: w.reached, Progress: true})
	}
	return db.news, true, nil
}

// walkFile reads the next commits from the log.
func (w *watch) walkFile() error {
	var end storage.Revision
	err := w.db.read(func() error {
		if w.reached < w.db.compacted {
			return storage.ErrCompacted
		}
		end = w.db.current
		return nil
	}, func(r *reading) (err error) {
		w.reached, w.ready, err = r.history(w.prefix, w.reached, end, w.ready)
		return err
	})
	return err
}

// history returns the commits below prefix after one revision up to another, or the first of them,
// and how far it read. The transaction must have all of them.
func (r *reading) history(prefix string, after, end storage.Revision, dst []storage.Batch) (storage.Revision, []storage.Batch, error) {
	previous, err := newReading(r.tx) // r itself must not move
	if err != nil {
		return after, dst, err
	}
	defer func() { r.touched += previous.touched }()
	begin := len(dst)
	reached, records, bytes := after, 0, 0
	rec, ok, err := r.seek(position{rev: after + 1})
	for ; err == nil && ok && rec.pos.rev <= end; rec, ok, err = r.next() {
		if rec.pos.rev != reached && (records >= historyRecords || bytes >= historyBytes) {
			return reached, dst, nil
		}
		reached = rec.pos.rev
		records++
		if len(rec.key) < len(prefix) || string(rec.key[:len(prefix)]) != prefix {
			continue
		}
		var c storage.Change
		if c, err = previous.change(&rec); err != nil {
			break
		}
		bytes += len(c.Value)
		if n := len(dst); n == begin || dst[n-1].Revision != reached {
			dst = append(dst, storage.Batch{Revision: reached, Time: time.Unix(0, rec.nanos)})
		}
		b := &dst[len(dst)-1]
		b.Changes = append(b.Changes, c)
	}
	if err != nil {
		return after, dst[:begin], err
	}
	return end, dst, nil
}

// change is a record as a watch sees it, with the record that it replaced.
func (r *reading) change(rec *record) (storage.Change, error) {
	c := storage.Change{Key: string(rec.key), Value: clone(rec.value), Deleted: rec.deleted, Revision: rec.pos.rev}
	if rec.prev.rev == 0 {
		return c, nil
	}
	value, err := r.value(rec.prev, c.Key)
	c.Prev = &storage.Record{Key: c.Key, Value: value, Revision: rec.prev.rev}
	return c, err
}
