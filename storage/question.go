package storage

import (
	"context"
	"sync"
)

// Question is a question about the present that concurrent callers ask together, such as that for the
// current revision. A caller must not take an answer that was under way when it came: the answer may be
// older than a commit that the caller knows of. So callers that arrive during a call share the next one.
//
// However many callers there are, one call is in progress at a time, and each caller waits for two calls
// at most. Callers share errors too, but not the end of another one's context. The zero value is ready.
type Question[T any] struct {
	mu   sync.Mutex
	busy bool       // a call is in progress, or about to be made by a caller of next
	next *asking[T] // what callers join that arrive now; nil if there are none
}

// asking is one call.
type asking[T any] struct {
	waiting int           // callers who wait for the outcome
	lead    chan struct{} // holds a token when one of them is to make the call
	done    chan struct{} // closed when the outcome is known
	value   T
	err     error
}

// Do returns the outcome of a call that began after Do was called. It makes the call itself, with ctx,
// or gets the outcome from another caller. If ctx ends first, it returns the context's error.
func (s *Question[T]) Do(ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	s.mu.Lock()
	if !s.busy { // nobody is there to share with
		s.busy = true
		s.mu.Unlock()
		defer s.pass(nil)
		return call(ctx)
	}
	mine := s.next
	if mine == nil {
		mine = &asking[T]{lead: make(chan struct{}, 1), done: make(chan struct{})}
		s.next = mine
	}
	mine.waiting++
	s.mu.Unlock()
	select {
	case <-mine.done:
		return mine.value, mine.err
	case <-mine.lead:
		return s.make(ctx, mine, call)
	case <-ctx.Done():
		s.leave(mine)
		var none T
		return none, ctx.Err()
	}
}

// make makes the call for all who wait for it. Those who arrive from now on share the one after it.
func (s *Question[T]) make(ctx context.Context, mine *asking[T], call func(context.Context) (T, error)) (value T, err error) {
	s.mu.Lock()
	mine.waiting--
	if s.next == mine {
		s.next = nil
	}
	s.mu.Unlock()
	again := mine // unless the outcome is one for all: the call may panic, or end with ctx
	defer func() { s.pass(again) }()
	if value, err = call(ctx); err == nil || ctx.Err() == nil {
		mine.value, mine.err = value, err
		again = nil
		close(mine.done)
	}
	return value, err
}

// pass ends a call. It has another caller make it again, if again is not nil and somebody waits for it, or
// else the next one.
func (s *Question[T]) pass(again *asking[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, to := range []*asking[T]{again, s.next} {
		if to != nil && to.waiting > 0 {
			to.lead <- struct{}{}
			return
		}
	}
	s.busy = false
}

// leave is for a caller who does not wait any longer.
func (s *Question[T]) leave(mine *asking[T]) {
	s.mu.Lock()
	mine.waiting--
	if mine.waiting > 0 {
		s.mu.Unlock()
		return
	}
	if s.next == mine {
		s.next = nil
	}
	s.mu.Unlock()
	select {
	case <-mine.lead: // it was to make the call
		s.pass(nil)
	default:
	}
}
