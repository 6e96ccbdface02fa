package gc

import (
	"container/heap"
	"time"

	"github.com/kindwright/kindwright/meta"
)

// item is a unit of work: the object of a storage key, or all objects that name an owner.
type item struct {
	key   string
	owner meta.UID // set where key is empty
}

// queue holds the items to process. Each item is in it once, and at most one worker processes it.
// The caller holds a lock.
type queue struct {
	ready   []item
	state   map[item]*state // of every item that is ready, delayed or running
	delayed delays
}

// state is the position of an item in the queue.
type state struct {
	ready, running bool
	again          bool      // it is running, and must run again
	due            time.Time // when a delayed one becomes ready
	slow           bool      // it is delayed because a kind is not served
	tries          int       // how often it failed in a row
}

func newQueue() queue { return queue{state: map[item]*state{}} }

// add makes an item ready.
func (q *queue) add(i item) {
	s := q.state[i]
	switch {
	case s == nil:
		s = &state{}
		q.state[i] = s
	case s.running:
		s.again = true
		return
	case s.ready:
		return
	}
	s.ready, s.slow, s.due = true, false, time.Time{}
	q.ready = append(q.ready, i)
}

// take removes the next ready item and marks it as running.
func (q *queue) take() (item, bool) {
	if len(q.ready) == 0 {
		q.ready = nil
		return item{}, false
	}
	i := q.ready[0]
	q.ready = q.ready[1:]
	s := q.state[i]
	s.ready, s.running = false, true
	return i, true
}

// done removes an item that succeeded.
func (q *queue) done(i item) {
	s := q.state[i]
	if s.again {
		*s = state{}
		q.add(i)
		return
	}
	delete(q.state, i)
}

// tried returns how often a running item has failed before.
func (q *queue) tried(i item) int { return q.state[i].tries }

// delay puts a failed item back.
func (q *queue) delay(i item, until time.Time, slow bool) {
	s := q.state[i]
	tries := s.tries + 1
	if s.again {
		*s = state{tries: tries}
		q.add(i)
		return
	}
	*s = state{tries: tries, due: until, slow: slow}
	heap.Push(&q.delayed, delay{until, i})
}

// wake makes due items ready. It returns when the next item is due; any is false if no item is
// delayed.
func (q *queue) wake(now time.Time) (next time.Time, any bool) {
	for len(q.delayed) > 0 {
		d := q.delayed[0]
		s := q.state[d.item]
		if s == nil || !s.due.Equal(d.at) {
			heap.Pop(&q.delayed) // it was added or done meanwhile
			continue
		}
		if d.at.After(now) {
			return d.at, true
		}
		heap.Pop(&q.delayed)
		q.add(d.item)
	}
	return time.Time{}, false
}

// hurry makes every item ready that waits for a kind.
func (q *queue) hurry() {
	for i, s := range q.state {
		if s.slow {
			tries := s.tries
			q.add(i)
			s.tries = tries
		}
	}
}

// copyFor returns a queue with the same items for another collector, all of them ready.
func (q *queue) copyFor() queue {
	out := newQueue()
	for i := range q.state {
		out.add(i)
	}
	return out
}

// delay says when an item is due.
type delay struct {
	at   time.Time
	item item
}

// delays is a heap, the earliest on top.
type delays []delay

func (d delays) Len() int           { return len(d) }
func (d delays) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d delays) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }

// Push adds a delay; package heap calls it.
func (d *delays) Push(x any) { *d = append(*d, x.(delay)) }

// Pop takes the last delay; package heap calls it.
func (d *delays) Pop() any {
	old := *d
	last := old[len(old)-1]
	*d = old[:len(old)-1]
	return last
}
