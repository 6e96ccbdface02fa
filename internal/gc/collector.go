package gc

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/watch"
)

// user is who deletes on behalf of owners that are gone, as admission, hooks and logs see it.
var user = authn.User{
	Name:   "system:serviceaccount:kube-system:generic-garbage-collector",
	Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", authn.GroupAuthenticated, authn.GroupMasters},
}

const (
	maxWorkers = 16   // writers that share the sync of a store
	chunk      = 256  // keys looked up under one lock
	maxGone    = 4096 // owners that are remembered to be gone
)

// How long an item waits before it is looked at again: from and to, doubled each time.
var (
	raceDelays  = [2]time.Duration{time.Millisecond, time.Second}       // another write was faster
	errorDelays = [2]time.Duration{100 * time.Millisecond, time.Minute} // something refused
	kindDelays  = [2]time.Duration{time.Second, 10 * time.Minute}       // a kind is not served
)

// errRace is returned for an item that has changed since it was looked at.
var errRace = errors.New("it was changed meanwhile")

// errUnserved is returned where the answer depends on a kind that is not served.
var errUnserved = errors.New("a kind is not served")

// Stats counts what a collector has done.
type Stats struct {
	Reads     int64 // objects read, owners and dependents
	Deletes   int64 // dependents deleted, or marked for deletion
	Stripped  int64 // dependents whose references were changed
	Released  int64 // owners that lost a finalizer of a deletion policy
	Retries   int64 // times something had to be looked at again
	Unserved  int64 // of these, for want of a kind
	Owned     int   // references in the index
	Unsettled int   // items that are to be looked at, or are being looked at
}

// Collector is the garbage collector of one server. It is the observer of the server's live views, and does its work while
// Run runs. All methods are safe for concurrent use; those of watch.Observer are for the dispatcher alone.
type Collector struct {
	wake  chan struct{} // holds a token when somebody should look at the queue
	owned atomic.Int64  // the size of the index, to look at without the lock

	reads, deletes, stripped, released, retries, unserved atomic.Int64

	mu      sync.Mutex // taken after those of the live views; nothing is called while it is held
	index   index
	waiting map[meta.UID]wait // owners that wait for their dependents in foreground deletion
	filled  map[string]bool   // the prefixes of the kinds that Filled was told of
	gone    departed          // owners that were seen to go
	queue   queue
	workers int
}

// wait is why an owner still waits.
type wait struct {
	key     string // of the owner
	blocker string // a dependent that blocks it; the owner is looked at again when that changes
}

var _ watch.Observer = (*Collector)(nil)

// New returns a collector that knows of nothing.
func New() *Collector {
	return &Collector{wake: make(chan struct{}, 1), index: newIndex(), waiting: map[meta.UID]wait{}, filled: map[string]bool{}, queue: newQueue()}
}

// TakeOver makes a new collector go on from where another one is, for a fork of its server: it takes microseconds, and nothing
// is looked at again but what the other one has not settled. The live views of both servers stand still meanwhile.
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

// Stats returns what has been done so far.
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

// Filled makes the index that of a kind's objects, and has all of them looked at that have owners or are being deleted.
func (c *Collector) Filled(prefix string, entries iter.Seq[*watch.Entry]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stale := map[string][]meta.UID{}
	if c.filled[prefix] { // else there is nothing of it
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
			c.queue.add(item{key: e.Key()})
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

// reconsider has everything looked at that a kind may have had a part in which was told of before: of its objects it is not
// known which have gone.
func (c *Collector) reconsider() {
	for _, w := range c.waiting {
		c.queue.add(item{key: w.key})
	}
	last := meta.UID("")
	for owner := range c.index.below("") {
		if owner != last {
			c.queue.add(item{owner: owner})
			last = owner
		}
	}
}

// Changed keeps the index, and has the objects looked at that a change of one concerns. Of objects without owners, most of
// which nobody has as their owner, it must cost nothing.
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
		c.queue.add(item{owner: e.UID()})
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
	// References that changed are news, also where the owners are the same: they may say other things of them, or nobody could judge the
	// object for the sake of one that it had.
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
		c.queue.add(item{key: next.Key()})
	}
	c.count()
	c.signal()
}

