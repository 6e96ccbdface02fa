package bbolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/kindwright/kindwright/internal/watches"
	"github.com/kindwright/kindwright/storage"
)

// DB is a [storage.Backend] in one file. Open one with [Open].
//
// One goroutine, the writer, changes the file and then, with mu held, the state in memory.
// Invariants while mu is held:
//
//  1. compacted <= current; both are durable.
//  2. index holds every version above compacted and each key's newest at or below it, up to
//     current. It may hold some older versions that are still to be removed.
//  3. The file holds every version of the index, and nothing else in the file is ever read. So a
//     version leaves the index first and the file in a later transaction, and enters in the
//     opposite order.
//  4. recent holds every batch after recent.after, up to current.
//
// Locks: queue.mu and mu are never held together. A read takes mu, looks in the index, begins its
// bbolt transaction and releases mu; by 3 the transaction has everything that was found. The
// transaction ends before its result goes to a possibly slow reader.
type DB struct {
	path   string
	limits storage.Limits
	now    func() time.Time
	file   *os.File
	site   site
	bolt   *bolt.DB
	disk   disk
	queue  queue // the work of the writer

	done    chan struct{}         // closed by Close: wakes watches
	failed  atomic.Pointer[error] // why commits are refused for good
	crowded atomic.Pointer[error] // why puts are refused for now
	stuck   atomic.Bool           // bbolt's locks are held by a transaction that crashed
	closed  sync.Once
	writer  sync.WaitGroup

	commits, syncs atomic.Uint64
	touched        atomic.Int64 // bytes of the map since it was given back

	mu        sync.RWMutex // guards everything below
	closing   bool
	current   storage.Revision
	compacted storage.Revision
	index     index
	recent    ring
	first     storage.Revision // no revision of an earlier session is at or above it; constant
	watches   *watches.Set
}

var (
	_ storage.Backend   = (*DB)(nil)
	_ storage.Checker   = (*DB)(nil)
	_ storage.Exclusive = (*DB)(nil)
	_ storage.Health    = (*DB)(nil)
	_ storage.Readiness = (*DB)(nil)
	_ storage.Space     = (*DB)(nil)
	_ storage.Dated     = (*DB)(nil)
	_ storage.Backup    = (*DB)(nil)
	_ storage.Lineage   = (*DB)(nil)
	_ storage.Importer  = (*DB)(nil)
	_ storage.Advancer  = (*DB)(nil)
)

// disk is the store's world: how transactions begin and become durable, and how the file gets blocks.
type disk struct {
	begin    func(writable bool) (*bolt.Tx, error)
	commit   func(*bolt.Tx) error // returns after the sync
	allocate func(from, to int64) error
}

// Open opens the store in the file at path, whose directory must exist. It creates an empty file,
// readable only by its owner, if there is none; it removes the read permission of others from an
// existing file.
//
// Open reads the whole file before it serves any of it, about 0.15 seconds for 100,000 records of 1
// KiB, and locks it until Close. The error is a [*FileError]: ErrInUse if another process holds the
// file for more than 1.5 seconds, ErrDamaged, ErrNewerFormat, ErrOlderFormat, ErrForeign,
// ErrUnsafeFile, or an error of the operating system. A failed Open leaves the file as it was. A file
// of the previous format is copied to "<path>.format-2" and then raised.
func Open(path string, opts ...Option) (*DB, error) {
	o := newOptions(opts)
	if o.wrong != nil {
		return nil, fileError(path, o.wrong)
	}
	op, err := openFile(path, &o)
	if err != nil {
		return nil, fileError(path, err)
	}
	db := &DB{
		path:   path,
		limits: o.limits,
		now:    o.now,
		file:   op.file,
		site:   op.site,
		bolt:   op.bolt,
		disk: o.disk(disk{
			begin:    op.bolt.Begin,
			commit:   (*bolt.Tx).Commit,
			allocate: func(from, to int64) error { return allocate(op.file, from, to) },
		}),
		done:  make(chan struct{}),
		index: op.contents.index,
	}
	db.queue.init()
	db.watches = watches.New(&db.mu, &db.current, (*watchLog)(db), db.done)
	w := &writer{db: db, state: op.contents.state, pending: map[string]int{}}
	w.space = space{file: op.file, bolt: op.bolt, allocate: db.disk.allocate, reserve: o.reserve}
	if o.readOnly {
		w.next = w.state.reserved + 1
		db.queue.refuse(fileError(path, errReadOnly))
	} else if err := w.begin(); err != nil {
		return nil, errors.Join(fileError(path, err), db.release())
	}
	db.current, db.compacted = w.state.last, w.state.compacted
	db.first = w.next
	db.recent = ring{budget: o.recentBytes, after: db.current}
	if !o.readOnly {
		db.writer.Go(w.run)
	}
	return db, nil
}

// errReadOnly is the answer to commits after WithReadOnly.
var errReadOnly = fmt.Errorf("%w to commits: it was opened to be read", storage.ErrClosed)

// Exclusive returns true: the file is locked while it is open.
func (db *DB) Exclusive() bool { return true }

// Limits returns the limits set with WithLimits.
func (db *DB) Limits() storage.Limits { return db.limits }

