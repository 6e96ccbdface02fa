package bbolt

import (
	"context"
	"iter"

	"github.com/kindwright/kindwright/internal/watches"
	"github.com/kindwright/kindwright/storage"
)

const (
	// watchStep is how many recent batches a watch reads before a writer gets the lock.
	watchStep = 256
	// historyRecords and historyBytes limit one read from the file.
	historyRecords = 1024
	historyBytes   = 1 << 20
)

// Watch yields the changes below prefix after a revision; see [storage.Backend].
func (db *DB) Watch(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
	return db.watches.Watch(ctx, prefix, after)
}

// watchLog is a DB as its watches see it: the recent commits in memory, older ones in the file.
type watchLog DB

func (db *watchLog) Bounds() (compacted storage.Revision, err error) {
	if db.closing {
		return 0, storage.ErrClosed
	}
	return db.compacted, nil
}

// Read advances by one step.
func (db *watchLog) Read(w *watches.Watch) (caughtUp bool, err error) {
	caughtUp, recent, err := db.readRecent(w)
	if err != nil || recent {
		return caughtUp, err
	}
	return false, db.readFile(w)
}

// readRecent reads in memory. recent is false if the watch is no longer there.
func (db *watchLog) readRecent(w *watches.Watch) (caughtUp, recent bool, err error) {
	db.mu.RLock()
	defer db.mu.RUnlock()
	if db.closing {
		return false, false, storage.ErrClosed
	}
	batches, ok := db.recent.since(w.Reached)
	if !ok {
		return false, false, nil
	}
	return w.Take(batches, watchStep), true, nil
}

// readFile reads the next commits from the log in the file.
func (db *watchLog) readFile(w *watches.Watch) error {
	var end storage.Revision
	return (*DB)(db).read(func() error {
		if w.Reached < db.compacted {
			return storage.ErrCompacted
		}
		end = db.current
		return nil
	}, func(r *reading) (err error) {
		w.Reached, w.Ready, err = r.history(storage.HistoryRequest{Prefix: w.Prefix, After: w.Reached, Until: end, Limit: historyRecords}, w.Ready)
		return err
	})
}
