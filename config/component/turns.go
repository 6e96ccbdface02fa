package component

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/kindwright/kindwright/internal/pause"
)

// turns hands out turns at a rate: burst at once after a pause, then one each 1/rate seconds.
type turns struct {
	each  time.Duration // between two turns
	early time.Duration // how far ahead of its time a turn may be

	mu   sync.Mutex
	next time.Time // when the next turn is due
}

// newTurns starts with a pause behind it.
func newTurns(rate float64, burst int) *turns {
	each := time.Duration(min(float64(time.Second)/rate, math.MaxInt64/2))
	each = max(each, 1)
	return &turns{each: each, early: each * time.Duration(min(max(burst-1, 0), math.MaxInt64/4/int(each)))}
}

// wait returns when it is the caller's turn, or when ctx ends. A caller who leaves while it waits gives
// its turn back.
func (t *turns) wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	t.mu.Lock()
	now := time.Now()
	if now.After(t.next) {
		t.next = now
	}
	early := t.next.Add(-t.early).Sub(now)
	t.next = t.next.Add(t.each)
	t.mu.Unlock()
	if early <= 0 {
		return nil
	}
	err := pause.For(ctx, early)
	if err != nil {
		t.mu.Lock()
		t.next = t.next.Add(-t.each)
		t.mu.Unlock()
	}
	return err
}