// unblock has an owner looked at that waits for a dependent which has changed. The caller holds the lock.
func (c *Collector) unblock(owner meta.UID, dependent string) {
	if w, waits := c.waiting[owner]; waits && w.blocker == dependent {
		c.queue.add(item{key: w.key})
	}
}

// count notes the size of the index. The caller holds the lock.
func (c *Collector) count() { c.owned.Store(int64(c.index.names.Len())) }

// signal wakes Run if there is something for it. The caller holds the lock.
func (c *Collector) signal() {
	if len(c.queue.ready) == 0 {
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run looks at what there is to look at until ctx ends, and returns when nothing is being looked at any more.
func (c *Collector) Run(ctx context.Context, e *engine.Engine) {
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

// due says how long it is to the next item that is delayed. What is due by now is ready.
func (c *Collector) due(now time.Time) (next time.Duration, any bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, any := c.queue.wake(now)
	if len(c.queue.ready) > 0 && c.workers < maxWorkers {
		return 0, true // it became due in this moment
	}
	return at.Sub(now), any
}

// hire tells whether another worker is wanted, who then is at work. Each takes an item at once, so there are never more of
// them than items.
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

// next hands a worker its next item; without one he is no longer at work.
func (c *Collector) next() (item, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok := c.queue.take()
	if !ok {
		c.workers--
	}
	return i, ok
}

// settle puts an item away, or back if it was looked at in vain. It returns how often that happened before.
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
	case c.wake <- struct{}{}: // Run sets its timer anew
	default:
	}
	return tries
}

// departed are the last of the owners that were seen to go.
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
	uid = meta.UID(string(append([]byte(nil), uid...))) // it may be a part of an object's text
	m.known[uid] = struct{}{}
	m.order = append(m.order, uid)
}

// session is a collector at work.
type session struct {
	*Collector
	engine *engine.Engine
	log    logr.Logger

	kinds atomic.Pointer[kinds]
}

// work looks at an item, and at others until there are none.
func (s *session) work(ctx context.Context, i item) {
	for ok := true; ok; i, ok = s.next() {
		err := s.look(ctx, i)
		if ctx.Err() != nil {
			err = ctx.Err() // the item stays; a fork may go on with it
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
			s.log.Error(err, "an object could not be collected; trying again", "key", i.key)
		}
	}
}

// leave notes that a worker stops although there may be more to do.
func (c *Collector) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers--
}

// look looks at one item. A panic in a rule of a kind is an error of the item.
func (s *session) look(ctx context.Context, i item) (err error) {
	defer func() {
		if v := recover(); v != nil {
			s.log.Error(fmt.Errorf("panic: %v", v), "looking at an object failed", "key", i.key, "stack", string(debug.Stack()))
			err = errors.New("looking at it panicked")
		}
	}()
	if i.key == "" {
		s.spread(i.owner)
		return nil
	}
	o, err := s.read(ctx, i.key)
	if err != nil || o == nil {
		return err
	}
	switch {
	case o.deleting(registry.FinalizerOrphan):
		return s.orphan(ctx, o)
	case o.deleting(registry.FinalizerForeground):
		return s.await(ctx, o)
	}
	s.endWait(o.uid()) // somebody may have taken its finalizer off
	if o.entry.Deleting() {
		return nil // it goes when its own finalizers have
	}
	return s.judge(ctx, o)
}

// spread has everything looked at that names an owner.
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
		c.queue.add(item{key: key})
		last, n = key, n+1
		if n == chunk {
			break
		}
	}
	c.signal()
	return last, n == chunk
}
