package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// expiry removes the objects of one resource when their time to live has passed since the last
// write (EVT-02, STORE-06). It tracks the deadline of every object that it was told of. It skips a
// state that was overwritten meanwhile, so an update renews the object (design rule 23).
type expiry struct {
	ttl time.Duration

	mu    sync.Mutex
	queue deadlines
	most  int           // the length of queue at which the deadlines of deleted objects are dropped
	wake  chan struct{} // holds a token when the earliest deadline has changed, or queue is too long
}

// idleDeadlines is how many deadlines of deleted objects are kept at least before any are dropped.
const idleDeadlines = 1024

func newExpiry(ttl time.Duration) *expiry {
	return &expiry{ttl: ttl, most: idleDeadlines, wake: make(chan struct{}, 1)}
}

// note sets the deadline of a record, given the time it was written. A record without that time was
// written before the kind had a time to live, which then counts from now. So it does for a record that is
// further in the future than the time to live: it is from a clock that this process does not share, as
// that of a fork in a bubble. note is called for every state that is decoded, old ones included, and
// never blocks.
func (x *expiry) note(key string, rev storage.Revision, written time.Time) {
	if x == nil {
		return
	}
	now := time.Now()
	if written.IsZero() || written.Sub(now) > x.ttl {
		written = now
	}
	// From now on the time that has passed counts. A clock that is set an hour forward would end all.
	at := now.Add(x.ttl - now.Sub(written))
	x.mu.Lock()
	first := x.queue.set(deadline{at, key, rev})
	long := len(x.queue.heap) > x.most
	x.mu.Unlock()
	if first || long {
		select {
		case x.wake <- struct{}{}:
		default:
		}
	}
}

// due removes and returns the deadlines that have passed. next is the time until the following
// deadline; any is false if there is none.
func (x *expiry) due(now time.Time) (passed []deadline, next time.Duration, any bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for d, ok := x.queue.pop(now); ok; d, ok = x.queue.pop(now) {
		passed = append(passed, d)
	}
	d, any := x.queue.first()
	return passed, d.at.Sub(now), any
}

// tidy drops the deadlines of objects that were deleted, once they may be more than half of all.
// Otherwise a client that creates and deletes objects, or that reads old states of deleted ones, would
// have the queue grow until the time to live has passed.
func (x *expiry) tidy(live *watch.Cache) {
	x.mu.Lock()
	var all []deadline
	if len(x.queue.heap) > x.most {
		all = x.queue.all()
	}
	x.mu.Unlock()
	if all == nil {
		return
	}
	complete := live.Revision() // a state above it may be of an object that the view does not have yet
	gone := slices.DeleteFunc(all, func(d deadline) bool {
		_, there := live.Get(d.key)
		return there || d.rev > complete
	})
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, d := range gone {
		x.queue.drop(d)
	}
	x.most = 2*len(x.queue.heap) + idleDeadlines
}

// expiryRetry is the delay before a removal that the store refused is retried.
const expiryRetry = time.Second

// sweep removes expired objects until ctx ends or the resource is no longer served. While another
// process leads, it looks which of them that process has left.
func (e *Engine) sweep(ctx context.Context, s *Served) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.Cache.Done():
			return
		case <-s.expiry.wake:
		case <-timer.C:
		}
		s.expiry.tidy(s.Cache)
		passed, next, any := s.expiry.due(time.Now())
		if e.sweepPassed(ctx, s, passed) {
			next, any = expiryRetry, true
		}
		if any {
			timer.Reset(next)
		}
	}
}

// sweepPassed removes objects whose time has passed. It reports whether some are left for later.
func (e *Engine) sweepPassed(ctx context.Context, s *Served, passed []deadline) (later bool) {
	during, release, leads := e.leader.During(ctx)
	defer release()
	for _, d := range passed {
		if !leads {
			if entry, ok := s.Cache.Get(d.key); !ok || entry.Revision() != d.rev {
				continue
			}
		} else if err := e.expire(during, s, d); err == nil || ctx.Err() != nil {
			continue
		} else if during.Err() == nil {
			e.cfg.Logger.Error(err, "failed to remove an expired object; retrying",
				guard.WithStack(err, "resource", s.Kind.GroupResource().String())...)
		}
		s.expiry.note(d.key, d.rev, time.Now().Add(expiryRetry-s.expiry.ttl))
		later = true
	}
	return later
}

// expire removes one object if it is still in the state that has expired.
func (e *Engine) expire(ctx context.Context, s *Served, due deadline) error {
	return e.endDue(ctx, expirySteps, s, due)
}

// skipHeld skips an object that waits for finalizers.
func skipHeld(_ context.Context, d *deletion) error {
	if d.served.Kind.held(d.old) {
		d.result = &registry.Result{Entry: d.entry}
	}
	return nil
}
