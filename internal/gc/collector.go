package gc

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// user is the identity of the collector's writes, as admission, hooks and logs see it.
var user = authn.User{
	Name:   "system:serviceaccount:kube-system:generic-garbage-collector",
	Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", authn.GroupAuthenticated, authn.GroupMasters},
}

const (
	maxWorkers = 16   // concurrent writers share one sync of the store
	chunk      = 256  // keys looked up under one lock
	maxGone    = 4096 // owners remembered as deleted
)

// Delays before an item is retried: the first and the longest; each retry doubles the delay.
var (
	raceDelays  = [2]time.Duration{time.Millisecond, time.Second}       // a concurrent write came first
	errorDelays = [2]time.Duration{100 * time.Millisecond, time.Minute} // the write was rejected
	kindDelays  = [2]time.Duration{time.Second, 10 * time.Minute}       // a kind is not served
)

// errRace reports that an item changed after the collector read it.
var errRace = errors.New("the object was changed meanwhile")

// errUnserved reports that the decision depends on a kind that is not served.
var errUnserved = errors.New("a kind is not served")

// Stats counts what a collector has done.
type Stats struct {
	Reads     int64 // objects read, owners and dependents
	Deletes   int64 // dependents deleted, or marked for deletion
	Stripped  int64 // dependents whose references were changed
	Released  int64 // owners that lost a finalizer of a deletion policy
	Retries   int64 // items queued again after an error
	Unserved  int64 // of these, because a kind is not served
	Owned     int   // references in the index
	Unsettled int   // items queued or being processed
}

// Collector is the garbage collector of one server. It observes the server's live views and works
// while Run runs. All methods are safe for concurrent use, except those of watch.Observer: only the
// dispatcher calls them.
type Collector struct {
	wake  chan struct{} // holds a token when Run should check the queue
	owned atomic.Int64  // the size of the index, readable without the lock

	reads, deletes, stripped, released, retries, unserved atomic.Int64

	mu      sync.Mutex // taken after the locks of live views; no callbacks run under it
	index   index
	waiting map[meta.UID]wait // owners in foreground deletion that wait for dependents
	filled  map[string]bool   // prefixes of the kinds that Filled has loaded
	gone    departed          // owners whose deletion was observed
	queue   queue
	workers int
	resting bool // another process leads, and nothing is queued
}

// wait records why an owner still waits.
type wait struct {
	key     string // of the owner
	blocker string // a dependent that blocks it; a change of it requeues the owner
}

var _ watch.Observer = (*Collector)(nil)

// New returns an empty collector.
func New() *Collector {
	return &Collector{
		wake: make(chan struct{}, 1), index: newIndex(), waiting: map[meta.UID]wait{},
		filled: map[string]bool{}, queue: newQueue(),
	}
}

// TakeOver makes a new collector continue from the state of another one, for a fork of its server.
// It takes microseconds. Only the items that the other collector has not settled are queued. The
// live views of both servers must not change meanwhile.
func (c *Collector) TakeOver(from *Collector) {
	from.mu.Lock()
	index, waiting, queue, filled := index{from.index.names.Snapshot()}, maps.Clone(from.waiting), from.queue.copyFor(), maps.Clone(from.filled)
	from.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index, c.waiting, c.queue, c.filled = index, waiting, queue, filled
	c.count()
	c.signal()
}

