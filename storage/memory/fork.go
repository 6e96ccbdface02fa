package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/internal/ordered"
	"github.com/kindwright/kindwright/internal/watches"
	"github.com/kindwright/kindwright/storage"
)

// Fork returns a store with the same contents, revision and history: lists at older revisions and
// watches from them continue there. From then on the two are independent. Either may be closed,
// forked again, or used in another synctest bubble than the other. Options set the clock and the
// limits, which the fork does not inherit. WithFirstRevision has no effect.
//
// Fork takes microseconds however much is stored, because everything is shared until one of the two
// changes it. It fails with [storage.ErrClosed].
func (db *DB) Fork(opts ...Option) (*DB, error) {
	f := &DB{now: db.now, limits: db.limits, done: make(chan struct{})}
	for _, o := range opts {
		if o != nil {
			o(f)
		}
	}
	f.watches = watches.New(&f.mu, &f.current, (*watchLog)(f), f.done)
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return nil, storage.ErrClosed
	}
	db.shared = db.current
	f.current, f.compacted, f.shared = db.current, db.compacted, db.shared
	f.keys, f.log = db.keys.Snapshot(), db.log.fork()
	return f, nil
}

// own returns a history of a key that may be changed, or nil if the key has none.
func (db *DB) own(key string, h *history) *history {
	if h == nil || h.newest().revision > db.shared {
		return h
	}
	h = &history{versions: slices.Clone(h.versions)}
	db.keys.Set(key, h)
	return h
}

// CopyOf returns a store in memory with the contents of another one at a revision; 0 means now. It
// starts at that revision without earlier history: older lists and watches get
// [storage.ErrCompacted]. The records are shared and not copied. The errors are those of from.List.
func CopyOf(ctx context.Context, from storage.Backend, at storage.Revision, opts ...Option) (*DB, error) {
	if from == nil {
		return nil, fmt.Errorf("%w: memory.CopyOf: the store to copy is nil", storage.ErrInvalid)
	}
	keys := ordered.New[*history]()
	r := storage.ListRequest{At: at, Limit: copyPage}
	for {
		page, err := from.List(ctx, r)
		if err != nil {
			return nil, err
		}
		for i := range page.Records {
			rec := &page.Records[i]
			keys.Set(rec.Key, &history{versions: []version{{revision: rec.Revision, record: rec}}})
			r.After = rec.Key
		}
		r.At = page.Revision
		if !page.More {
			break
		}
	}
	db := New(append(slices.Clip(opts), WithFirstRevision(r.At))...)
	db.keys = keys
	return db, nil
}

// copyPage is how many records CopyOf asks for at a time.
const copyPage = 1000
