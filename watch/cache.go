package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/internal/ordered"
	"github.com/kindwright/kindwright/storage"
)

// Config describes one kind to a [Dispatcher].
type Config struct {
	// StorageName is the segment below which the kind's objects are stored. Required.
	StorageName string

	// Fields names the fields that clients may select by, beside metadata.name and
	// metadata.namespace. Watchers that require a value of one are woken only by objects that have
	// it, or had it.
	Fields []string

	// Decode makes an entry of a stored record. Required. The entry must be new, with the record's
	// key and revision and as many field values as Fields has names. It is called from several
	// goroutines at once, and for older records again when a watcher or a list reaches back into
	// history. An error makes the kind not ready, unless the record is of the past: then it ends
	// that watcher or that list.
	Decode func(storage.Record) (*Entry, error)

	// LogBytes and LogAge bound the log of changes in memory; watchers that fall behind it read the
	// store's history instead. Defaults for values that are not positive: 8 MiB and 5 minutes.
	LogBytes int
	LogAge   time.Duration

	// MaxPins and MaxPinNodes bound the snapshots kept for the next pages of lists: how many, and
	// how many tree nodes (about 1.5 KiB each, and not counting what the live index uses as well)
	// they keep alive together. Defaults for 0: 256 and 16384; negative values turn pinning off. A
	// pin is kept for LogAge.
	MaxPins     int
	MaxPinNodes int

	// Logger is told what happens to the kind; the zero Logger discards it.
	Logger logr.Logger

	names *[]string // Fields, for entries, which have no room for a slice
}

const (
	defaultLogBytes    = 8 << 20
	defaultLogAge      = 5 * time.Minute
	defaultMaxPins     = 256
	defaultMaxPinNodes = 16384
)

func (c *Config) check() error {
	if c.StorageName == "" {
		return errors.New("watch: Config.StorageName is empty")
	}
	if c.Decode == nil {
		return fmt.Errorf("watch: Config.Decode of %s is nil", c.StorageName)
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
	return nil
}

// Cache is the live view of one kind: its objects as they are now, what happened to them lately,
// and who watches. A [Dispatcher] feeds it. All methods may be called from any goroutine.
//
// Reads never wait and never fail: they show the newest state the cache has. Who needs more than
// that waits first, with [Cache.Fresh] or [Cache.WaitFor].
type Cache struct {
	config     Config
	prefix     string
	dispatcher *Dispatcher

	// loading is what the dispatcher has seen while the kind is being listed. Guarded by the
	// dispatcher's lock.
	loading *loading

	done chan struct{} // closed with err set

	mu     sync.RWMutex     // taken after the dispatcher's, guards everything below
	err    error            // why the cache has stopped; nil while it is fed
	listed storage.Revision // of the list the cache began with
	last   storage.Revision // of the newest change, or of the newest list
	tree   *ordered.Map[*Entry]
	byKey  map[string]*Entry // nil in a fork
	log    changeLog
	roster roster
	epoch  int // counts the times the log was lost

	// shared is a copy of tree that nothing has changed since, for the next snapshot; nil after a
	// change.
	shared *ordered.Map[*Entry]
	copied uint64 // at most how many nodes tree has copied on writing since the start
	pins   pins
}

func newCache(d *Dispatcher, config Config) *Cache {
	return &Cache{
		config:     config,
		prefix:     storage.ResourcePrefix(config.StorageName),
		dispatcher: d,
		loading:    &loading{},
		done:       make(chan struct{}),
		tree:       ordered.New[*Entry](),
		byKey:      make(map[string]*Entry),
		log:        changeLog{maxBytes: config.LogBytes, maxAge: config.LogAge},
		roster:     newRoster(len(config.Fields)),
		pins:       pins{maxCount: config.MaxPins, maxNodes: config.MaxPinNodes, maxAge: config.LogAge},
	}
}

// Get returns the newest entry of a storage key. It allocates nothing.
func (c *Cache) Get(key string) (*Entry, bool) {
	c.mu.RLock()
	entry, ok := c.get(key)
	c.mu.RUnlock()
	return entry, ok
}

// Len returns how many objects there are.
func (c *Cache) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.tree.Len()
}

// Done is closed when the cache is fed no more; [Cache.Err] then says why. What it holds stays
// readable.
func (c *Cache) Done() <-chan struct{} { return c.done }

// Err returns nil while the cache is fed. Afterwards: [ErrGone] when the kind was removed,
// [ErrEnded] when the dispatcher ended, a *[DecodeError] when a record could not be read. The last
// leaves everything else running; the kind comes back by being removed and added again once the
// record is mended.
func (c *Cache) Err() error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.err
}

// Revision returns the revision the cache has reached: everything at or below it is in it.
func (c *Cache) Revision() storage.Revision {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.head()
}

// head is the revision up to which the cache is complete. The caller holds the lock, under which no
// change can slip between what it sees and what published says: the dispatcher applies first and
// publishes after (rule 4).
func (c *Cache) head() storage.Revision {
	if c.err != nil {
		return c.last
	}
	return max(c.last, c.dispatcher.Published())
}

// acknowledged is the revision up to which waits end: what is published, that is applied to every
// cache and not to this one alone, or was in the list the cache began with. The caller holds the
// lock.
func (c *Cache) acknowledged() storage.Revision {
	if c.err != nil {
		return c.last
	}
	return max(c.listed, c.dispatcher.Published())
}