// Stats returns the counts so far.
func (c *Collector) Stats() Stats {
	s := Stats{
		Reads: c.reads.Load(), Deletes: c.deletes.Load(), Stripped: c.stripped.Load(), Released: c.released.Load(),
		Retries: c.retries.Load(), Unserved: c.unserved.Load(), Owned: int(c.owned.Load()),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Unsettled = len(c.queue.state)
	return s
}

// Filled replaces the index entries of a kind with those of its objects. It queues every object
// that has owners or is being deleted.
func (c *Collector) Filled(prefix string, entries iter.Seq[*watch.Entry]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stale := map[string][]meta.UID{}
	if c.filled[prefix] { // otherwise the index has no entries of the kind
		for owner, key := range c.index.below(prefix) {
			stale[key] = append(stale[key], owner)
		}
	}
	for e := range entries {
		for _, owner := range stale[e.Key()] {
			if !slices.Contains(e.Owners(), owner) {
				c.index.remove(owner, e.Key())
			}
		}
		delete(stale, e.Key())
		for _, owner := range e.Owners() {
			c.index.add(owner, e.Key())
		}
		if len(e.Owners()) > 0 || e.Deleting() {
			c.add(item{key: e.Key()})
		}
	}
	for key, owners := range stale {
		for _, owner := range owners {
			c.index.remove(owner, key)
		}
	}
	if c.filled[prefix] {
		c.reconsider()
	}
	c.filled[prefix] = true
	c.count()
	c.signal()
}

// reconsider queues every waiting owner and the dependents of every owner. It runs when a kind is
// loaded again, because the collector did not observe which of its objects were deleted meanwhile.
func (c *Collector) reconsider() {
	for _, w := range c.waiting {
		c.add(item{key: w.key})
	}
	last := meta.UID("")
	for owner := range c.index.below("") {
		if owner != last {
			c.add(item{owner: owner})
			last = owner
		}
	}
}

// Changed updates the index and queues the objects that a change affects. It must cost nothing for
// objects without owners, since most of them own nothing either.
func (c *Collector) Changed(prev, next *watch.Entry) {
	switch {
	case prev != nil && next != nil && prev.UID() != next.UID():
		c.Changed(prev, nil)
		c.Changed(nil, next)
	case next == nil:
		if len(prev.Owners()) > 0 || prev.Deleting() || c.owned.Load() > 0 {
			c.removed(prev)
		}
	case len(next.Owners()) > 0 || next.Deleting() || prev != nil && len(prev.Owners()) > 0:
		c.stored(prev, next)
	}
}

// add queues an item, unless another process does the work. The caller holds the lock.
func (c *Collector) add(i item) {
	if !c.resting {
		c.queue.add(i)
	}
}

func (c *Collector) removed(e *watch.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, owner := range e.Owners() {
		c.index.remove(owner, e.Key())
		c.unblock(owner, e.Key())
	}
	delete(c.waiting, e.UID())
	if _, has := c.index.first(e.UID(), ""); has {
		c.gone.add(e.UID())
		c.add(item{owner: e.UID()})
	}
	c.count()
	c.signal()
}

func (c *Collector) stored(prev, next *watch.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var before []meta.UID
	if prev != nil {
		before = prev.Owners()
	}
	// Changed references queue the object even if the owners are the same. They may describe an
	// owner differently, or the object may be stuck because of an owner that it no longer has.
	news := next.Deleting() || prev != nil && len(next.Owners()) > 0 && !next.SameOwners(prev)
	for _, owner := range before {
		if !slices.Contains(next.Owners(), owner) {
			c.index.remove(owner, next.Key())
		}
		c.unblock(owner, next.Key())
	}
	for _, owner := range next.Owners() {
		if !slices.Contains(before, owner) {
			c.index.add(owner, next.Key())
			news = true
		}
	}
	if news {
		c.add(item{key: next.Key()})
	}
	c.count()
	c.signal()
}

// unblock queues an owner that waits for a dependent which has changed. The caller holds the lock.
func (c *Collector) unblock(owner meta.UID, dependent string) {
	if w, waits := c.waiting[owner]; waits && w.blocker == dependent {
		c.add(item{key: w.key})
	}
}

// count publishes the size of the index. The caller holds the lock.
func (c *Collector) count() { c.owned.Store(int64(c.index.names.Len())) }

// signal wakes Run if an item is ready. The caller holds the lock.
func (c *Collector) signal() {
	if len(c.queue.ready) == 0 {
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run processes the queue, while this process leads, until ctx ends. It returns when no worker is busy
// any more.
func (c *Collector) Run(ctx context.Context, e *engine.Engine) {
	if !e.Leader().Leads() {
		c.rest()
	}
	e.Leader().While(ctx, func(during context.Context) {
		c.resume(e)
		c.run(during, e)
		if ctx.Err() == nil {
			c.rest() // when the server stops, a fork may continue with the items
		}
	})
}

// rest forgets what is to be done: the leader does it.
func (c *Collector) rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resting, c.queue = true, newQueue()
	clear(c.waiting)
}

// resume queues what the collector would have queued since it rests: every object that has owners or is
// being deleted. Kinds that are not loaded yet follow with Filled.
func (c *Collector) resume(e *engine.Engine) {
	c.mu.Lock()
	rested := c.resting
	c.resting = false
	c.mu.Unlock()
	if !rested {
		return
	}
	for served := range e.Set().Stored() {
		c.queueAll(served.Cache.Snapshot(), storage.ResourcePrefix(served.Resource.StorageName))
	}
}

func (c *Collector) queueAll(all *watch.Snapshot, prefix string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := range all.Ascend(prefix, "") {
		if len(e.Owners()) > 0 || e.Deleting() {
			c.add(item{key: e.Key()})
		}
	}
	c.signal()
}

func (c *Collector) run(ctx context.Context, e *engine.Engine) {
	var workers sync.WaitGroup
	defer workers.Wait()
	s := &session{Collector: c, engine: e, log: e.Logger().WithName("garbage-collector")}
	ctx = authn.WithUser(ctx, user)
	timer := time.NewTimer(0)
	defer timer.Stop()
	generation := e.Set().Generation()
	for {
		renewed := e.Renewed()
		if now := e.Set().Generation(); now != generation {
			generation = now
			c.hurry()
		}
		for i, ok := c.hire(); ok; i, ok = c.hire() {
			workers.Go(func() { s.work(ctx, i) })
		}
		if next, any := c.due(time.Now()); any {
			timer.Reset(next)
		}
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-renewed:
		case <-timer.C:
		}
	}
}

func (c *Collector) hurry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue.hurry()
	c.signal()
}

