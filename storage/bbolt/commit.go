package bbolt

import (
	"context"
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/storage"
)

// Commit applies all operations, or none. It shares its sync with other waiting
// commits.
//
// If ctx ends before the writer has taken the commit, the commit never happens and the error is the
// context's. If ctx ends later, the commit continues, and reads and watches see it if it succeeds;
// the error then wraps ErrUnknownOutcome and the context's.
func (db *DB) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := db.checkOps(ops); err != nil {
		return 0, err
	}
	// The caller may use its slice again while the writer is still working.
	r := &request{ops: slices.Clone(ops), done: make(chan struct{})}
	if err := db.queue.push(r); err != nil {
		return 0, err
	}
	select {
	case <-r.done:
		return r.revision, r.err
	case <-ctx.Done():
	}
	if db.queue.withdraw(r) {
		return 0, ctx.Err()
	}
	select {
	case <-r.done: // the answer has just arrived
		return r.revision, r.err
	default:
		return 0, fmt.Errorf("%w: %w", storage.ErrUnknownOutcome, ctx.Err())
	}
}

// maxKeyBytes is the longest key that a record has room for.
const maxKeyBytes = 1<<16 - 1

// checkOps rejects operations that would make a file that cannot be opened again. Store checks
// them, too, but a bug in code that bypasses it must not cost the data.
func (db *DB) checkOps(ops []storage.Op) error {
	if len(ops) > db.limits.MaxOps {
		return fmt.Errorf("%w: commit of %d operations, the limit is %d", storage.ErrTooLarge, len(ops), db.limits.MaxOps)
	}
	for i := range ops {
		switch op := &ops[i]; {
		case len(op.Key) > maxKeyBytes:
			return fmt.Errorf("%w: key of %d bytes, the limit is %d", storage.ErrInvalid, len(op.Key), maxKeyBytes)
		case len(op.Value) > db.limits.MaxValueBytes:
			return fmt.Errorf("%w: value of %d bytes, the limit is %d", storage.ErrTooLarge, len(op.Value), db.limits.MaxValueBytes)
		}
	}
	const few = 8
	if len(ops) <= few {
		for i := range ops {
			for j := range i {
				if ops[i].Key == ops[j].Key {
					return twice(ops[i].Key)
				}
			}
		}
		return nil
	}
	seen := make(map[string]struct{}, len(ops))
	for i := range ops {
		if _, ok := seen[ops[i].Key]; ok {
			return twice(ops[i].Key)
		}
		seen[ops[i].Key] = struct{}{}
	}
	return nil
}

func twice(key string) error {
	return fmt.Errorf("%w: key %q occurs twice in one commit", storage.ErrInvalid, key)
}

// Compact durably hides everything older than at, and returns. The writer then removes it from the
// file between commits, a limited number of records per transaction, and continues after a restart.
// The file reuses the pages but does not shrink.
func (db *DB) Compact(ctx context.Context, at storage.Revision) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	at, done, err := db.isCompacted(at)
	if done || err != nil {
		return err
	}
	r := &request{compact: at, done: make(chan struct{})}
	if err := db.queue.push(r); err != nil {
		return err
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		db.queue.withdraw(r)
		return ctx.Err()
	}
}

// isCompacted returns the revision to compact, which is not inside of a commit, and whether there is
// nothing to do.
func (db *DB) isCompacted(at storage.Revision) (whole storage.Revision, done bool, err error) {
	err = db.look(func() error {
		if at > db.current {
			return storage.ErrFutureRevision
		}
		whole, _ = db.index.around(at)
		done = whole <= db.compacted
		return nil
	})
	return whole, done, err
}
