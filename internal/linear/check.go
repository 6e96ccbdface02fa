package linear

import (
	"cmp"
	"slices"
)

// Operation is one call together with its result, and the times at which it began and ended.
type Operation[C any] struct {
	Call       C
	Begin, End int64
}

// Check reports whether some order of the operations explains all results. An operation that ended
// before another began must come first; operations with a common moment may come in either order.
//
// step applies a call to a state. It returns the next state, or false if the call cannot have this
// result in the state.
func Check[S comparable, C any](initial S, history []Operation[C], step func(S, C) (S, bool)) bool {
	s := search[S]{state: initial, done: make([]byte, (len(history)+7)/8), seen: map[visit[S]]bool{}}
	head := &event{next: events(history)}
	if head.next != nil {
		head.next.prev = head
	}
	at := head.next
	for head.next != nil {
		if at.end != nil {
			next, ok := step(s.state, history[at.op].Call)
			if ok && s.enter(at, next) {
				at = head.next
			} else {
				at = at.next
			}
			continue
		}
		// The operation that ends here has no place yet, so an earlier choice was wrong.
		if at = s.leave(); at == nil {
			return false
		}
		at = at.next
	}
	return true
}

// event is the beginning or the end of an operation, in a list ordered by time.
type event struct {
	op         int
	time       int64
	end        *event // nil for the end itself
	prev, next *event
}

// events returns the first event of a history. At equal times beginnings come before ends, so that
// the operations overlap.
func events[C any](history []Operation[C]) *event {
	all := make([]*event, 0, 2*len(history))
	for i, o := range history {
		end := &event{op: i, time: o.End}
		all = append(all, &event{op: i, time: o.Begin, end: end}, end)
	}
	slices.SortStableFunc(all, func(a, b *event) int {
		if a.time == b.time {
			switch {
			case a.end != nil && b.end == nil:
				return -1
			case a.end == nil && b.end != nil:
				return 1
			}
		}
		return cmp.Compare(a.time, b.time)
	})
	for i := 1; i < len(all); i++ {
		all[i].prev, all[i-1].next = all[i-1], all[i]
	}
	if len(all) == 0 {
		return nil
	}
	return all[0]
}

// search is a path through the possible orders.
type search[S comparable] struct {
	state S
	done  []byte // bit i is set if operation i has a place
	path  []choice[S]
	seen  map[visit[S]]bool
}

// choice is an operation with a place, and the state before it.
type choice[S comparable] struct {
	begin  *event
	before S
}

// visit is a set of operations and the state they lead to. From equal visits the search goes on in
// the same way.
type visit[S comparable] struct {
	done  string
	state S
}

// enter places an operation next, unless the search was there before.
func (s *search[S]) enter(begin *event, next S) bool {
	s.done[begin.op/8] |= 1 << (begin.op % 8)
	v := visit[S]{string(s.done), next}
	if s.seen[v] {
		s.done[begin.op/8] &^= 1 << (begin.op % 8)
		return false
	}
	s.seen[v] = true
	s.path = append(s.path, choice[S]{begin, s.state})
	s.state = next
	begin.unlink()
	begin.end.unlink()
	return true
}

// leave takes back the last operation and returns its beginning, or nil if there is none.
func (s *search[S]) leave() *event {
	if len(s.path) == 0 {
		return nil
	}
	last := s.path[len(s.path)-1]
	s.path = s.path[:len(s.path)-1]
	s.state = last.before
	s.done[last.begin.op/8] &^= 1 << (last.begin.op % 8)
	last.begin.end.link()
	last.begin.link()
	return last.begin
}

func (e *event) unlink() {
	e.prev.next = e.next
	if e.next != nil {
		e.next.prev = e.prev
	}
}

// link reverses the latest unlink that has not been reversed.
func (e *event) link() {
	e.prev.next = e
	if e.next != nil {
		e.next.prev = e
	}
}
