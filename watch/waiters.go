package watch

import (
	"container/heap"
	"sync"

	"github.com/kindwright/kindwright/storage"
)

// waiters is a heap of waits for a revision, lowest first, so that publishing a revision looks only
// at those it ends.
type waiters struct {
	mu   sync.Mutex // taken after every other lock
	heap waiterHeap
}

type waiter struct {
	revision storage.Revision
	woken    chan struct{} // closed when the revision is published
	at       int           // index in the heap, or -1
}

func (ws *waiters) add(revision storage.Revision) *waiter {
	w := &waiter{revision: revision, woken: make(chan struct{})}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	heap.Push(&ws.heap, w)
	return w
}

func (ws *waiters) remove(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.at >= 0 {
		heap.Remove(&ws.heap, w.at)
	}
}

// reached wakes everyone who waits for this revision or a lower one.
func (ws *waiters) reached(revision storage.Revision) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for len(ws.heap) > 0 && ws.heap[0].revision <= revision {
		close(heap.Pop(&ws.heap).(*waiter).woken)
	}
}

type waiterHeap []*waiter

func (h waiterHeap) Len() int           { return len(h) }
func (h waiterHeap) Less(i, j int) bool { return h[i].revision < h[j].revision }
func (h waiterHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push implements heap.Interface.
func (h *waiterHeap) Push(x any) {
	w := x.(*waiter)
	w.at = len(*h)
	*h = append(*h, w)
}

// Pop implements heap.Interface.
func (h *waiterHeap) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	w.at = -1
	return w
}
