package watch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/storage"
)

const (
	// observerLimit is how long a write waits for the observers of its kind before it is answered
	// without them.
	observerLimit = 2 * time.Second

	// maxUntold is how many changes wait for a slow observer. Beyond that it is told everything anew.
	maxUntold = 4096
)

var (
	errNotFilled = errors.New("its objects have not been loaded yet")
	errLate      = errors.New("it does not keep up with the changes")
	errAnew      = errors.New("it is being told everything anew")
)

// Observation tells one observer what the cache of one kind shows. Make it with [Dispatcher.Observe].
//
// The observer runs in a goroutine of its own, and the dispatcher waits for it: a change is published,
// and the write that made it answered, when the observer has returned from being told. So what an
// observer decides after a write was answered, it decides knowing of that write.
//
// An observer that panics or blocks cannot hold up the server. When it has panicked, it is told
// everything anew by Filled, with pauses that grow if it goes on panicking. When it takes longer than
// two seconds, writes are answered without it, and it catches up when it can. In both cases
// [Observation.Err] says so from before the write is answered until the observer knows everything again:
// whoever relies on the observer asks Err first and then cannot miss a change.
type Observation struct {
	dispatcher *Dispatcher
	prefix     string
	observer   Observer
	current    atomic.Bool           // Err returns nil, unless something is missing
	missing    atomic.Pointer[error] // why not everything that exists can be told; nil if it can

	mu     sync.Mutex
	fill   []*Entry // what Filled is to be told, if anew is set
	anew   bool
	untold []observed      // what Changed is to be told after that
	lost   bool            // untold was too long: all is to be told anew
	ended  bool            // Run has returned
	busy   bool            // the observer is in a call
	drops  int             // how often the kind has gone
	filled bool            // the observer has been told of all objects that there are
	behind bool            // writes do not wait for it
	reason error           // what Err returns
	done   []chan struct{} // closed when everything has been told

	work chan struct{} // has a value when there is something to tell
}

// observed is a call of Changed.
type observed struct{ prev, next *Entry }

// Observe tells an observer of one kind, which may be added later. The caller calls [Observation.Run],
// which does the telling. It fails when the dispatcher has ended.
func (d *Dispatcher) Observe(storageName string, o Observer) (*Observation, error) {
	one := &Observation{
		dispatcher: d, prefix: storage.ResourcePrefix(storageName), observer: o,
		reason: errNotFilled, work: make(chan struct{}, 1),
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return nil, ErrEnded
	}
	all := maps.Clone(*d.observed.Load())
	all[one.prefix] = append(slices.Clip(all[one.prefix]), one)
	d.observed.Store(&all)
	d.tellAll(one)
	return one, nil
}

// AwaitObservers blocks until the observers of the kind, if there are any, know of a revision. It waits
// longer than the dispatcher waits for them one after the other. So an observer that is too late is
// known to be behind when the write is answered.
func (c *Cache) AwaitObservers(ctx context.Context, revision storage.Revision) {
	observers := len((*c.dispatcher.observed.Load())[c.prefix])
	if observers == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(observers+1)*observerLimit)
	defer cancel()
	_ = c.WaitFor(ctx, revision) // what is stored is a success, even if the view has ended
}

// await waits for the observers of the kinds that a batch has changed. The caller holds the lock.
func (d *Dispatcher) await(batch *storage.Batch) {
	all := *d.observed.Load()
	if len(all) == 0 {
		return
	}
	for i := range batch.Changes {
		for _, o := range all[storage.ResourcePrefixOf(batch.Changes[i].Key)] {
			o.await()
		}
	}
}

// awaitAll waits for the observers of all kinds. The caller holds the lock.
func (d *Dispatcher) awaitAll() {
	for _, some := range *d.observed.Load() {
		for _, o := range some {
			o.await()
		}
	}
}

// tellAll has an observer told of everything that its kind has, if the kind is there. The caller holds
// the lock.
func (d *Dispatcher) tellAll(o *Observation) {
	c, ok := d.caches[o.prefix]
	if !ok || c.loading != nil {
		return
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.err == nil {
		o.miss(c.unreadable)
		o.tell(c.entries())
	}
}

// Err returns nil when the observer knows everything that is visible, and every change that a write was
// answered for. Otherwise it says why not.
func (o *Observation) Err() error {
	if missing := o.missing.Load(); missing != nil {
		return *missing
	}
	if o.current.Load() {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.reason
}

// Run tells the observer what there is to tell until ctx ends. It starts no goroutine.
func (o *Observation) Run(ctx context.Context) {
	defer o.end()
	var pause backoff
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.work:
		}
		if err := o.deliver(); err != nil {
			o.dispatcher.logger.Error(err, "An observer has failed and is told everything anew.", "prefix", o.prefix)
			if pause.wait(ctx) != nil {
				return
			}
			o.again()
			continue
		}
		pause.reset()
	}
}

