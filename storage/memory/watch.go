package memory

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/kindwright/kindwright/storage"
)

// A watch walks the log in its reader's goroutine. When it has read all of it, it parks: it enters
// itself in the index of watchers and sleeps until a commit with a matching change, or a request for
// progress, wakes it. Three positions make it exact:
//
//	told     what the reader knows: the revision of the last batch or progress
//	reached  where the walk is: all matches up to here have been yielded
//	current  where the store is
//
// told <= reached <= current. A parked watch needs no position of its own: it has reached current,
// however far that moves, until a change matches (invariant 4). So writes to other keys cost it
// nothing, and compaction cannot overtake it. It only has to report progress to its reader once
// somebody has asked for the revision (asked > told).

// watchStep is how many commits a watch reads before others get the lock.
const watchStep = 512

// watcher is one running watch.
type watcher struct {
	db     *DB
	prefix string
	wake   chan struct{}    // capacity 1: somebody unparked it
	told   storage.Revision // changed only by its goroutine, like ready, while it is not parked
	ready  []storage.Batch  // found, not yet yielded; reused

	// asked is the highest revision that Sync has returned for its prefix: it must reach that. It is
	// stored with db.mu held, for reading or writing.
	asked atomic.Uint64

	// Guarded by db.mu. A parked watcher's fields need the lock for writing; otherwise its
	// goroutine changes them under a read lock.
	reached storage.Revision
	parked  bool
	slot    int // its place in the index
}

// Watch yields the changes below prefix after a revision; see [storage.Backend]. Watchers of other
// prefixes cost a commit nothing.
func (db *DB) Watch(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		w, err := db.subscribe(ctx, prefix, after)
		if err != nil {
			yield(storage.Batch{}, err)
			return
		}
		defer w.release()
		for {
			err := w.next(ctx)
			for _, b := range w.ready {
				if err = ctx.Err(); err != nil {
					break
				}
				w.told = b.Revision
				if !yield(b, nil) {
					return
				}
			}
			if err != nil {
				yield(storage.Batch{}, err)
				return
			}
		}
	}
}

// subscribe registers a watch. The store's current revision counts as asked for, so a watch that
// starts behind it reports progress when it has caught up.
func (db *DB) subscribe(ctx context.Context, prefix string, after storage.Revision) (*watcher, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	switch {
	case db.closed:
		return nil, storage.ErrClosed
	case after > db.current:
		return nil, storage.ErrFutureRevision
	case after < db.compacted:
		return nil, storage.ErrCompacted
	}
	w := &watcher{db: db, prefix: prefix, wake: make(chan struct{}, 1), told: after, reached: after}
	w.asked.Store(uint64(db.current))
	db.watchers.add(w)
	return w, nil
}

func (w *watcher) release() {
	w.db.mu.Lock()
	defer w.db.mu.Unlock()
	w.db.watchers.remove(w)
}

// next fills ready with at least one batch, or returns the error that ends the watch.
func (w *watcher) next(ctx context.Context) error {
	clear(w.ready)
	w.ready = w.ready[:0]
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		more, err := w.walk()
		if err != nil || len(w.ready) > 0 {
			return err
		}
		if more || !w.park() {
			continue
		}
		select {
		case <-w.wake:
		case <-w.db.done:
		case <-ctx.Done():
		}
	}
}

// walk reads the next commits of the log and reports whether there are more.
func (w *watcher) walk() (more bool, err error) {
	db := w.db
	db.mu.RLock()
	defer db.mu.RUnlock()
	switch {
	case db.closed:
		return false, storage.ErrClosed
	case w.reached < db.compacted:
		return false, storage.ErrCompacted
	}
	rest := db.log.batches[db.log.after(w.reached):]
	if more = len(rest) > watchStep; more {
		rest = rest[:watchStep]
	}
	for _, b := range rest {
		if b = b.Above(w.reached).Below(w.prefix); len(b.Changes) > 0 {
			w.ready = append(w.ready, b)
		}
	}
	if more {
		w.reached = rest[watchStep-1].Revision
		return true, nil
	}
	w.reached = db.current
	return false, nil
}

// park lets the watch sleep, unless something has happened since the walk or the reader is due
// progress.
func (w *watcher) park() (parked bool) {
	db := w.db
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed || w.reached != db.current {
		return false
	}
	if uint64(w.told) < w.asked.Load() {
		w.ready = append(w.ready, storage.Batch{Revision: w.reached, Progress: true})
		return false
	}
	db.watchers.park(w)
	return true
}
