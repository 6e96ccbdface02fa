package memory

import (
	"context"
	"sync"
	"time"

	"github.com/kindwright/kindwright/internal/ordered"
	"github.com/kindwright/kindwright/internal/watches"
	"github.com/kindwright/kindwright/storage"
)

// DB is a [storage.Backend] in memory. Make it with [New].
//
// One lock guards everything. [DB.Check] verifies these invariants, which hold under the lock:
//
//  1. compacted <= current, and current is the last revision of the newest commit, or the first
//     revision if there is none. Neither lies inside of a commit.
//  2. log holds every commit above compacted, in order, and perhaps some older ones that trim has
//     not reached.
//  3. keys holds each key's newest version at or below compacted, unless that is a deletion, and
//     every version above. There is no key without versions.
//  4. A parked watch has received every matching change up to current.
//  5. A history without a version above shared may belong to other DBs too. It is never changed, but
//     replaced by a copy. See [DB.Fork].
type DB struct {
	now    func() time.Time
	limits storage.Limits
	done   chan struct{} // closed by Close

	mu        sync.RWMutex // guards everything below
	closed    bool
	current   storage.Revision
	compacted storage.Revision
	shared    storage.Revision // current at the latest fork, 0 without one
	keys      *ordered.Map[*history]
	log       changeLog
	watches   *watches.Set
}

var (
	_ storage.Backend   = (*DB)(nil)
	_ storage.Checker   = (*DB)(nil)
	_ storage.Exclusive = (*DB)(nil)
	_ storage.Resident  = (*DB)(nil)
)

// Option adjusts a [DB]. A nil Option is ignored.
type Option func(*DB)

// WithNow replaces time.Now with now, for the first revision and the times of batches. It must be
// safe for concurrent use. nil stands for time.Now.
func WithNow(now func() time.Time) Option {
	return func(db *DB) {
		if now != nil {
			db.now = now
		}
	}
}

// WithFirstRevision starts at revision r instead of the current time in microseconds. The first
// commit is r+1. 0 means the default.
func WithFirstRevision(r storage.Revision) Option {
	return func(db *DB) { db.current = r }
}

// WithLimits sets other limits than the default of 4 MiB per value, and 128 operations and 64 MiB
// per commit. A field that is 0 keeps its default. One below 0 is a mistake: storage.New refuses the
// store, and so does a server.
func WithLimits(l storage.Limits) Option {
	return func(db *DB) {
		if l.MaxValueBytes != 0 {
			db.limits.MaxValueBytes = l.MaxValueBytes
		}
		if l.MaxOps != 0 {
			db.limits.MaxOps = l.MaxOps
		}
		if l.MaxCommitBytes != 0 {
			db.limits.MaxCommitBytes = l.MaxCommitBytes
		}
	}
}

// New returns an empty store. It starts no goroutine. Close ends its watches.
func New(opts ...Option) *DB {
	db := &DB{
		now:    time.Now,
		limits: storage.Limits{MaxValueBytes: 4 << 20, MaxOps: 128, MaxCommitBytes: 64 << 20},
		done:   make(chan struct{}),
		keys:   ordered.New[*history](),
	}
	for _, o := range opts {
		if o != nil {
			o(db)
		}
	}
	if db.current == 0 {
		db.current = storage.Revision(max(1, db.now().UnixMicro()))
	}
	db.compacted = db.current
	db.watches = watches.New(&db.mu, &db.current, (*watchLog)(db), db.done)
	return db
}

// Resident returns true: a record's value is the committed slice itself.
func (db *DB) Resident() bool { return true }

// Exclusive returns true: the data is in the memory of this process.
func (db *DB) Exclusive() bool { return true }

// Limits returns the limits set with WithLimits.
func (db *DB) Limits() storage.Limits { return db.limits }

// Get returns the newest record of a key.
func (db *DB) Get(ctx context.Context, key string) (storage.Record, error) {
	if err := ctx.Err(); err != nil {
		return storage.Record{}, err
	}
	db.mu.RLock()
	defer db.mu.RUnlock()
	if db.closed {
		return storage.Record{}, storage.ErrClosed
	}
	h, _ := db.keys.Get(key)
	if r := h.newest().record; r != nil {
		return *r, r.Err
	}
	return storage.Record{}, storage.ErrNotFound
}

