package bbolt

import (
	"context"
	"time"

	"github.com/kindwright/kindwright/storage"
)

// Holds returns ErrCompacted for a revision that another copy of the file issued, and that this one
// never will. Revisions are told to clients when a commit has them, so the others that are below the
// current one, or below the first of this session, are from elsewhere. Of revisions below the
// compacted one nothing is known, and it returns nil.
func (db *DB) Holds(ctx context.Context, rev storage.Revision) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	known, lost := false, false
	return db.read(func() error {
		known = rev <= db.compacted || rev == db.current || rev > db.current && rev >= db.first
		lost = rev > db.current && rev < db.first
		return nil
	}, func(r *reading) error {
		if known {
			return nil
		}
		if lost {
			return storage.ErrCompacted
		}
		rec, ok, err := r.seek(position{rev: rev})
		if err == nil && (!ok || rec.pos.rev != rev) {
			err = storage.ErrCompacted
		}
		return err
	})
}

// RevisionAt returns the revision that was the current one at a time, by the times of the commits.
// If that has been compacted, it returns the compacted revision.
func (db *DB) RevisionAt(ctx context.Context, at time.Time) (storage.Revision, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	var from, to storage.Revision
	err := db.read(func() error {
		from, to = db.compacted, db.current
		return nil
	}, func(r *reading) error {
		// The answer is from or above, and below to.
		for to++; to-from > 1; {
			middle := from + (to-from)/2
			rec, ok, err := r.seek(position{rev: middle})
			switch {
			case err != nil:
				return err
			case !ok || rec.pos.rev >= to || rec.nanos > at.UnixNano():
				to = middle
			default:
				from = rec.pos.rev
			}
		}
		return nil
	})
	return from, err
}
