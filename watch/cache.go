package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/internal/ordered"
	"github.com/kindwright/kindwright/storage"
)

// CacheConfig describes one kind to a [Dispatcher].
type CacheConfig struct {
	// StorageName is the segment of the storage keys under which the kind's objects are stored.
	// Required.
	StorageName string

	// Fields names the fields that clients may select by, in addition to metadata.name and
	// metadata.namespace. A watcher that requires a value of such a field wakes only for objects
	// that have or had it.
	Fields []string

	// Decode converts a stored record to an entry. Required. The entry must be new. It must have
	// the record's key and revision, and one field value for each name in Fields.
	//
	// Decode is called from several goroutines at once. It is called again for older records when a
	// watcher or a list reads history. After an error the object is left out; see [Unreadable]. While
	// the kind is being added, only errors that wrap storage.ErrUnreadable have that effect. For a
	// record of the past an error ends that watcher or list.
	Decode func(storage.Record) (*Entry, error)

	// DecodeAll converts the records of a page as Decode does, for a kind that can do many at once
	// at less cost. Optional. After an error, Decode is called for each record to find the bad one.
	DecodeAll func([]storage.Record) ([]*Entry, error)

	// LogBytes and LogAge limit the log of changes in memory. Watchers that fall behind the log
	// read the store's history instead. Values that are not positive mean the defaults: 8 MiB and 5
	// minutes.
	LogBytes int
	LogAge   time.Duration

	// MaxPins and MaxPinNodes limit the snapshots that are kept for the next pages of lists: their
	// number, and the number of tree nodes that they keep alive together. A node takes about 300
	// bytes; nodes that the live index uses too do not count. 0 means the defaults, 256 and 65536;
	// negative values turn pinning off. A pin expires after LogAge.
	MaxPins     int
	MaxPinNodes int

	// MaxIndexes limits the indexes that are made for selectors; see [Snapshot.Select]. 0 means the
	// default, 8; negative values turn them off.
	MaxIndexes int

	// Logger receives messages about the kind. The zero Logger discards them.
	Logger logr.Logger

	names *[]string // Fields, by pointer because entries share them
}

const (
	defaultLogBytes    = 8 << 20
	defaultLogAge      = 5 * time.Minute
	defaultMaxPins     = 256
	defaultMaxPinNodes = 65536
)

func (c *CacheConfig) check() error {
	if c.StorageName == "" {
		return errors.New("watch: CacheConfig.StorageName is empty")
	}
	if c.Decode == nil {
		return fmt.Errorf("watch: CacheConfig.Decode of %s is nil", c.StorageName)
	}
	names := slices.Clone(c.Fields)
	c.Fields, c.names = names, &names
	if c.LogBytes <= 0 {
		c.LogBytes = defaultLogBytes
	}
	if c.LogAge <= 0 {
		c.LogAge = defaultLogAge
	}
	if c.MaxPins == 0 {
		c.MaxPins = defaultMaxPins
	}
	if c.MaxPinNodes == 0 {
		c.MaxPinNodes = defaultMaxPinNodes
	}
	if c.MaxIndexes == 0 {
		c.MaxIndexes = defaultMaxIndexes
	}
	return nil
}

