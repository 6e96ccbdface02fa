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

// Dispatcher feeds every cache of a server from one watch over the whole store. Kinds come and go
// while it runs.
//
// It takes the store's batches one at a time, in the order of revisions, and does with each (rule
// 4):
//
//  1. apply it to every cache it touches, telling the observer;
//  2. set published to its revision;
//  3. wake the cursors it concerns and whoever waits for the revision.
//
// So whoever sees a revision published finds it in every cache. All methods may be called from any
// goroutine.
type Dispatcher struct {
	store     *storage.Store
	logger    logr.Logger
	observer  Observer // nil when nobody observes
	published atomic.Uint64
	waiters   waiters

	mu      sync.Mutex // taken before a cache's; guards everything below, and is held while a batch is applied
	caches  map[string]*Cache
	state   error            // why the view is not live; nil while it is
	target  storage.Revision // the view is live again once this is published
	live    chan struct{}    // closed once the view has been live, or never will be
	running bool
	ended   bool
	woken   []*Cursor // reused
}

var errNotStarted = errors.New("watch: the dispatcher has not started")

// Option adjusts a [Dispatcher]. A nil Option is ignored.
type Option func(*Dispatcher)

// WithLogger has the dispatcher tell of broken watches and lost history. The default discards it.
func WithLogger(l logr.Logger) Option {
	return func(d *Dispatcher) { d.logger = l }
}

// NewDispatcher returns a dispatcher over a store. It starts nothing; [Dispatcher.Run] does the
// work.
func NewDispatcher(store *storage.Store, opts ...Option) *Dispatcher {
	d := &Dispatcher{
		store:  store,
		caches: make(map[string]*Cache),
		state:  errNotStarted,
		live:   make(chan struct{}),
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

// Ready returns nil when the view is live: the dispatcher runs, its watch stands, and no kind has
// stopped. Otherwise it says everything that is wrong.
func (d *Dispatcher) Ready() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	problems := []error{d.state}
	for _, c := range d.caches {
		problems = append(problems, c.Err())
	}
	return errors.Join(problems...)
}

// Add lists a kind and returns its live view; before, during or without Run. Whatever is committed
// meanwhile is neither lost nor shown twice. Errors: a bad Config, a storage name that is in use, a
// *[DecodeError], the store's errors, the context's, and [ErrEnded].
func (d *Dispatcher) Add(ctx context.Context, config Config) (*Cache, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	c := newCache(d, config)
	if err := d.register(c); err != nil {
		return nil, err
	}
	for {
		// The kind is registered, so every batch above what is published is noted from here on; and
		// the list is at a revision at or above that. Between the two there is no gap.
		l, err := c.list(ctx, 0)
		if errors.Is(err, storage.ErrCompacted) && ctx.Err() == nil {
			continue // the list took longer than the store's memory; the next one is at a newer revision
		}
		if err == nil {
			var again bool
			if again, err = d.admit(c, l); again {
				continue
			}
		}
		if err != nil {
			d.unregister(c)
			return nil, err
		}
		return c, nil
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

// admit completes a listing with what happened meanwhile and makes the cache live. It asks for
// another listing when changes after this one were lost.
func (d *Dispatcher) admit(c *Cache, l *listing) (again bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.ended:
		return false, ErrEnded
	case d.caches[c.prefix] != c:
		return false, ErrGone
	case l.revision < c.loading.least:
		return true, nil
	}
	if err := c.loading.complete(l); err != nil {
		return false, err
	}
	c.loading = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fill(l)
	c.listed = l.revision
	return false, nil
}

func (d *Dispatcher) unregister(c *Cache) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.caches[c.prefix] == c {
		delete(d.caches, c.prefix)
	}
}

// Remove takes a kind out. Its cursors and waits end with [ErrGone]; what its cache holds stays
// readable. Removing a kind that is not there does nothing. An Add of it that is under way fails
// with ErrGone.
func (d *Dispatcher) Remove(storageName string) {
	prefix := storage.ResourcePrefix(storageName)
	d.mu.Lock()
	defer d.mu.Unlock()
	if c, ok := d.caches[prefix]; ok {
		delete(d.caches, prefix)
		c.stop(ErrGone)
	}
}

// Run follows the store until ctx ends, and then returns nil. A broken watch is begun again where
// it left off; lost history makes every kind be listed afresh and its cursors end with
// storage.ErrCompacted. It returns an error only when the store is closed, or when it is called a
// second time. When it returns all cursors and waits have ended with [ErrEnded]. It starts no
// goroutine.
func (d *Dispatcher) Run(ctx context.Context) error {
	if err := d.begin(); err != nil {
		return err
	}
	defer d.end()
	var pause backoff
	for {
		err := d.follow(ctx, &pause)
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
		return errors.New("watch: Run was called before")
	}
	d.running = true
	return nil
}

func (d *Dispatcher) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	d.enliven() // nobody waits for it any more
	d.state = ErrEnded
	for prefix, c := range d.caches {
		delete(d.caches, prefix)
		c.stop(ErrEnded)
	}
}

