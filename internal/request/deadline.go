package request

import (
	"context"
	"sync"
	"time"
)

// bounded is a context with a deadline. Its timer is made when somebody first waits for it. Most
// reads never do, and a timer costs more than finding the object.
//
// While it has no deadline, it is the context around it.
type bounded struct {
	context.Context // around it

	mu      sync.Mutex
	at      time.Time // the deadline; zero while there is none
	stream  bool      // the deadline may be lifted
	lifted  bool
	timed   context.Context // with the timer; nil until somebody waits
	cancel  context.CancelCauseFunc
	release func() // frees the timer
	ended   bool
	err     error // what Err returned first
}

// Lift takes the deadline of a stream away, unless it has passed.
func (c *bounded) Lift() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !time.Now().Before(c.at) {
		return
	}
	c.lifted = true
	if c.release != nil {
		c.release()
	}
}

// Deadline returns the deadline, or that of the context around it if it is earlier.
func (c *bounded) Deadline() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.Context.Deadline()
	if c.at.IsZero() || c.lifted || ok && at.Before(c.at) {
		return at, ok
	}
	return c.at, true
}

// Done returns a channel that is closed at the deadline, when the request ends, and when its
// handler has returned.
func (c *bounded) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		if c.at.IsZero() {
			return c.Context.Done()
		}
		c.wait()
	}
	return c.timed.Done()
}

// wait makes the context with the timer.
func (c *bounded) wait() {
	if c.stream {
		// The timer of package context cannot be stopped without ending the context, so this one is
		// our own.
		c.timed, c.cancel = context.WithCancelCause(c.Context)
		if !c.lifted {
			late := time.AfterFunc(time.Until(c.at), func() { c.cancel(context.DeadlineExceeded) })
			c.release = func() { late.Stop() }
		}
	} else {
		timed, cancel := context.WithDeadline(c.Context, c.at)
		c.timed, c.cancel = timed, func(error) { cancel() }
	}
	if c.ended {
		c.cancel(nil)
	}
}

// Err returns nil until Done is closed, or would be.
func (c *bounded) Err() error {
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
	case !c.at.IsZero() && !c.lifted && !time.Now().Before(c.at):
		c.err = context.DeadlineExceeded
	}
	return c.err
}

// Value asks the context with the timer. Package context learns that way whom to tell of the end.
func (c *bounded) Value(key any) any {
	c.mu.Lock()
	timed := c.timed
	c.mu.Unlock()
	if timed != nil {
		return timed.Value(key)
	}
	return c.Context.Value(key)
}

// End is called when the handler has returned.
func (c *bounded) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.release != nil {
		c.release()
	}
	if c.cancel != nil {
		c.cancel(nil)
	}
}
