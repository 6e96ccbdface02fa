package engine

import (
	"context"
	"slices"
	"sync"
	"time"
)

// turns are the queues of writes that have lost a race for an object, by storage key. One of them has the
// turn, and starts again. Without that, all start again at once and all but one lose again: a thousand
// writes to an object would cost half a million tries. A write that has lost nothing does not wait.
//
// A turn only saves work, and the store still decides. So nobody keeps it longer than turnTime: it passes on
// while a hook thinks, also one that waits for another write to the same object. Who then loses waits for
// another turn.
type turns struct {
	mu     sync.Mutex
	queues map[string][]chan struct{} // of those who wait; an object without a turn has no queue
}

// turnTime is how long a write keeps the turn at most. Most take a few milliseconds.
const turnTime = time.Second

// turn is what one write has of the turns at an object. The zero value has none.
type turn struct {
	pass  func() // nil before the first one
	until time.Time
}

// wait waits for the turn at an object, unless the write still has it.
func (t *turn) wait(ctx context.Context, of *turns, key string) error {
	if time.Now().Before(t.until) {
		return nil
	}
	t.end()
	pass, err := of.take(ctx, key)
	if err != nil {
		return err
	}
	t.pass, t.until = pass, time.Now().Add(turnTime)
	return nil
}

// end passes the turn on, if the write has it.
func (t *turn) end() {
	if t.pass != nil {
		t.pass()
	}
}

// take waits for the turn at an object. The function ends it, and may be called twice.
func (t *turns) take(ctx context.Context, key string) (pass func(), err error) {
	mine := t.join(key)
	select {
	case <-mine:
	case <-ctx.Done():
		t.leave(key, mine)
		return nil, ctx.Err()
	}
	end := sync.OnceFunc(func() { t.next(key) })
	timer := time.AfterFunc(turnTime, end)
	return func() {
		timer.Stop()
		end()
	}, nil
}

// join returns a channel that is closed when the turn comes.
func (t *turns) join(key string) chan struct{} {
	mine := make(chan struct{})
	t.mu.Lock()
	defer t.mu.Unlock()
	queue, taken := t.queues[key]
	if taken {
		t.queues[key] = append(queue, mine)
		return mine
	}
	if t.queues == nil {
		t.queues = map[string][]chan struct{}{}
	}
	t.queues[key] = nil
	close(mine)
	return mine
}

// leave ends the wait of a write that has no more time.
func (t *turns) leave(key string, mine chan struct{}) {
	t.mu.Lock()
	i := slices.Index(t.queues[key], mine)
	if i >= 0 {
		t.queues[key] = slices.Delete(t.queues[key], i, i+1)
	}
	t.mu.Unlock()
	if i < 0 { // the turn has come meanwhile
		t.next(key)
	}
}

// next passes the turn on.
func (t *turns) next(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	queue := t.queues[key]
	if len(queue) == 0 {
		delete(t.queues, key)
		return
	}
	close(queue[0])
	t.queues[key] = queue[1:]
}