// due returns the time until the next delayed item is due. Items that are due by now become ready.
func (c *Collector) due(now time.Time) (next time.Duration, any bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, any := c.queue.wake(now)
	if len(c.queue.ready) > 0 && c.workers < maxWorkers {
		return 0, true // an item has just become due
	}
	return at.Sub(now), any
}

// hire reports whether another worker should start, and hands it its first item. Each worker starts
// with an item, so there are never more workers than items.
func (c *Collector) hire() (item, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue.wake(time.Now())
	if c.workers == maxWorkers {
		return item{}, false
	}
	i, ok := c.queue.take()
	if ok {
		c.workers++
	}
	return i, ok
}

// next hands a worker its next item. Without one the worker no longer counts as busy.
func (c *Collector) next() (item, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok := c.queue.take()
	if !ok {
		c.workers--
	}
	return i, ok
}

// settle removes an item from the queue, or delays it after an error. It returns how often the item
// has failed before.
func (c *Collector) settle(i item, err error) (tries int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.signal()
	if err == nil {
		c.queue.done(i)
		return 0
	}
	tries = c.queue.tried(i)
	bounds, slow := errorDelays, false
	switch {
	case errors.Is(err, errRace):
		bounds = raceDelays
	case errors.Is(err, errUnserved):
		bounds, slow = kindDelays, true
		c.unserved.Add(1)
	}
	c.retries.Add(1)
	pause := min(bounds[0]<<min(tries, 20), bounds[1])
	c.queue.delay(i, time.Now().Add(pause), slow)
	select {
	case c.wake <- struct{}{}: // Run resets its timer
	default:
	}
	return tries
}

// departed remembers the owners that were most recently deleted.
type departed struct {
	known map[meta.UID]struct{}
	order []meta.UID
}

func (m *departed) add(uid meta.UID) {
	if m.known == nil {
		m.known = map[meta.UID]struct{}{}
	}
	if _, known := m.known[uid]; known {
		return
	}
	if len(m.order) == maxGone {
		delete(m.known, m.order[0])
		m.order = m.order[1:]
	}
	uid = meta.UID(string(append([]byte(nil), uid...))) // it may share memory with an object's JSON
	m.known[uid] = struct{}{}
	m.order = append(m.order, uid)
}

// session is a running collector.
type session struct {
	*Collector
	engine *engine.Engine
	log    logr.Logger

	kinds atomic.Pointer[kinds]
}

// work processes an item, then further items until the queue is empty.
func (s *session) work(ctx context.Context, i item) {
	for ok := true; ok; i, ok = s.next() {
		err := s.look(ctx, i)
		if ctx.Err() != nil {
			err = ctx.Err() // the item stays queued; a fork may continue with it
		}
		tries := s.settle(i, err)
		if ctx.Err() != nil {
			s.leave()
			return
		}
		switch {
		case err == nil || errors.Is(err, errRace):
		case errors.Is(err, errUnserved):
			s.log.V(1).Info("An object waits for a kind that is not served.", "key", i.key, "reason", err.Error())
		case tries == 0:
			s.log.Error(err, "failed to process an object; retrying", guard.WithStack(err, "key", i.key)...)
		}
	}
}

// leave records that a worker stops although items may be left.
func (c *Collector) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers--
}

// look processes one item. A panic in a rule of a kind becomes an error of the item.
func (s *session) look(ctx context.Context, i item) (err error) {
	defer guard.Recover(&err, "a rule")
	if i.key == "" {
		s.spread(i.owner)
		return nil
	}
	o, err := s.read(ctx, i.key)
	if errors.Is(err, errUnreadable) {
		return nil // the collector is told when it can be read, or is gone
	}
	if err != nil || o == nil {
		return err
	}
	switch {
	case o.deleting(meta.FinalizerOrphanDependents):
		return s.orphan(ctx, o)
	case o.deleting(meta.FinalizerDeleteDependents):
		return s.await(ctx, o)
	}
	s.endWait(o.uid()) // another client may have removed its finalizer
	if o.entry.Deleting() {
		return nil // it is removed with its last finalizer
	}
	return s.judge(ctx, o)
}

// spread queues every object that names an owner.
func (c *Collector) spread(owner meta.UID) {
	for after, more := "", true; more; {
		after, more = c.spreadSome(owner, after)
	}
}

func (c *Collector) spreadSome(owner meta.UID, after string) (last string, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for key := range c.index.dependents(owner, after) {
		c.add(item{key: key})
		last, n = key, n+1
		if n == chunk {
			break
		}
	}
	c.signal()
	return last, n == chunk
}
