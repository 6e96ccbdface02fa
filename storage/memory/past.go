package memory

import (
	"context"

	"github.com/kindwright/kindwright/storage"
)

// History returns past changes below a prefix; see [storage.Backend].
func (db *DB) History(ctx context.Context, r storage.HistoryRequest) (storage.HistoryPage, error) {
	if err := ctx.Err(); err != nil {
		return storage.HistoryPage{}, err
	}
	db.mu.RLock()
	defer db.mu.RUnlock()
	if r.Until == 0 {
		r.Until = db.current
	}
	switch {
	case db.closed:
		return storage.HistoryPage{}, storage.ErrClosed
	case max(r.After, r.Until) > db.current:
		return storage.HistoryPage{}, storage.ErrFutureRevision
	case r.After < db.compacted:
		return storage.HistoryPage{}, storage.ErrCompacted
	}
	return db.past(r), nil
}

// past reads a page from the log. A commit is in it as a whole, or not at all.
func (db *DB) past(r storage.HistoryRequest) storage.HistoryPage {
	page := storage.HistoryPage{Revision: r.After}
	n := 0
	for _, b := range db.log.batches[db.log.after(r.After):] {
		if b.Changes[0].Revision > r.Until {
			break
		}
		if n >= r.Limit {
			page.More = true
			return page
		}
		page.Revision = min(b.Revision, r.Until)
		b = b.Above(r.After).Below(r.Prefix)
		if len(b.Changes) == 0 || b.Changes[0].Revision > r.Until {
			continue
		}
		page.Revision = b.Revision
		n += len(b.Changes)
		if r.Prev {
			b.Changes = db.withPrevious(b.Changes)
		}
		page.Batches = append(page.Batches, b)
	}
	page.Revision = max(page.Revision, r.Until)
	return page
}

// withPrevious returns the same changes with the records that they replaced. Every change above
// compacted still has its own (invariant 3).
func (db *DB) withPrevious(changes []storage.Change) []storage.Change {
	whole := make([]storage.Change, len(changes))
	for i, c := range changes {
		h, _ := db.keys.Get(c.Key)
		c.Prev = h.at(c.Revision - 1)
		whole[i] = c
	}
	return whole
}
