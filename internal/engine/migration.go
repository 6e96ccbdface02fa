package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Migration says which stored objects an engine rewrites by itself. Whatever it is, a write to an object
// stores it in the present form, and records in other forms stay readable as long as a conversion is
// known.
type Migration int

// The values of Migration.
const (
	// MigrateVersions, the default, rewrites objects that were stored in another version. Once all are
	// rewritten, nothing needs that version any more.
	MigrateVersions Migration = iota

	// MigrateSchemas also rewrites objects that were stored under another schema of the present version,
	// so that new defaults, for instance, are in the store.
	MigrateSchemas

	// MigrateNothing leaves every object until somebody writes to it.
	MigrateNothing
)

// MigrationStatus says how far the migration of one kind is.
type MigrationStatus struct {
	Resource meta.GroupResource // in its stored form
	Version  string             // apiVersion of what is stored

	Done int // objects that were rewritten
	Left int // objects that will be rewritten
	Kept int // objects that stay as they are: the present form has no place for a part of them, or the store is full

	Started, Ended time.Time // Ended is zero in progress; both are zero if the migration ended before this start
}

// migrations is the state of an engine's migration.
type migrations struct {
	wake chan struct{} // holds a token when there may be something to do

	// busy counts the writes of clients in progress. Migration pauses for a while if there are
	// some.
	busy atomic.Int64

	mu     sync.Mutex
	known  map[string]*MigrationStatus // by storage name
	unseen map[string]bool             // storage names of resources that may have something to migrate
}

func newMigrations() *migrations {
	return &migrations{wake: make(chan struct{}, 1), known: map[string]*MigrationStatus{}, unseen: map[string]bool{}}
}

// note remembers that a resource may have something to migrate.
func (m *migrations) note(storageName string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unseen[storageName] = true
}

// take returns the storage names that were noted since it was called before, in order.
func (m *migrations) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := slices.Sorted(maps.Keys(m.unseen))
	clear(m.unseen)
	return names
}

// look wakes the migration to look at the resources that were noted. Their number, and not that of
// all resources, is what it costs.
func (m *migrations) look() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// change updates the status of one resource.
func (m *migrations) change(r *Kind, f func(*MigrationStatus)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	st, ok := m.known[r.StorageName]
	if !ok {
		st = &MigrationStatus{Resource: r.GroupResource(), Version: r.APIVersion()}
		m.known[r.StorageName] = st
	}
	f(st)
}

// kept returns how many objects of a resource are known to stay as they are.
func (m *migrations) kept(r *Kind) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if st, ok := m.known[r.StorageName]; ok {
		return st.Kept
	}
	return 0
}

// Migrations returns the progress of migration for each resource that had something to migrate
// since the engine started, ordered by resource.
func (e *Engine) Migrations() []MigrationStatus {
	e.migrations.mu.Lock()
	defer e.migrations.mu.Unlock()
	out := make([]MigrationStatus, 0, len(e.migrations.known))
	for _, st := range e.migrations.known {
		out = append(out, *st)
	}
	slices.SortFunc(out, func(a, b MigrationStatus) int {
		return strings.Compare(a.Resource.String(), b.Resource.String())
	})
	return out
}

// migrate rewrites the objects that are not stored in their present form, until ctx ends. After a
// restart, or as the next leader, it continues with the rest, which it finds by the records
// themselves.
func (e *Engine) migrate(ctx context.Context) {
	again := time.After(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.migrations.wake:
		case <-again:
		}
		again = nil
		for _, name := range e.migrations.take() {
			s, ok := e.set.Load().StoredAs(name)
			if !ok {
				continue
			}
			err := e.migrateResource(ctx, s)
			if ctx.Err() != nil {
				e.migrations.note(name)
				return
			}
			if err == nil || errors.Is(err, watch.ErrGone) {
				continue
			}
			e.cfg.Logger.Error(err, "a migration has stopped; it continues later", "resource", s.Kind.GroupResource().String())
			e.migrations.note(name)
			again = time.After(migrationPause)
		}
	}
}

// migrationPause is how long a migration waits after an error of the store.
const migrationPause = 10 * time.Second

// due reports whether a record is to be rewritten.
func (e *Engine) due(s staleRecord) bool {
	switch e.cfg.Migration {
	case MigrateNothing:
		return false
	case MigrateSchemas:
		return !s.lossy
	}
	return s.foreign && !s.lossy
}

// keeps reports whether a record stays as it is only because a rewrite would lose data.
func (e *Engine) keeps(s staleRecord) bool {
	return s.lossy && (s.foreign || e.cfg.Migration == MigrateSchemas)
}

// migrateResource migrates the objects of one resource.
func (e *Engine) migrateResource(ctx context.Context, s *Served) error {
	if e.cfg.Migration == MigrateNothing || s.Kind.straight() {
		return nil
	}
	if _, other := e.agreement.Written(s.Kind.StorageName); other {
		return nil // another program on the store could not read what this one would write; see settled
	}
	keys, kept := s.stale.choose(e.due), s.stale.choose(e.keeps)
	if len(keys) == 0 && len(kept) == e.migrations.kept(s.Kind) {
		return nil // there is nothing to do and no news to report
	}
	m, log := e.migrations, e.cfg.Logger.WithValues("resource", s.Kind.GroupResource().String(), "version", s.Kind.APIVersion())
	m.change(s.Kind, func(st *MigrationStatus) {
		st.Left, st.Kept, st.Started, st.Ended = len(keys), len(kept), e.cfg.Now(), time.Time{}
	})
	log.Info("objects that were stored in another form are written anew", "objects", len(keys), "kept", len(kept))
	if err := e.rewriteAll(ctx, s, keys); err != nil {
		return err
	}
	kept = s.stale.choose(e.keeps) // what a record in another version would lose is known only now
	for _, key := range kept[:min(len(kept), maxListedProblems)] {
		log.Info("an object stays stored as it is, because something of it has no place in the present form", "key", key)
	}
	ended := e.cfg.Now()
	m.change(s.Kind, func(st *MigrationStatus) { st.Left, st.Ended = 0, ended })
	if m.kept(s.Kind) > 0 {
		return nil
	}
	log.Info("all objects are stored in the present form")
	return e.recordMigration(ctx, s.Kind, ended)
}

