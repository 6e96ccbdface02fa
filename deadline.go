package kindwright

import (
	"context"
	"sync"
	"time"
)

// deadlineContext is a context with a deadline whose timer is made when somebody first waits for it. Most requests that read
// never do, and a timer with what leads to it costs more than finding the object.
type deadlineContext struct {
	context.Context // the request's
	at              time.Time

	mu     sync.Mutex
	timed  context.Context // with the timer; nil until somebody waits
	cancel context.CancelFunc
	ended  bool
	err    error // what Err returned first
}

// Deadline returns the deadline, or that of the request if it is earlier.
func (c *deadlineContext) Deadline() (time.Time, bool) {
	if at, ok := c.Context.Deadline(); ok && at.Before(c.at) {
		return at, true
	}
	return c.at, true
}

// Done returns a channel that is closed at the deadline, when the request ends, and when its handler has returned.
func (c *deadlineContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		c.timed, c.cancel = context.WithDeadline(c.Context, c.at)
		if c.ended {
			c.cancel()
		}
	}
	return c.timed.Done()
}

// Err returns nil until Done is closed, or would be.
func (c *deadlineContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
	case c.timed != nil:
		c.err = c.timed.Err()
	case c.Context.Err() != nil:
		c.err = c.Context.Err()
	case c.ended:
		c.err = context.Canceled
	case !time.Now().Before(c.at):
		c.err = context.DeadlineExceeded
	}
	return c.err
}

// Value asks the context with the timer, by which package context finds out whom to tell of the end.
func (c *deadlineContext) Value(key any) any {
	c.mu.Lock()
	timed := c.timed
	c.mu.Unlock()
	if timed != nil {
		return timed.Value(key)
	}
	return c.Context.Value(key)
}

// end is called when the handler has returned.
func (c *deadlineContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.cancel != nil {
		c.cancel()
	}
}
