package bbolt

import (
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/kindwright/kindwright/storage"
)

// takeover is a request that is no commit: records of another store arrive with their revisions, or
// the current revision rises without a change.
type takeover struct {
	storage.Import
	history bool // keep it: nothing is imported
}

// Import writes records of another store, with the revisions that they had there. See
// [storage.Importer]. Running watches end with ErrCompacted.
func (db *DB) Import(ctx context.Context, i storage.Import) error {
	if err := i.Check(); err != nil {
		return err
	}
	ops := make([]storage.Op, 0, len(i.Put)+len(i.Delete))
	bytes := 0
	for _, r := range i.Put {
		ops = append(ops, storage.Put(r.Key, r.Value, storage.Any))
		bytes += len(r.Key) + len(r.Value)
	}
	for _, key := range i.Delete {
		ops = append(ops, storage.Delete(key, storage.Any))
	}
	if err := db.checkOps(ops); err != nil {
		return err
	}
	if bytes > db.limits.MaxCommitBytes {
		return fmt.Errorf("%w: %d bytes at once, the limit is %d", storage.ErrTooLarge, bytes, db.limits.MaxCommitBytes)
	}
	return db.take(ctx, &takeover{Import: i})
}

// Advance makes the current revision at least to. It changes nothing else.
func (db *DB) Advance(ctx context.Context, to storage.Revision) error {
	if rev, err := db.Revision(ctx); err != nil || rev >= to {
		return err
	}
	if err := storage.CheckStart(to); err != nil {
		return err
	}
	return db.take(ctx, &takeover{Import: storage.Import{Above: to}, history: true})
}

func (db *DB) take(ctx context.Context, t *takeover) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := &request{takes: t, done: make(chan struct{})}
	if err := db.queue.push(r); err != nil {
		return err
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
	}
	if db.queue.withdraw(r) {
		return ctx.Err()
	}
	<-r.done // soon: the writer is at it
	return r.err
}

// takeOver carries out a takeover in a transaction of its own.
func (w *writer) takeOver(t *takeover) error {
	db := w.db
	next := w.state
	next.last = max(next.last, t.Above)
	for i := range t.Put {
		next.last = max(next.last, t.Put[i].Revision)
	}
	if !t.history {
		next.compacted = next.last
	}
	next.reserved = max(next.reserved, next.last+reservation)
	old, err := w.replaced(t)
	if err != nil {
		return err
	}
	versions := make([]version, len(t.Put))
	nanos := db.now().UnixNano()
	unknown, err := w.transact(func(tx *bolt.Tx) error {
		r, err := newReading(tx)
		if err != nil {
			return err
		}
		log := r.cursor.Bucket()
		log.FillPercent = 0.9 // records arrive in the order of keys; few come between them later
		if err := removeRecords(log, old, &next); err != nil {
			return err
		}
		for i := range t.Put {
			if versions[i], err = putForeign(log, &next, &t.Put[i], nanos); err != nil {
				return err
			}
		}
		return putState(tx, &next)
	})
	if err != nil {
		db.fail(err)
		if unknown {
			return fmt.Errorf("%w: %w", storage.ErrUnknownOutcome, fileError(db.path, err))
		}
		return db.Healthy()
	}
	w.state, w.last, w.next = next, next.last, max(w.next, next.last+1)
	w.show(t, versions)
	return nil
}

// replaced returns the positions of the records that a takeover replaces or removes.
func (w *writer) replaced(t *takeover) ([]position, error) {
	var old []position
	add := func(key string) error {
		e, ok := w.db.index.get(key)
		if !ok {
			return nil
		}
		if e.more != nil || e.newest.deleted {
			return fmt.Errorf("%w: key %q has a history: only records that were imported can be replaced by an import", storage.ErrInvalid, key)
		}
		old = append(old, e.newest.position)
		return nil
	}
	for i := range t.Put {
		if err := add(t.Put[i].Key); err != nil {
			return nil, err
		}
	}
	for _, key := range t.Delete {
		if err := add(key); err != nil {
			return nil, err
		}
	}
	return old, nil
}

// putForeign puts a record into the log. Others may have the same revision.
func putForeign(log *bolt.Bucket, s *state, from *storage.Record, nanos int64) (version, error) {
	at := position{rev: from.Revision}
	var key [positionBytes]byte
	c := log.Cursor()
	for k, _ := c.Seek(at.appendTo(key[:0])); k != nil; k, _ = c.Next() {
		p, ok := parsePosition(k)
		if !ok || p.rev != at.rev {
			break
		}
		at.op = p.op + 1
	}
	r := record{
		pos: at, extent: extent{at.rev, at.rev}, nanos: nanos,
		key: []byte(from.Key), value: from.Value,
	}
	data, sum := r.appendTo(nil)
	s.add(at, sum)
	return version{position: at}, log.Put(at.appendTo(nil), data)
}

// show makes a takeover visible.
func (w *writer) show(t *takeover, versions []version) {
	db := w.db
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, key := range t.Delete {
		if _, ok := db.index.get(key); ok {
			db.index.drop(key)
		}
	}
	for i, v := range versions {
		if _, ok := db.index.get(t.Put[i].Key); ok {
			db.index.drop(t.Put[i].Key)
		}
		db.index.insert(&entry{key: t.Put[i].Key, newest: v})
	}
	if !t.history {
		// Nothing is known about what came before: watches end.
		db.watches.WakeAll()
		db.recent = ring{budget: db.recent.budget, after: w.state.last}
		db.compacted = w.state.compacted
		db.index.forget(db.compacted)
	} else if db.current != w.state.last {
		db.watches.FallBehind()
	}
	db.current = w.state.last
}