// migrators is how many objects are rewritten concurrently. A store that waits for its disk can
// combine several commits in one disk write.
const migrators = 16

// rewriteAll rewrites the objects of keys.
func (e *Engine) rewriteAll(ctx context.Context, s *Served, keys []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var running sync.WaitGroup
	for range min(migrators, len(keys)) {
		running.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(keys) {
					return
				}
				e.migrations.yield(ctx)
				written, err := e.rewrite(ctx, s, keys[i])
				if err != nil {
					cancel(err)
					return
				}
				e.migrations.change(s.Kind, func(st *MigrationStatus) {
					st.Left--
					st.Done += boolInt(written)
				})
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}

const (
	yieldStep = time.Millisecond
	yieldMost = 5 // steps: clients that never stop writing must not block a migration for ever
)

// yield lets clients go first.
func (m *migrations) yield(ctx context.Context) {
	for range yieldMost {
		if m.busy.Load() == 0 || ctx.Err() != nil {
			return
		}
		time.Sleep(yieldStep)
	}
}

// rewrite stores one object as it is shown. It is a commit like any other: the object gets a new version and watchers see it
// change, as after a PUT of what a GET returned. An object that was changed meanwhile is looked at again: a
// deletion leaves a record in its version.
func (e *Engine) rewrite(ctx context.Context, s *Served, key string) (written bool, err error) {
	for {
		w := &rewriting{engine: e, served: s, key: key}
		if err = run(ctx, migrationSteps, w); !errors.Is(err, errRace) {
			return w.written, err
		}
	}
}

// rewriting is the migration of one record.
type rewriting struct {
	engine *Engine
	served *Served
	key    string

	revision storage.Revision
	have     record
	object   registry.Tree

	written bool
	passed  bool // there is nothing to do, or not now
}

func (w *rewriting) ended() bool { return w.passed }

func readRecord(ctx context.Context, w *rewriting) error {
	rec, err := w.engine.cfg.Store.Get(ctx, w.key)
	if errors.Is(err, storage.ErrNotFound) {
		w.passed = true
		return nil
	}
	if err == nil {
		w.revision = rec.Revision
		w.have, err = parseRecord(rec.Value)
	} else if !errors.Is(err, storage.ErrUnreadable) {
		return err
	}
	if err != nil {
		w.keep(err)
		return nil
	}
	w.passed = w.have.fingerprint == w.served.Kind.fingerprint
	return nil
}

func moderniseRecord(ctx context.Context, w *rewriting) error {
	object, stale, err := w.served.modernise(ctx, w.have)
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		w.keep(err)
		return nil
	}
	w.served.stale.note(w.key, w.revision, stale)
	if w.passed = !w.engine.due(*stale); w.passed {
		w.engine.migrations.change(w.served.Kind, func(st *MigrationStatus) { st.Kept += boolInt(w.engine.keeps(*stale)) })
		return nil
	}
	w.have.fingerprint, w.have.object = w.served.Kind.fingerprint, object // keeps the time of the write, from which the time to live counts
	w.object, err = decodeObject(object)
	return err
}

func commitRecord(ctx context.Context, w *rewriting) error {
	op := storage.Put(w.key, w.have.encode(), storage.Expect(w.revision))
	_, err := w.engine.store(ctx, w.served, []storage.Op{op}, w.object, w.object, false)
	var lost *storage.ConflictError
	switch {
	case errors.As(err, &lost):
		return errRace
	case err != nil && ctx.Err() != nil:
		return err // the engine stops; the next start finds out what was stored
	case errors.Is(err, storage.ErrTooLarge), errors.Is(err, storage.ErrUnknownOutcome):
		w.keep(err)
		return nil
	}
	w.written = err == nil
	return err
}

// keep leaves the record as it is, because of an error that is its own. The others go on.
func (w *rewriting) keep(why error) {
	w.passed = true
	w.engine.cfg.Logger.Error(why, "an object stays stored as it is for now",
		guard.WithStack(why, "resource", w.served.Kind.GroupResource().String(), "key", w.key)...)
	w.engine.migrations.change(w.served.Kind, func(st *MigrationStatus) { st.Kept++ })
}

// migrationRecord is what the store keeps of a migration that has ended, in JSON.
type migrationRecord struct {
	APIVersion string    `json:"apiVersion"` // all objects are stored in this version
	Kind       string    `json:"kind"`
	Ended      time.Time `json:"ended"`
}

// recordMigration records in the store that all objects of a resource are stored in the present
// version.
func (e *Engine) recordMigration(ctx context.Context, r *Kind, ended time.Time) error {
	value, err := json.Marshal(migrationRecord{r.APIVersion(), r.Names.Kind, ended.UTC()})
	if err != nil {
		return err
	}
	key, expect := storage.SysKey("migration", r.StorageName), storage.Absent
	switch rec, err := e.cfg.Store.Get(ctx, key); {
	case err == nil:
		expect = storage.Expect(rec.Revision)
	case !errors.Is(err, storage.ErrNotFound):
		return err
	}
	var lost *storage.ConflictError
	if _, err := e.cfg.Store.Commit(ctx, []storage.Op{storage.Put(key, value, expect)}); err != nil && !errors.As(err, &lost) {
		return err
	}
	return nil
}