// WaitFor returns nil once a revision is published, so that this cache and every other has it.
// Otherwise the context's error, or why the cache will never reach it (see [Cache.Err]).
func (c *Cache) WaitFor(ctx context.Context, revision storage.Revision) error {
	c.mu.RLock()
	have, err := c.acknowledged(), c.err
	c.mu.RUnlock()
	if have >= revision {
		return nil
	}
	if err != nil {
		return err
	}
	if err := c.dispatcher.wait(ctx, revision, c.done); err != nil {
		return err
	}
	// The kind may have stopped short of a revision that the others have reached.
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.acknowledged() < revision {
		return c.err
	}
	return nil
}

// Fresh returns nil once the cache has reached the store's current revision: reads after it see
// every commit that was acknowledged before it was called (LIST-27). Errors are the store's and
// those of WaitFor.
func (c *Cache) Fresh(ctx context.Context) error {
	revision, err := c.dispatcher.store.Revision(ctx)
	if err != nil {
		return err
	}
	return c.WaitFor(ctx, revision)
}

// Snapshot returns everything there is now. It costs about a microsecond whatever the size, and the
// first change after it a few copied tree nodes.
func (c *Cache) Snapshot() *Snapshot {
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

// share makes the copy that snapshots show. It writes to the tree, so it needs the lock for
// writing.
func (c *Cache) share() {
	if c.shared == nil {
		c.shared = c.tree.Snapshot()
	}
}

func (c *Cache) snapshot(revision storage.Revision) *Snapshot {
	return &Snapshot{cache: c, revision: revision, tree: c.shared, copied: c.copied}
}

// SnapshotAt returns everything there was at a revision, exactly; 0 means now. It looks for the
// revision in what is current, then among the pinned snapshots, and at last in the store: such a
// snapshot reads pages as it is walked, under the given context. Errors: storage.ErrCompacted and
// storage.ErrFutureRevision from the store, its other errors, the context's, and what [Cache.Err]
// returns.
func (c *Cache) SnapshotAt(ctx context.Context, revision storage.Revision) (*Snapshot, error) {
	if s, err := c.held(revision); s != nil || err != nil {
		return s, err
	}
	// Ask for the first key to learn whether the revision can be had at all.
	probe := storage.ListRequest{Prefix: c.prefix, At: revision, Limit: 1}
	if _, err := c.dispatcher.store.List(ctx, probe); err != nil {
		return nil, err
	}
	return &Snapshot{cache: c, revision: revision, ctx: ctx}, nil
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
	// Nothing has happened to this kind since last, so it was at every revision from there on as it
	// is now.
	if c.last <= revision && revision <= head {
		c.share()
		return c.snapshot(revision), nil
	}
	return c.pins.find(revision, time.Now()), nil
}

// Pin keeps a snapshot for later calls of [Cache.SnapshotAt] with its revision, within the bounds
// of [Config]. Pin the snapshot of a list's first page when there is a second. A snapshot that
// reads the store is not kept.
func (c *Cache) Pin(s *Snapshot) {
	if s.cache != c || s.tree == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pins.add(s, time.Now())
	c.pins.trim(c.copied)
}

// apply brings in what one commit did to this kind, and appends to woken the cursors it concerns.
// Only the dispatcher calls it, in the order of revisions.
func (c *Cache) apply(batch *storage.Batch, woken []*Cursor) []*Cursor {
	c.mu.RLock()
	skip := c.err != nil || batch.Revision <= c.last
	c.mu.RUnlock()
	if skip {
		return woken
	}
	changes, failed := c.decodeChanges(batch)
	if failed != nil {
		c.stop(failed)
		c.config.Logger.Error(failed, "The kind has stopped.", "storageName", c.config.StorageName)
		return woken
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range changes {
		woken = c.applyChange(&changes[i], woken)
	}
	c.last = batch.Revision
	c.pins.trim(c.copied)
	return woken
}

func (c *Cache) applyChange(ch *decoded, woken []*Cursor) []*Cursor {
	prev := c.set(ch.key, ch.entry)
	if prev == nil && ch.entry == nil {
		return woken
	}
	if o := c.dispatcher.observer; o != nil {
		o.Changed(prev, ch.entry)
	}
	event := change{revision: ch.revision, prev: prev, next: ch.entry, at: ch.at}
	c.log.append(event)
	return c.roster.unpark(&event, woken)
}

// set puts an entry, or removes what is there when entry is nil, and returns what was there.
func (c *Cache) set(key string, entry *Entry) (prev *Entry) {
	prev, _ = c.get(key)
	if entry == nil && prev == nil {
		return nil
	}
	if entry == nil {
		delete(c.byKey, key)
		c.tree.Delete(key)
	} else {
		c.tree.Set(key, entry)
		if c.byKey != nil {
			c.byKey[key] = entry
		}
	}
	c.shared = nil
	c.copied += uint64(c.tree.Depth())
	return prev
}

// stop ends the cache where it is: at the last revision it has all of.
func (c *Cache) stop(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.last = c.head()
	c.err = err
	close(c.done)
}

// reload replaces everything by a fresh list after changes were lost, and ends the cursors.
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

// fill shows what a listing found. The caller holds the lock.
func (c *Cache) fill(l *listing) {
	c.tree, c.byKey, c.last = l.tree, l.byKey, l.revision
	c.copied += uint64(l.tree.Len())
	c.shared = nil
	c.log.reset(l.revision)
	c.pins.trim(c.copied)
	if o := c.dispatcher.observer; o != nil {
		o.Filled(c.prefix, l.values())
	}
}