// Cache is the live view of one kind: its current objects, its recent changes, and its watchers. A
// [Dispatcher] feeds it. All methods are safe for concurrent use.
//
// Reads never block and never fail: they show the newest state that the cache has. For a guarantee
// beyond that, first call [Cache.Fresh] or [Cache.WaitFor].
type Cache struct {
	config     CacheConfig
	prefix     string
	dispatcher *Dispatcher

	// loading collects the changes that the dispatcher sees while the kind is being listed. Guarded
	// by the dispatcher's lock.
	loading *loading

	done chan struct{} // closed when err is set

	shadow atomic.Bool           // it is about to take the place of another one, and observers are told by that
	next   atomic.Pointer[Cache] // what has taken the place of this one; nil while nothing has

	mu     sync.RWMutex         // taken after the dispatcher's, guards everything below
	err    error                // why the cache has stopped; nil while it is fed
	listed storage.Revision     // of the list that the cache started from
	last   storage.Revision     // of the newest change, or of the newest list
	tree   *ordered.Set[*Entry] // by key
	byKey  map[string]*Entry    // nil in a fork
	log    changeLog
	roster roster
	epoch  int // counts how often the log was lost
	own    own

	unreadable unreadable

	indexes indexes

	// shared is a copy of tree for the next snapshot. It is nil after tree has changed.
	shared   *ordered.Set[*Entry]
	copied   uint64 // upper bound of the nodes that tree has copied on write since the start
	received uint64 // changes that were applied

	comparisons, divergences uint64 // with the store, see Dispatcher.Verify
	pins                     pins
}

// newTree returns an empty tree of entries in the order of their keys.
func newTree() *ordered.Set[*Entry] {
	return ordered.NewSet(func(a, b *Entry) bool { return a.key < b.key })
}

// placeOf returns what stands for a key in a search.
func placeOf(key string) *Entry { return &Entry{key: key} }

func newCache(d *Dispatcher, config CacheConfig) *Cache {
	return &Cache{
		config:     config,
		prefix:     storage.ResourcePrefix(config.StorageName),
		dispatcher: d,
		loading:    &loading{},
		done:       make(chan struct{}),
		tree:       newTree(),
		byKey:      make(map[string]*Entry),
		log:        changeLog{maxBytes: config.LogBytes, maxAge: config.LogAge},
		roster:     newRoster(len(config.Fields)),
		indexes:    indexes{max: config.MaxIndexes, clock: &atomic.Uint64{}},
		pins:       pins{maxCount: config.MaxPins, maxNodes: config.MaxPinNodes, maxAge: config.LogAge},
	}
}

// Get returns the newest entry of a storage key. It does not allocate, except in a fork.
func (c *Cache) Get(key string) (*Entry, bool) {
	c = c.present()
	c.mu.RLock()
	entry, ok := c.get(key)
	c.mu.RUnlock()
	return entry, ok
}

// Len returns the number of objects.
func (c *Cache) Len() int {
	c = c.present()
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.tree.Len()
}

// Done is closed when the cache has stopped; [Cache.Err] then returns why. Its contents remain
// readable.
func (c *Cache) Done() <-chan struct{} { return c.done }

// Err returns nil while the cache is live. Afterwards it returns [ErrGone] if the kind was removed, or
// [ErrEnded] if the dispatcher ended.
func (c *Cache) Err() error {
	c.mu.RLock()
	err := c.err
	c.mu.RUnlock()
	if next := c.present(); next != c { // it may have taken the place of this one just now
		return next.Err()
	}
	return err
}

// Revision returns the revision up to which the cache is complete.
func (c *Cache) Revision() storage.Revision {
	c = c.present()
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.head()
}

// head returns the revision up to which the cache is complete. The caller holds the lock, so that
// no change falls between reading the last change and the published revision: the dispatcher
// applies a change before it publishes it (rule 4).
func (c *Cache) head() storage.Revision {
	if c.err != nil {
		return c.last
	}
	return max(c.last, c.dispatcher.Published())
}

// acknowledged returns the revision up to which waits end. It is the published revision, which
// every cache has, or the revision of the list that this cache started from. The caller holds the
// lock.
func (c *Cache) acknowledged() storage.Revision {
	if c.err != nil {
		return c.last
	}
	return max(c.listed, c.dispatcher.Published())
}