// Revision returns the current revision.
func (db *DB) Revision(ctx context.Context) (storage.Revision, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	db.mu.RLock()
	defer db.mu.RUnlock()
	if db.closed {
		return 0, storage.ErrClosed
	}
	return db.current, nil
}

// Sync returns the current revision, and makes idle watches of the prefix, or below it, report
// progress if they are at an older one. Other watches cost it nothing.
func (db *DB) Sync(ctx context.Context, prefix string) (storage.Revision, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	db.mu.RLock()
	current, closed, late := db.current, db.closed, db.watches.Ask(prefix)
	db.mu.RUnlock()
	if closed {
		return 0, storage.ErrClosed
	}
	if late {
		db.mu.Lock()
		db.watches.WakeLate(prefix)
		db.mu.Unlock()
	}
	return current, nil
}

// Commit applies the operations, or none of them.
func (db *DB) Commit(ctx context.Context, ops []storage.Op) (storage.Revision, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return 0, storage.ErrClosed
	}
	var few [8]*history // most commits then allocate nothing
	histories := few[:0]
	for i := range ops {
		h, _ := db.keys.Get(ops[i].Key)
		if actual := h.newest().actual(); !ops[i].Expect.Holds(actual) {
			return 0, &storage.ConflictError{Key: ops[i].Key, Expected: ops[i].Expect, Actual: actual}
		}
		histories = append(histories, h)
	}
	var room [8]storage.Place
	places := storage.Places(ops, room[:0])
	changes := make([]storage.Change, 0, len(places))
	last := db.current + 1
	for _, p := range places {
		last = db.current + 1 + storage.Revision(p.Rank) // the highest rank comes last
		if c, changed := db.apply(&ops[p.Op], histories[p.Op], last); changed {
			changes = append(changes, c)
		}
	}
	if len(changes) == 0 {
		return db.current, nil
	}
	// Wake the watches before current moves: they have received everything up to the previous
	// revision.
	db.watches.Wake(len(changes), func(i int) string { return changes[i].Key })
	db.current = last
	db.log.append(storage.Batch{Revision: db.current, Changes: changes, Time: db.now()})
	return db.current, nil
}

// apply adds one operation's version to the key's history, which is nil if there is none yet. The
// operation's expectation holds.
func (db *DB) apply(op *storage.Op, h *history, rev storage.Revision) (storage.Change, bool) {
	prev := h.newest().record
	if op.Type == storage.OpCheck || op.Type == storage.OpDelete && prev == nil {
		return storage.Change{}, false
	}
	h = db.own(op.Key, h)
	if op.Type == storage.OpDelete {
		h.append(version{revision: rev})
		return storage.Change{Key: prev.Key, Deleted: true, Revision: rev}, true
	}
	if h == nil {
		h = &history{}
		db.keys.Set(op.Key, h)
	}
	r := &storage.Record{Key: op.Key, Value: op.Value, Revision: rev}
	h.append(version{revision: rev, record: r})
	return storage.Change{Key: r.Key, Value: r.Value, Revision: rev}, true
}

// trimStep is how many commits are trimmed before others get the lock.
const trimStep = 1024

// Compact makes everything older than at unreachable. Then it frees it in steps, between which
// commits and reads continue.
func (db *DB) Compact(ctx context.Context, at storage.Revision) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return storage.ErrClosed
	}
	if at > db.current {
		return storage.ErrFutureRevision
	}
	at, _ = db.log.around(at)
	db.compacted = max(db.compacted, at)
	for db.trim() {
		db.mu.Unlock()
		db.mu.Lock()
	}
	return nil
}

// trim frees at most trimStep commits at or below compacted, and reports whether there may be more.
// Only keys that such a commit changed can have versions to free.
func (db *DB) trim() (more bool) {
	n := min(db.log.after(db.compacted), trimStep)
	for _, b := range db.log.batches[:n] {
		for i := range b.Changes {
			key := b.Changes[i].Key
			h, ok := db.keys.Get(key)
			if ok && h.excess(db.compacted) > 0 && db.own(key, h).trim(db.compacted) {
				db.keys.Delete(key)
			}
		}
	}
	db.log.drop(n)
	return n == trimStep
}

// Close ends all watches and frees the data.
func (db *DB) Close() error {
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return nil
	}
	db.closed = true
	db.keys, db.log = ordered.New[*history](), changeLog{}
	close(db.done)
	db.watches.Close()
	db.mu.Unlock()
	db.watches.Wait()
	return nil
}
