package watch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/storage"
)

// Dispatcher feeds every cache of a server from one watch over the whole store. Kinds can be added
// and removed while it runs.
//
// It takes the store's batches one at a time, in the order of revisions. For each batch it
//
//  1. applies it to every cache it touches, and tells the observers;
//  2. publishes its revision;
//  3. wakes the cursors it concerns, and everyone who waits for the revision.
//
// So a published revision is in every cache. All methods are safe for concurrent use.
type Dispatcher struct {
	store     *storage.Store
	logger    logr.Logger
	observer  Observer                                  // optional
	observed  atomic.Pointer[map[string][]*Observation] // by prefix; the map is never changed
	published atomic.Uint64
	verified  atomic.Uint64 // the revision at which all kinds were last the same as in the store
	waiters   waiters
	own       ownMark
	local     bool // the store answers without a round trip
	newest    storage.Question[storage.Revision]

	mu      sync.Mutex // taken before a cache's lock; guards everything below, and is held while a batch is applied
	caches  map[string]*Cache
	shadows map[string]*Cache   // each is about to replace a cache
	broken  map[*Cache]struct{} // what Run has to list again
	state   error               // why the view is not live; nil if it is
	target  storage.Revision    // the view is live again once this is published
	live    chan struct{}       // closed when the view has been live once, or never will be
	running bool
	ended   bool
	woken   []*Cursor // reused

	interrupt context.CancelFunc // ends the watch over the store, so that Run looks at broken
}

var errNotStarted = errors.New("watch: the dispatcher has not started")

// Option configures a [Dispatcher]. A nil Option is ignored.
type Option func(*Dispatcher)

// WithLogger sets the logger for interrupted watches and lost history. By default nothing is
// logged.
func WithLogger(l logr.Logger) Option {
	return func(d *Dispatcher) { d.logger = l }
}

// NewDispatcher returns a dispatcher over a store. It does nothing until [Dispatcher.Run], which fails if the
// store is nil.
func NewDispatcher(store *storage.Store, opts ...Option) *Dispatcher {
	if store == nil {
		store = storage.New(nil) // which says so
	}
	d := &Dispatcher{
		store:   store,
		caches:  make(map[string]*Cache),
		shadows: make(map[string]*Cache),
		broken:  make(map[*Cache]struct{}),
		state:   errNotStarted,
		live:    make(chan struct{}),
	}
	d.observed.Store(&map[string][]*Observation{})
	if x, ok := storage.As[storage.Exclusive](store); ok {
		d.local = x.Exclusive()
	}
	for _, o := range opts {
		if o != nil {
			o(d)
		}
	}
	return d
}

// Published returns the revision up to which every cache is complete; 0 before Run.
func (d *Dispatcher) Published() storage.Revision { return storage.Revision(d.published.Load()) }

// Ready returns nil if the view is live: the dispatcher runs, its watch works, and no kind has
// stopped. Otherwise the error lists all problems.
func (d *Dispatcher) Ready() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	problems := []error{d.state}
	for _, c := range d.caches {
		problems = append(problems, c.Err())
	}
	return errors.Join(problems...)
}

// Add lists a kind and returns its live view. It works before, during and without Run. Commits
// during the call are neither lost nor shown twice.
//
// An object whose record is damaged is left out; see [Unreadable]. A record that Decode rejects for another
// reason is one that the program was not made for, and a *[DecodeError].
//
// The error is an invalid CacheConfig, a storage name in use, a *[DecodeError], an error of the store or
// the context, or [ErrEnded].
func (d *Dispatcher) Add(ctx context.Context, config CacheConfig) (*Cache, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	c := newCache(d, config)
	if err := d.register(c); err != nil {
		return nil, err
	}
	if err := d.fillNew(ctx, c); err != nil {
		return nil, err
	}
	return c, nil
}

