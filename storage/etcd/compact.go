package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/kindwright/kindwright/storage"
)

// Compact compacts the whole cluster of etcd. It is repeated until it is answered, which changes
// nothing.
func (db *DB) Compact(ctx context.Context, at storage.Revision) error {
	ctx, cancel, err := db.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	t := db.timeline.Load()
	if at > t.last(db.seen.Load()) {
		m, err := db.now(ctx)
		switch {
		case err != nil:
			return err
		case at > m.revision:
			return storage.ErrFutureRevision
		}
		t = db.timeline.Load()
	}
	mod, ok := t.compactable(at)
	if !ok {
		return nil
	}
	for p := newPauses(); ; {
		_, err := db.kv.Compact(ctx, mod)
		switch {
		case errors.Is(err, rpctypes.ErrPermissionDenied):
			return fmt.Errorf("%w: etcd lets only users with the role root compact: give it to %q, or have etcd compact by itself "+
				"(--auto-compaction-retention)", err, db.config.User)
		case err == nil || errors.Is(err, rpctypes.ErrCompacted):
			raise(&db.compacted, mod)
			return nil
		case transient(err):
			if db.pause(ctx, p, err) {
				continue
			}
		}
		return db.translate(ctx, err)
	}
}

// kept returns ErrCompacted if the history after a revision of etcd is known to be compacted. Etcd
// itself would still begin a watch one revision below.
func (db *DB) kept(after int64) error {
	if after < db.compacted.Load() {
		return storage.ErrCompacted
	}
	return nil
}

// compactable returns the newest revision of etcd with nothing above at. ok is false if that is
// before the store.
func (t *timeline) compactable(at storage.Revision) (mod int64, ok bool) {
	if at < t.first() {
		return 0, false
	}
	p, err := t.locate(at)
	if err == nil {
		return p.whole(), true
	}
	for _, e := range t.epochs { // at is in none: before the first one that is above it
		if e.last(e.From) > at {
			return e.From - 1, true
		}
	}
	return 0, false
}