// report notes that the view is not live, for Ready.
func (d *Dispatcher) report(err error) {
	d.logger.Info("The watch over the store was interrupted.", "revision", d.Published(), "reason", err.Error())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state = fmt.Errorf("watch: the store cannot be followed: %w", err)
}

// follow takes batches from where the last complete one ended, until the watch breaks.
func (d *Dispatcher) follow(ctx context.Context, pause *backoff) error {
	revision, err := d.store.Revision(ctx)
	if err != nil {
		return err
	}
	d.aim(revision)
	for batch, err := range d.store.Watch(ctx, "", d.Published()) {
		if err != nil {
			return err
		}
		pause.reset()
		d.publish(&batch)
	}
	return errors.New("watch: the store's watch ended without saying why")
}

// aim notes how far the store is; having published that, the view is live. At the very first time
// it also decides where to begin: at the oldest of the lists made so far, for everything above is
// still to come. A list under way may be older than that, and has to be made again then.
func (d *Dispatcher) aim(revision storage.Revision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.target = revision
	if d.Published() == 0 {
		d.published.Store(uint64(d.beginning(revision)))
	}
	if d.Published() >= revision {
		d.enliven()
	}
}

// enliven notes that the view is live. The caller holds the lock.
func (d *Dispatcher) enliven() {
	d.state = nil
	select {
	case <-d.live:
	default:
		close(d.live)
	}
}

// AwaitLive blocks until the view is live for the first time, and returns nil, or why it will never
// be: the context's error, or [ErrEnded].
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
	for _, c := range d.caches {
		if c.loading == nil {
			revision = min(revision, c.Revision())
		}
	}
	for _, c := range d.caches {
		if c.loading != nil {
			c.loading.least = revision
		}
	}
	return revision
}

// publish does the three steps of a batch.
func (d *Dispatcher) publish(batch *storage.Batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if batch.Revision <= d.Published() {
		return
	}
	d.apply(batch)
	d.advance(batch.Revision)
	for _, cursor := range d.woken {
		cursor.signal()
	}
	clear(d.woken)
	d.woken = d.woken[:0]
}

// apply shows a batch to every cache it touches.
func (d *Dispatcher) apply(batch *storage.Batch) {
	for i := range batch.Changes {
		prefix := storage.ResourcePrefixOf(batch.Changes[i].Key)
		c, ok := d.caches[prefix]
		if !ok || touchedBefore(batch.Changes[:i], prefix) {
			continue
		}
		if c.loading != nil {
			c.loading.note(c, batch)
			continue
		}
		d.woken = c.apply(batch, d.woken)
	}
}

// touchedBefore reports whether an earlier change of the batch was of the same resource, which the
// store refuses but the contract of backends does not.
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

// wait returns nil once revision is published or done is closed, else the context's error.
func (d *Dispatcher) wait(ctx context.Context, revision storage.Revision, done <-chan struct{}) error {
	w := d.waiters.add(revision)
	defer d.waiters.remove(w)
	if d.Published() >= revision {
		return nil // it was published before the waiter was there to be woken
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
	maxPause   = 5 * time.Second
)

func (b *backoff) reset() { b.next = 0 }

// wait sleeps, longer every time, and returns the context's error if that ends first.
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