// end notes that nobody is told any more.
func (o *Observation) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.release()
}

// deliver tells the observer everything that waits.
func (o *Observation) deliver() error {
	for {
		o.mu.Lock()
		if o.lost {
			o.mu.Unlock()
			o.again()
			continue
		}
		fill, anew, untold, drops := o.fill, o.anew, o.untold, o.drops
		o.fill, o.anew, o.untold = nil, false, nil
		if !anew && len(untold) == 0 {
			o.settle()
			o.mu.Unlock()
			return nil
		}
		o.busy = true
		o.mu.Unlock()
		err := o.call(fill, anew, untold)
		o.mu.Lock()
		o.busy = false
		if err == nil {
			o.filled = o.filled || anew && drops == o.drops
		} else {
			o.fail(err)
		}
		o.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// call makes the calls of the observer. A panic in it is an error.
func (o *Observation) call(fill []*Entry, anew bool, untold []observed) (err error) {
	defer guard.Recover(&err, "the observer")
	if anew {
		o.observer.Filled(o.prefix, slices.Values(fill))
	}
	for _, c := range untold {
		o.observer.Changed(c.prev, c.next)
	}
	return nil
}

// settle notes that the observer knows everything that it was to be told. The caller holds the lock.
func (o *Observation) settle() {
	if o.filled {
		o.reason, o.behind = nil, false
		o.current.Store(true)
	}
	o.release()
}

// fail notes that what the observer knows cannot be relied on. The caller holds the lock.
func (o *Observation) fail(err error) {
	o.reason, o.behind = err, true
	o.current.Store(false)
	o.release()
}

// release lets go of those who wait. The caller holds the lock.
func (o *Observation) release() {
	for _, ch := range o.done {
		close(ch)
	}
	o.done = nil
}

// again has the observer told everything anew. What waits to be told is a part of that.
func (o *Observation) again() {
	o.dispatcher.mu.Lock()
	defer o.dispatcher.mu.Unlock()
	o.mu.Lock()
	o.fill, o.anew, o.untold, o.lost = nil, false, nil, false
	o.mu.Unlock()
	o.dispatcher.tellAll(o)
}

// tell has Filled called with these entries, in place of what waits to be told. The caller holds the
// cache's lock.
func (o *Observation) tell(entries []*Entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fill, o.anew, o.untold, o.lost = entries, true, nil, false
	o.awaken()
}

// changed has Changed called. The caller holds the cache's lock.
func (o *Observation) changed(prev, next *Entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.filled && !o.anew && !o.busy {
		return // there is nothing yet that this would change
	}
	if len(o.untold) >= maxUntold {
		o.untold, o.lost = nil, true
		o.fail(errAnew)
	}
	if !o.lost {
		o.untold = append(o.untold, observed{prev, next})
	}
	o.awaken()
}

// drop notes that the kind is not followed any more. The caller holds the cache's lock.
func (o *Observation) drop(why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fill, o.anew, o.untold, o.lost, o.filled = nil, false, nil, false, false
	o.drops++
	o.fail(why)
	o.behind = false // writes wait for it again when the kind is back
}

func (o *Observation) awaken() {
	select {
	case o.work <- struct{}{}:
	default:
	}
}

// await waits until the observer has been told everything, unless it is known to be behind. The caller
// holds the dispatcher's lock.
func (o *Observation) await() {
	o.mu.Lock()
	if o.behind || o.ended || !o.waits() {
		o.mu.Unlock()
		return
	}
	done := make(chan struct{})
	o.done = append(o.done, done)
	o.mu.Unlock()
	timer := time.NewTimer(observerLimit)
	defer timer.Stop()
	select {
	case <-done:
		return
	case <-timer.C:
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waits() {
		o.fail(errLate)
		o.dispatcher.logger.Error(errLate, "A write was answered before an observer knew of it.", "prefix", o.prefix)
	}
}

// waits tells whether the observer has not been told everything. The caller holds the lock.
func (o *Observation) waits() bool { return o.busy || o.anew || o.lost || len(o.untold) > 0 }

// entries are what the cache shows. The caller holds its lock.
func (c *Cache) entries() []*Entry {
	out := make([]*Entry, 0, c.tree.Len())
	for entry := range c.tree.Ascend(placeOf("")) {
		out = append(out, entry)
	}
	return out
}
