package memo

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrCrowded is the error of a question that is not asked because too many others wait for an answer.
var ErrCrowded = errors.New("too many questions wait for an answer")

// errNotCompleted is what others get if a question panics.
var errNotCompleted = errors.New("the question was not completed")

// Flights lets those who ask the same at the same time share one answer. It is safe for concurrent
// use.
type Flights[K comparable, V any] struct {
	most int

	mu    sync.Mutex
	asked map[K]*flight[V] // guarded by mu
}

// flight is a question that is being asked. Its other fields are valid when done is closed.
type flight[V any] struct {
	done  chan struct{}
	value V
	err   error
	again bool // it failed, perhaps only because the one who asked gave up
}

// NewFlights makes one that asks at most so many questions at a time.
func NewFlights[K comparable, V any](most int) *Flights[K, V] {
	return &Flights[K, V]{most: most, asked: map[K]*flight[V]{}}
}

// Do calls ask, or waits for a call by somebody else that is under way, as long as ctx lasts. If that
// call fails after its own caller has given up, Do asks itself.
func (f *Flights[K, V]) Do(ctx context.Context, key K, ask func() (V, error)) (V, error) {
	for {
		var none V
		f.mu.Lock()
		one, asked := f.asked[key]
		switch {
		case asked:
		case len(f.asked) >= f.most:
			f.mu.Unlock()
			return none, fmt.Errorf("%w: %d questions", ErrCrowded, f.most)
		default:
			one = &flight[V]{done: make(chan struct{}), err: errNotCompleted}
			f.asked[key] = one
		}
		f.mu.Unlock()
		if !asked {
			return f.lead(ctx, key, one, ask)
		}
		select {
		case <-one.done:
			if !one.again {
				return one.value, one.err
			}
		case <-ctx.Done():
			return none, context.Cause(ctx)
		}
	}
}

func (f *Flights[K, V]) lead(ctx context.Context, key K, one *flight[V], ask func() (V, error)) (V, error) {
	defer func() {
		f.mu.Lock()
		delete(f.asked, key)
		f.mu.Unlock()
		close(one.done)
	}()
	one.value, one.err = ask()
	one.again = one.err != nil && ctx.Err() != nil
	return one.value, one.err
}
