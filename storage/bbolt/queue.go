package bbolt

import (
	"sync"

	"github.com/kindwright/kindwright/storage"
)

// request is a call that waits for the writer.
type request struct {
	ops     []storage.Op     // of a commit
	compact storage.Revision // of a compaction, if above 0
	takes   *takeover        // of records of another store, if not nil
	done    chan struct{}    // closed when revision and err are set

	revision storage.Revision
	err      error

	// Guarded by queue.mu.
	taken     bool // the writer has it; the outcome is open until done
	withdrawn bool // its caller gave up before that: it never happens
}

func (r *request) finish(rev storage.Revision, err error) {
	r.revision, r.err = rev, err
	close(r.done)
}

// bytes is the size that the request adds to a group.
func (r *request) bytes() int {
	n := 0
	for i := range r.ops {
		n += len(r.ops[i].Key) + len(r.ops[i].Value)
	}
	return n
}

// Limits of one group of requests. They limit the memory and time of a transaction, not the
// throughput: at these sizes the sync no longer matters.
const (
	groupRequests = 1024
	groupBytes    = 16 << 20
)

// queue holds the waiting calls in the order of arrival.
type queue struct {
	work chan struct{} // capacity 1: there may be work

	mu      sync.Mutex // guards everything below
	waiting []*request
	refused error // if set, no request is accepted
	stopped bool
}

func (q *queue) init() { q.work = make(chan struct{}, 1) }

func (q *queue) wake() {
	select {
	case q.work <- struct{}{}:
	default:
	}
}

func (q *queue) push(r *request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.refused != nil {
		return q.refused
	}
	q.waiting = append(q.waiting, r)
	q.wake()
	return nil
}

// withdraw removes a request and reports whether that was still possible.
func (q *queue) withdraw(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.withdrawn = !r.taken
	return r.withdrawn
}

// take returns the next group, reusing dst. The group is empty if no request waits.
func (q *queue) take(dst []*request) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	dst = dst[:0]
	bytes, changes, n := 0, 0, 0
	for _, r := range q.waiting {
		changes += max(1, len(r.ops)) // each may take a revision
		if len(dst) == groupRequests || bytes > groupBytes || changes > reservation && len(dst) > 0 {
			break
		}
		if r.takes != nil && len(dst) > 0 || len(dst) == 1 && dst[0].takes != nil {
			break // a group of its own
		}
		n++
		if r.withdrawn {
			continue
		}
		r.taken = true
		bytes += r.bytes()
		dst = append(dst, r)
	}
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
	return dst
}

// refuse fails all waiting and all later requests. The first reason stays.
func (q *queue) refuse(reason error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.refused == nil {
		q.refused = reason
	}
	q.failWaiting()
}

// stop refuses all requests because the store closes, replacing any earlier reason, and tells the
// writer to return.
func (q *queue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refused = storage.ErrClosed
	q.failWaiting()
	q.stopped = true
	q.wake()
}

func (q *queue) failWaiting() {
	for _, r := range q.waiting {
		if !r.withdrawn {
			r.taken = true
			r.finish(0, q.refused)
		}
	}
	clear(q.waiting)
	q.waiting = q.waiting[:0]
}

func (q *queue) isStopped() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stopped
}