// fillNew lists the kind of a cache that is registered, and makes the cache live.
func (d *Dispatcher) fillNew(ctx context.Context, c *Cache) error {
	for {
		// The kind is registered, so from here on every batch above the published revision is
		// noted. The list is at that revision or above, so there is no gap between the two.
		l, err := c.list(ctx, 0)
		if errors.Is(err, storage.ErrCompacted) && ctx.Err() == nil {
			continue // compacted during the list: list again at a newer revision
		}
		if err == nil {
			var again bool
			if again, err = d.admit(c, l); again {
				continue
			}
		}
		if err != nil {
			d.unregister(c)
		}
		return err
	}
}

func (d *Dispatcher) register(c *Cache) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return ErrEnded
	}
	if _, taken := d.caches[c.prefix]; taken {
		return fmt.Errorf("watch: storage name %q is in use", c.config.StorageName)
	}
	d.caches[c.prefix] = c
	return nil
}

// admit adds the changes since a listing to it and makes the cache live. again means that changes
// after the listing were lost, so the kind must be listed again.
func (d *Dispatcher) admit(c *Cache, l *listing) (again bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.ended:
		return false, ErrEnded
	case !d.feeds(c):
		return false, ErrGone
	case l.revision < c.loading.least:
		return true, nil
	}
	c.loading.complete(l)
	if l.misfit != nil {
		return false, l.misfit
	}
	c.loading = nil
	c.begin(l)
	for _, o := range (*d.observed.Load())[c.prefix] {
		o.await()
	}
	return false, nil
}

func (d *Dispatcher) unregister(c *Cache) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, of := range []map[string]*Cache{d.caches, d.shadows} {
		if of[c.prefix] == c {
			delete(of, c.prefix)
		}
	}
}

// Remove removes a kind. Its cursors and waits end with [ErrGone]; the contents of its cache remain
// readable. An Add of the kind in progress fails with ErrGone. Removing an unknown kind does
// nothing.
func (d *Dispatcher) Remove(storageName string) {
	prefix := storage.ResourcePrefix(storageName)
	d.mu.Lock()
	defer d.mu.Unlock()
	if c, ok := d.caches[prefix]; ok {
		delete(d.caches, prefix)
		c.stop(ErrGone)
	}
}

// Run follows the store until ctx ends, then returns nil. It resumes a broken watch where it
// stopped. If history was lost, it lists every kind again, and the cursors end with
// storage.ErrCompacted. It returns an error only if the store is closed or Run was called before.
//
// When Run returns, all cursors and waits have ended with [ErrEnded]. It starts no goroutines.
func (d *Dispatcher) Run(ctx context.Context) error {
	if err := storage.Usable(d.store); err != nil {
		return fmt.Errorf("watch: %w", err) // which no second attempt mends
	}
	if err := d.begin(); err != nil {
		return err
	}
	defer d.end()
	var pause backoff
	for {
		err := d.mend(ctx)
		if err == nil {
			err = d.follow(ctx, &pause)
		}
		if ctx.Err() == nil && errors.Is(err, context.Canceled) { // by rebuild
			continue
		}
		if errors.Is(err, storage.ErrCompacted) {
			d.report(err)
			err = d.resync(ctx)
			if err == nil {
				continue
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, storage.ErrClosed) {
			return err
		}
		d.report(err)
		if pause.wait(ctx) != nil {
			return nil
		}
	}
}

func (d *Dispatcher) begin() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running || d.ended {
		return errors.New("watch: Run must be called only once")
	}
	d.running = true
	return nil
}

func (d *Dispatcher) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	d.enliven() // release AwaitLive
	d.state = ErrEnded
	for c := range d.all {
		c.stop(ErrEnded)
	}
	clear(d.caches)
	clear(d.shadows)
	clear(d.broken)
}

// report records for Ready that the view is not live.
func (d *Dispatcher) report(err error) {
	d.logger.Info("The watch over the store was interrupted.", "revision", d.Published(), "reason", err.Error())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state = fmt.Errorf("watch: cannot follow the store: %w", err)
}

// follow processes batches from the last published revision until the watch breaks.
func (d *Dispatcher) follow(ctx context.Context, pause *backoff) error {
	revision, err := d.store.Revision(ctx)
	if err != nil {
		return err
	}
	d.aim(revision)
	ctx, cancel := d.watching(ctx)
	defer cancel()
	for batch, err := range d.store.Watch(ctx, "", d.Published()) {
		if err != nil {
			return err
		}
		pause.reset()
		d.publish(&batch)
	}
	return errors.New("watch: the store's watch ended without an error")
}

