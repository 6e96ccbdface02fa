package kube

import (
	"context"
	"slices"
	"sync"
)

// queue has the writes of a namespace settle their quotas one batch at a time: one of them does it for all
// that have come until then, and leaves the turn to one of those that came later. So many writers
// write a quota seldom, and never against each other.
type queue struct {
	mu    sync.Mutex
	lines map[string]*line // namespaces in which somebody settles
}

// line is who waits in one namespace.
type line struct{ waiting []*charge }

// wait returns when a write is settled, by settle or by another write's.
func (q *queue) wait(ctx context.Context, c *charge, settle func(batch []*charge)) error {
	namespace := c.r.Namespace
	if q.join(namespace, c) {
		select {
		case settled := <-c.ready:
			if settled {
				return c.err
			}
		case <-ctx.Done():
			if q.leave(namespace, c) {
				return context.Cause(ctx)
			}
			if <-c.ready { // somebody has begun to settle it
				return c.err
			}
		}
	}
	batch, finished := q.take(namespace), false
	defer func() {
		if !finished { // it panicked
			fail(batch, errUnsettled)
		}
		q.next(namespace, batch, c)
	}()
	settle(batch)
	finished = true
	return c.err
}

// join puts a write into the line, and reports whether it has to wait.
func (q *queue) join(namespace string, c *charge) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[namespace]
	busy := l != nil
	if !busy {
		l = &line{}
		q.lines[namespace] = l
	}
	l.waiting = append(l.waiting, c)
	return busy
}

// leave takes a write out of the line, and reports whether it was still there with nobody counting on it.
func (q *queue) leave(namespace string, c *charge) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[namespace]
	if l == nil || c.appointed {
		return false
	}
	i := slices.Index(l.waiting, c)
	if i < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	return true
}

// take returns all who wait.
func (q *queue) take(namespace string) []*charge {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[namespace]
	batch := l.waiting
	l.waiting = nil
	return batch
}

// next tells the others of a batch that they are settled, and leaves the turn to one who came later.
func (q *queue) next(namespace string, batch []*charge, own *charge) {
	for _, c := range batch {
		if c != own {
			c.ready <- true
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[namespace]
	if len(l.waiting) == 0 {
		delete(q.lines, namespace)
		return
	}
	l.waiting[0].appointed = true
	l.waiting[0].ready <- false
}