// WaitFor blocks until a revision is published, so that every cache has it. The error is the
// context's, or the reason why the cache will never reach the revision (see [Cache.Err]).
func (c *Cache) WaitFor(ctx context.Context, revision storage.Revision) error {
	if next := c.present(); next != c {
		return next.WaitFor(ctx, revision)
	}
	c.mu.RLock()
	have, err := c.acknowledged(), c.err
	c.mu.RUnlock()
	if have >= revision {
		return nil
	}
	if err != nil {
		if next := c.present(); next != c { // it took the place of this one just now
			return next.WaitFor(ctx, revision)
		}
		return err
	}
	if err := c.dispatcher.wait(ctx, revision, c.done); err != nil {
		return err
	}
	// The kind may have stopped before a revision that the others have reached.
	c.mu.RLock()
	defer c.mu.RUnlock()
	switch {
	case c.acknowledged() >= revision:
		return nil
	case c.next.Load() != nil:
		return c.present().WaitFor(ctx, revision) // it took the place of this one meanwhile
	}
	return c.err
}

// Fresh blocks until the cache has reached the store's current revision. Reads after it see every
// commit that was acknowledged before the call. Errors come from the store and from WaitFor.
// Source: LIST-27.
func (c *Cache) Fresh(ctx context.Context) error {
	revision, err := c.dispatcher.sync(ctx)
	if err != nil {
		return err
	}
	return c.WaitFor(ctx, revision)
}

