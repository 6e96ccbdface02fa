package etcd

import (
	"context"

	"github.com/kindwright/kindwright/storage"
)

// moment is a revision of etcd and what it is in the store.
type moment struct {
	mod      int64
	revision storage.Revision
}

// now returns the newest revision, linearizably. Callers at the same time share one request, which
// alone has a timeout: the others wait for two of them at most.
func (db *DB) now(ctx context.Context) (moment, error) {
	if err := ctx.Err(); err != nil {
		return moment{}, err
	}
	return db.newest.Do(ctx, func(ctx context.Context) (moment, error) {
		ctx, cancel, err := db.begin(ctx)
		if err != nil {
			return moment{}, err
		}
		defer cancel()
		_, mod, t, err := db.read(ctx)
		if err != nil {
			return moment{}, err
		}
		return moment{mod: mod, revision: t.last(mod)}, nil
	})
}

// Revision returns the current revision.
func (db *DB) Revision(ctx context.Context) (storage.Revision, error) {
	m, err := db.now(ctx)
	return m.revision, err
}

// Sync returns the current revision and makes watches reach it.
func (db *DB) Sync(ctx context.Context, prefix string) (storage.Revision, error) {
	m, err := db.now(ctx)
	if err != nil {
		return 0, err
	}
	db.feed.owe(prefix, m.mod)
	return m.revision, nil
}
