package memory

import (
	"context"
	"iter"

	"github.com/kindwright/kindwright/internal/watches"
	"github.com/kindwright/kindwright/storage"
)

// watchStep is how many commits a watch reads before others get the lock.
const watchStep = 512

// Watch yields the changes below prefix after a revision; see [storage.Backend]. Watches of other
// prefixes cost a commit nothing.
func (db *DB) Watch(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
	return db.watches.Watch(ctx, prefix, after)
}

// watchLog is a DB as its watches see it.
type watchLog DB

func (db *watchLog) Bounds() (compacted storage.Revision, err error) {
	if db.closed {
		return 0, storage.ErrClosed
	}
	return db.compacted, nil
}

// Read reads the next commits of the log.
func (db *watchLog) Read(w *watches.Watch) (caughtUp bool, err error) {
	db.mu.RLock()
	defer db.mu.RUnlock()
	switch {
	case db.closed:
		return false, storage.ErrClosed
	case w.Reached < db.compacted:
		return false, storage.ErrCompacted
	}
	return w.Take(db.log.batches[db.log.after(w.Reached):], watchStep), nil
}
