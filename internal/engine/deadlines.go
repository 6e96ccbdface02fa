package engine

import (
	"container/heap"
	"time"

	"github.com/kindwright/kindwright/storage"
)

// deadline is the time at which one state of an object ends.
type deadline struct {
	at  time.Time
	key string
	rev storage.Revision
}

// deadlines is a queue with at most one deadline for each object: that of its newest state. The zero
// value is empty. It must not be used concurrently.
type deadlines struct {
	heap  deadlineHeap
	place map[string]*int // index in heap, by key
}

// set gives an object a deadline. It reports whether that is now the first of all. It ignores a state
// that is not newer than the one that the queue has.
func (q *deadlines) set(d deadline) (first bool) {
	if at, ok := q.place[d.key]; ok {
		if q.heap[*at].rev >= d.rev {
			return false
		}
		q.heap[*at].deadline = d
		heap.Fix(&q.heap, *at)
		return *at == 0
	}
	if q.place == nil {
		q.place = map[string]*int{}
	}
	at := new(int)
	q.place[d.key] = at
	heap.Push(&q.heap, placed{d, at})
	return *at == 0
}

// first returns the earliest deadline.
func (q *deadlines) first() (d deadline, ok bool) {
	if len(q.heap) == 0 {
		return deadline{}, false
	}
	return q.heap[0].deadline, true
}

// pop removes and returns the earliest deadline if it is not after now.
func (q *deadlines) pop(now time.Time) (d deadline, ok bool) {
	if d, ok = q.first(); !ok || d.at.After(now) {
		return deadline{}, false
	}
	heap.Pop(&q.heap)
	delete(q.place, d.key)
	return d, true
}

// drop removes the deadline of an object if it is still the given one.
func (q *deadlines) drop(d deadline) {
	if at, ok := q.place[d.key]; ok && q.heap[*at].rev == d.rev {
		heap.Remove(&q.heap, *at)
		delete(q.place, d.key)
	}
}

// all returns every deadline, in no order.
func (q *deadlines) all() []deadline {
	out := make([]deadline, len(q.heap))
	for i, p := range q.heap {
		out[i] = p.deadline
	}
	return out
}

// placed is a deadline that knows where in the heap it is.
type placed struct {
	deadline
	at *int
}

// deadlineHeap implements heap.Interface.
type deadlineHeap []placed

func (h deadlineHeap) Len() int           { return len(h) }
func (h deadlineHeap) Less(i, j int) bool { return h[i].deadline.at.Before(h[j].deadline.at) }

// Swap swaps two deadlines.
func (h deadlineHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	*h[i].at, *h[j].at = i, j
}

// Push adds a deadline; package heap calls it.
func (h *deadlineHeap) Push(x any) {
	p := x.(placed)
	*p.at = len(*h)
	*h = append(*h, p)
}

// Pop takes the last deadline; package heap calls it.
func (h *deadlineHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = placed{}
	*h = old[:len(old)-1]
	return last
}