// Snapshot returns the current state. It takes about a microsecond, whatever the size. The first
// change after it copies a few tree nodes.
func (c *Cache) Snapshot() *Snapshot {
	c = c.present()
	c.mu.RLock()
	s := c.snapshot(c.head())
	c.mu.RUnlock()
	if s.tree != nil {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.share()
	return c.snapshot(c.head())
}

// share makes the copy that snapshots use. It writes to the tree, so it needs the write lock.
func (c *Cache) share() {
	if c.shared == nil {
		c.shared = c.tree.Snapshot()
		c.indexes.share()
	}
}

func (c *Cache) snapshot(revision storage.Revision) *Snapshot {
	return &Snapshot{
		cache: c, revision: revision, tree: c.shared, copied: c.copied, unreadable: c.unreadable,
		indexes: c.indexes.shared, clock: c.indexes.clock,
	}
}

// SnapshotAt returns the exact state at a revision; 0 means now. It tries the current state, then
// the pinned snapshots, and finally the store. A snapshot from the store reads pages under ctx as
// it is walked.
//
// Errors are storage.ErrCompacted, storage.ErrFutureRevision and others from the store, the
// context's, and those of [Cache.Err].
func (c *Cache) SnapshotAt(ctx context.Context, revision storage.Revision) (*Snapshot, error) {
	c = c.present()
	if s, err := c.held(revision); s != nil || err != nil {
		return s, err
	}
	// Read the first key to find out whether the store has the revision.
	probe := storage.ListRequest{Prefix: c.prefix, At: revision, Limit: 1}
	if _, err := c.dispatcher.store.List(ctx, probe); err != nil {
		return nil, err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return &Snapshot{cache: c, revision: revision, ctx: ctx, unreadable: c.unreadable}, nil
}

// held returns the snapshot of a revision if it is in memory.
func (c *Cache) held(revision storage.Revision) (*Snapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	head := c.head()
	if revision == 0 {
		revision = head
	}
	// The kind has not changed since last, so its state is the same at every revision from there
	// on.
	if c.last <= revision && revision <= head {
		c.share()
		return c.snapshot(revision), nil
	}
	return c.pins.find(revision, time.Now()), nil
}

// Pin keeps a snapshot for later calls of [Cache.SnapshotAt] with its revision, within the limits
// of [CacheConfig]. Pin the snapshot of a list's first page if there are more pages. Snapshots that read
// the store cannot be pinned.
func (c *Cache) Pin(s *Snapshot) {
	if s.cache != c || s.tree == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pins.add(s, time.Now())
	c.pins.trim(c.copied)
}

// Pinned reports whether the snapshot of a revision is pinned.
func (c *Cache) Pinned(revision storage.Revision) bool {
	c = c.present()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pins.find(revision, time.Now()) != nil
}

// apply applies one commit's changes to this kind, and appends the cursors to wake to woken. Only
// the dispatcher calls it, in the order of revisions.
func (c *Cache) apply(batch *storage.Batch, woken []*Cursor) []*Cursor {
	c.mu.RLock()
	skip := c.err != nil || batch.Revision <= c.last
	c.mu.RUnlock()
	if skip {
		return woken
	}
	changes := c.decodeChanges(batch)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range changes {
		if changes[i].failed != nil {
			c.spoil(changes[i].failed)
			continue
		}
		woken = c.applyChange(&changes[i], woken)
	}
	c.last = batch.Revision
	c.received += uint64(len(changes))
	c.pins.trim(c.copied)
	return woken
}

func (c *Cache) applyChange(ch *decoded, woken []*Cursor) []*Cursor {
	prev := c.set(ch.key, ch.entry)
	c.own.shown(ch.key, ch.revision)
	if len(c.unreadable) > 0 {
		if last := c.restore(ch.key); prev == nil {
			prev = last
		}
	}
	if prev == nil && ch.entry == nil {
		return woken
	}
	if !c.shadow.Load() {
		if d := c.dispatcher; d.observer != nil && !d.changed(c.prefix, prev, ch.entry) {
			d.filled(c.prefix, c.entries()) // it may have missed a part of the change
		}
		for _, o := range (*c.dispatcher.observed.Load())[c.prefix] {
			o.changed(prev, ch.entry)
		}
	}
	event := change{revision: ch.revision, prev: prev, next: ch.entry, at: ch.at}
	c.log.append(event)
	before := c.head()
	if before >= event.revision { // a kind that loads catches up
		before = c.last
	}
	return c.roster.unpark(&event, before, woken)
}

// set stores an entry, or removes the current one if entry is nil, and returns the previous one.
func (c *Cache) set(key string, entry *Entry) (prev *Entry) {
	prev, _ = c.get(key)
	if entry == nil && prev == nil {
		return nil
	}
	if entry == nil {
		delete(c.byKey, key)
		c.tree.Remove(prev)
	} else {
		c.tree.Add(entry)
		if c.byKey != nil {
			c.byKey[key] = entry
		}
	}
	c.shared = nil
	c.copied += uint64(c.tree.Depth()) + c.indexes.change(prev, entry, c.tree.Len())
	return prev
}

// stop ends the cache at the last revision that it has completely.
func (c *Cache) stop(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.last = c.head()
	c.err = err
	close(c.done)
	if c.shadow.Load() || c.next.Load() != nil {
		return // observers are told by the other one
	}
	for _, o := range (*c.dispatcher.observed.Load())[c.prefix] {
		o.drop(err)
	}
}

// begin shows the first listing.
func (c *Cache) begin(l *listing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fill(l)
	c.listed = l.revision
}

// reload replaces the contents by a fresh list after changes were lost, and ends the cursors.
func (c *Cache) reload(l *listing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.fill(l)
	c.epoch++
	c.roster.all((*Cursor).signal)
}

// fill replaces the contents by a listing. The caller holds the lock.
func (c *Cache) fill(l *listing) {
	c.tree, c.byKey, c.last = l.tree, l.byKey, l.revision
	c.unreadable = l.unreadable
	for _, one := range l.unreadable {
		if failed, ok := errors.AsType[*DecodeError](one.Err); ok {
			c.complain(failed)
		}
	}
	c.own.listed(l.revision)
	c.copied += uint64(l.tree.Len())
	c.shared = nil
	c.indexes.drop()
	c.log.reset(l.revision)
	c.pins.trim(c.copied)
	c.tellFilled()
}

// tellFilled tells observers of all that there is. The caller holds the lock.
func (c *Cache) tellFilled() {
	if c.shadow.Load() {
		return
	}
	if d := c.dispatcher; d.observer != nil {
		d.filled(c.prefix, c.entries())
	}
	c.tellUnreadable()
	for _, o := range (*c.dispatcher.observed.Load())[c.prefix] {
		o.tell(c.entries())
	}
}