// Healthy returns nil, or why the store refuses commits: a write or sync failed, damage was found, or
// the file was removed, moved or replaced while it was open. Reads continue. Only a new Open clears it.
func (db *DB) Healthy() error {
	if err := db.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Ready is Healthy, and looks whether the file is still in its place: while nobody writes, nothing else
// would notice.
func (db *DB) Ready() error {
	if err := db.Healthy(); err != nil {
		return err
	}
	if err := db.site.check(0); err != nil {
		return fileError(db.path, err)
	}
	return nil
}

// fail makes the store refuse all further commits. The first cause stays. Damage counts too: a
// later commit would be in a file that the next Open rejects.
func (db *DB) fail(cause error) {
	err := fmt.Errorf("%w to commits: %w", storage.ErrClosed, fileError(db.path, cause))
	db.failed.CompareAndSwap(nil, &err)
	db.queue.refuse(db.Healthy())
}

// Close waits for the commits that the writer is executing and for reads in progress. Commits still
// in the queue fail with ErrClosed.
func (db *DB) Close() (err error) {
	db.closed.Do(func() {
		db.mu.Lock()
		db.closing = true
		db.mu.Unlock()
		close(db.done)
		db.queue.stop()
		db.writer.Wait()
		db.mu.Lock()
		db.watches.Close()
		db.mu.Unlock()
		db.watches.Wait()
		if err = db.release(); err != nil {
			err = fileError(db.path, err)
		}
	})
	return err
}

// release gives the file back.
func (db *DB) release() error {
	if db.stuck.Load() {
		// bbolt would wait for its own lock forever. Its map of the file stays until the process
		// ends.
		return errors.Join(unlock(db.file), db.file.Close())
	}
	return guard(db.bolt.Close)
}

// Get returns the newest record of a key.
func (db *DB) Get(ctx context.Context, key string) (storage.Record, error) {
	if err := ctx.Err(); err != nil {
		return storage.Record{}, err
	}
	var at position
	r := storage.Record{Key: key}
	err := db.read(func() error {
		v, ok := db.index.newest(key)
		if !ok {
			return storage.ErrNotFound
		}
		at = v.position
		return nil
	}, func(tx *reading) (err error) {
		r.Value, err = tx.value(at, key)
		return err
	})
	if err != nil {
		return storage.Record{}, err
	}
	r.Revision = at.rev
	return r, nil
}

// Revision returns the current revision.
func (db *DB) Revision(ctx context.Context) (storage.Revision, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	var rev storage.Revision
	err := db.look(func() error {
		rev = db.current
		return nil
	})
	return rev, err
}

// Sync returns the current revision, and makes idle watches of the prefix, or below it, report
// progress if they are at an older one. Other watches cost it nothing.
func (db *DB) Sync(ctx context.Context, prefix string) (storage.Revision, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	var rev storage.Revision
	late := false
	err := db.look(func() error {
		rev, late = db.current, db.watches.Ask(prefix)
		return nil
	})
	if late {
		db.mu.Lock()
		db.watches.WakeLate(prefix)
		db.mu.Unlock()
	}
	return rev, err
}

// read runs find with mu held for reading. Then it runs fetch in a transaction that has all records
// found (invariant 3). An error of find ends it.
func (db *DB) read(find func() error, fetch func(*reading) error) error {
	err := guard(func() error {
		tx, err := db.beginRead(find)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // the end of a read; it cannot fail
		r, err := newReading(tx)
		if err != nil {
			return err
		}
		err = fetch(r)
		db.touch(tx, r.touched)
		return err
	})
	return db.damage(err)
}

// damage returns err, and stops commits if err reports damage.
func (db *DB) damage(err error) error {
	if !errors.Is(err, ErrDamaged) {
		return err
	}
	db.fail(err)
	return fileError(db.path, err)
}

func (db *DB) beginRead(find func() error) (tx *bolt.Tx, err error) {
	err = db.look(func() error {
		if err := find(); err != nil {
			return err
		}
		tx, err = db.disk.begin(false)
		return err
	})
	return tx, err
}

// look runs find with mu held for reading.
func (db *DB) look(find func() error) error {
	db.mu.RLock()
	defer db.mu.RUnlock()
	if db.closing {
		return storage.ErrClosed
	}
	return find()
}

// reading is a transaction that reads records. It returns copies.
type reading struct {
	tx     *bolt.Tx
	cursor *bolt.Cursor
	at     [positionBytes]byte

	touched int // about how many bytes of the map it has read
}

func newReading(tx *bolt.Tx) (*reading, error) {
	log := tx.Bucket([]byte(logBucket))
	if log == nil {
		return nil, damaged("the log is gone")
	}
	return &reading{tx: tx, cursor: log.Cursor()}, nil
}

// seek returns the first record at or after a position; false at the end.
func (r *reading) seek(p position) (record, bool, error) {
	k, v := r.cursor.Seek(p.appendTo(r.at[:0]))
	r.touched += pageTouch + len(v)
	return parseNext(k, v)
}

func (r *reading) next() (record, bool, error) {
	k, v := r.cursor.Next()
	r.touched += len(k) + len(v)
	return parseNext(k, v)
}

func parseNext(k, v []byte) (record, bool, error) {
	if k == nil {
		return record{}, false, nil
	}
	rec, err := parseRecord(k, v)
	return rec, err == nil, err
}

// record returns the record at a position, which must belong to the key. Its slices belong to the
// transaction.
func (r *reading) record(at position, key string) (record, error) {
	rec, ok, err := r.seek(at)
	if err != nil {
		return record{}, err
	}
	if !ok || rec.pos != at || string(rec.key) != key {
		return record{}, damaged("record %v of key %q is gone", at, key)
	}
	return rec, nil
}

// value returns the value of a key that was written at a position.
func (r *reading) value(at position, key string) ([]byte, error) {
	rec, err := r.record(at, key)
	return clone(rec.value), err
}
