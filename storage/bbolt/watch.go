package bbolt

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/kindwright/kindwright/storage"
)

// A watch walks the commits in its reader's goroutine: the recent ones in memory, older ones in the
// file. It holds no lock and no transaction while the reader's code runs. When it has read all of
// them, it parks: it sleeps until a commit has a matching change, or a request for progress wakes it.
// Three positions make it exact:
//
//	told     what the reader knows: the revision of the last batch or progress
//	reached  where the walk is: all matches up to here have been yielded
//	current  where the store is
//
// told <= reached <= current. A parked watch has reached current, however far that moves, until a
// change matches. So commits elsewhere cost it nothing, and compaction cannot overtake it. It only
// has to report progress once somebody has asked for the revision (asked > told).
type watch struct {
	db     *DB
	prefix string
	wake   chan struct{}    // capacity 1: somebody unparked it
	told   storage.Revision // changed only by its goroutine, like ready, while it is not parked
	ready  []storage.Batch  // found, not yet yielded; reused

	// asked is the highest revision that Sync has returned for its prefix: it must reach that. It is
	// stored with db.mu held, for reading or writing.
	asked atomic.Uint64

	// Guarded by db.mu. A parked watch's fields need the lock for writing; otherwise its goroutine
	// changes them.
	reached storage.Revision
	parked  bool
	slot    int // its place in the index
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
		w := &watch{db: db, prefix: prefix, wake: make(chan struct{}, 1), told: after, reached: after}
		err := w.begin(ctx)
		if err != nil {
			yield(storage.Batch{}, err)
			return
		}
		defer w.release()
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

// begin registers a watch, or rejects one that starts outside the history. The current revision
// counts as asked for, so a watch that starts behind it reports progress when it has caught up.
func (w *watch) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	db := w.db
	db.mu.Lock()
	defer db.mu.Unlock()
	switch {
	case db.closing:
		return storage.ErrClosed
	case w.told > db.current:
		return storage.ErrFutureRevision
	case w.told < db.compacted:
		return storage.ErrCompacted
	}
	w.asked.Store(uint64(db.current))
	db.watchers.add(w)
	return nil
}

func (w *watch) release() {
	w.db.mu.Lock()
	defer w.db.mu.Unlock()
	w.db.watchers.remove(w)
}

// find fills ready with at least one batch, or returns the error that ends the watch.
func (w *watch) find(ctx context.Context) error {
	clear(w.ready)
	w.ready = w.ready[:0]
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		caughtUp, err := w.walk()
		if err != nil || len(w.ready) > 0 {
			return err
		}
		if !caughtUp || !w.park() {
			continue
		}
		select {
		case <-w.wake:
		case <-w.db.done:
		case <-ctx.Done():
		}
	}
}

// walk advances by one step, and reports whether it has reached current.
func (w *watch) walk() (caughtUp bool, err error) {
	caughtUp, recent, err := w.walkRecent()
	if err != nil || recent {
		return caughtUp, err
	}
	return false, w.walkFile()
}

// walkRecent walks in memory. recent is false if reached is no longer there.
func (w *watch) walkRecent() (caughtUp, recent bool, err error) {
	db := w.db
	db.mu.RLock()
	defer db.mu.RUnlock()
	if db.closing {
		return false, false, storage.ErrClosed
	}
	batches, ok := db.recent.since(w.reached)
	if !ok {
		return false, false, nil
	}
	more := len(batches) > watchStep
	if more {
		batches = batches[:watchStep]
	}
	for _, b := range batches {
		if b = b.Above(w.reached).Below(w.prefix); len(b.Changes) > 0 {
			w.ready = append(w.ready, b)
		}
	}
	if more {
		w.reached = batches[watchStep-1].Revision
		return false, true, nil
	}
	w.reached = db.current
	return true, true, nil
}

// park lets the watch sleep, unless something has happened since the walk or the reader is due
// progress.
func (w *watch) park() (parked bool) {
	db := w.db
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closing || w.reached != db.current {
		return false
	}
	if uint64(w.told) < w.asked.Load() {
		w.ready = append(w.ready, storage.Batch{Revision: w.reached, Progress: true})
		return false
	}
	db.watchers.park(w)
	return true
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
		w.reached, w.ready, err = r.history(storage.HistoryRequest{Prefix: w.prefix, After: w.reached, Until: end, Limit: historyRecords}, w.ready)
		return err
	})
	return err
}