// sync returns the store's current revision, which the watch soon reaches. Concurrent callers share a
// round trip.
func (d *Dispatcher) sync(ctx context.Context) (storage.Revision, error) {
	if d.local {
		return d.store.Sync(ctx, "")
	}
	return d.newest.Do(ctx, d.askStore)
}

func (d *Dispatcher) askStore(ctx context.Context) (storage.Revision, error) {
	return d.store.Sync(ctx, "")
}

// aim records the store's current revision; the view is live once that is published. The first call
// also sets the starting point: the oldest of the lists so far, because all later changes will
// follow. A list in progress may be older than that and must then be repeated.
func (d *Dispatcher) aim(revision storage.Revision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.target = revision
	if d.Published() == 0 {
		d.published.Store(uint64(d.beginning(revision)))
	}
	d.awaitAll()
	if d.Published() >= revision {
		d.enliven()
	}
}

// enliven marks the view as live. The caller holds the lock.
func (d *Dispatcher) enliven() {
	d.state = nil
	select {
	case <-d.live:
	default:
		close(d.live)
	}
}

// AwaitLive blocks until the view is live for the first time. The error is the context's, or
// [ErrEnded] if the view will never be live.
func (d *Dispatcher) AwaitLive(ctx context.Context) error {
	select {
	case <-d.live:
	case <-ctx.Done():
		return ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return ErrEnded
	}
	return nil
}

func (d *Dispatcher) beginning(revision storage.Revision) storage.Revision {
	for c := range d.all {
		if c.loading == nil {
			revision = min(revision, c.Revision())
		}
	}
	for c := range d.all {
		if c.loading != nil {
			c.loading.least = revision
		}
	}
	return revision
}

// publish performs the three steps for a batch.
func (d *Dispatcher) publish(batch *storage.Batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if batch.Revision <= d.Published() {
		return
	}
	d.apply(batch)
	d.await(batch)
	d.advance(batch.Revision)
	for _, cursor := range d.woken {
		cursor.signal()
	}
	clear(d.woken)
	d.woken = d.woken[:0]
}

// apply applies a batch to every cache it touches.
func (d *Dispatcher) apply(batch *storage.Batch) {
	for i := range batch.Changes {
		prefix := storage.ResourcePrefixOf(batch.Changes[i].Key)
		if touchedBefore(batch.Changes[:i], prefix) {
			continue
		}
		for _, c := range [...]*Cache{d.caches[prefix], d.shadows[prefix]} {
			switch {
			case c == nil:
			case c.loading != nil:
				c.loading.note(c, batch)
			default:
				d.woken = c.apply(batch, d.woken)
			}
		}
	}
}

// touchedBefore reports whether an earlier change of the batch belongs to the same resource.
func touchedBefore(changes []storage.Change, prefix string) bool {
	for i := range changes {
		if strings.HasPrefix(changes[i].Key, prefix) {
			return true
		}
	}
	return false
}

func (d *Dispatcher) advance(revision storage.Revision) {
	d.published.Store(uint64(revision))
	if revision >= d.target {
		d.enliven()
	}
	d.waiters.reached(revision)
}

// wait returns nil when revision is published or done is closed, or else the context's error.
func (d *Dispatcher) wait(ctx context.Context, revision storage.Revision, done <-chan struct{}) error {
	w := d.waiters.add(revision)
	defer d.waiters.remove(w)
	if d.Published() >= revision {
		return nil // published before the waiter was registered
	}
	select {
	case <-w.woken:
		return nil
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// backoff is the pause between attempts to reach a store that fails.
type backoff struct{ next time.Duration }

const (
	firstPause = 50 * time.Millisecond
	maxPause   = time.Second
)

func (b *backoff) reset() { b.next = 0 }

// wait sleeps, longer each time. It returns the context's error if the context ends first.
func (b *backoff) wait(ctx context.Context) error {
	b.next = min(max(firstPause, 2*b.next), maxPause)
	timer := time.NewTimer(b.next)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
