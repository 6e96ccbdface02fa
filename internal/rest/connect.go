package rest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/status"
)

// connect serves a connection to a subresource.
func (c *call) connect() error {
	if c.info.Query.Raw.Has("dryRun") { // S2: nothing of what a handler does could be left out
		return c.refuseConnection(status.BadRequest("dryRun is not supported"))
	}
	transport := c.sub.Transport()
	check, ok := transport.(func(*http.Request) error)
	if !ok {
		return status.Internal(fmt.Errorf("subresource %q was not made by connect.Endpoint", c.sub.Name))
	}
	if err := check(c.r); err != nil {
		return c.refuseConnection(err)
	}
	if !c.connected.enter(c.opts.Draining) {
		return c.refuseConnection(status.ServiceUnavailable("the server is about to stop").WithRetryAfter(1))
	}
	defer c.connected.leave()
	ctx, release := c.untilDraining()
	defer release()
	made, err := c.at.Connect(ctx, c.info.Verb, c.info.Query.Raw, c.info.Below)
	if err != nil {
		return c.refuseConnection(err)
	}
	serve, ok := made.(func(http.ResponseWriter, *http.Request) error)
	if !ok {
		return status.Internal(fmt.Errorf("subresource %q was not made by connect.Endpoint", c.sub.Name))
	}
	w := &line{ResponseWriter: c.w, late: &writeLimit{connection: http.NewResponseController(c.w), after: c.opts.WatchWrite}}
	return c.serveLine(ctx, w, serve)
}

// refuseConnection ends the connection with the answer: what a client that asked for another protocol sends next may be meant for
// that (H11).
func (c *call) refuseConnection(err error) error {
	if request.AsksUpgrade(c.r) {
		c.w.Header().Set("Connection", "close")
	}
	return err
}

// serveLine runs the handler of a connection and cleans up after it.
func (c *call) serveLine(ctx context.Context, w *line, serve func(http.ResponseWriter, *http.Request) error) (err error) {
	control := http.NewResponseController(c.w)
	_ = control.SetReadDeadline(time.Time{})
	_ = control.SetWriteDeadline(time.Time{})
	w.late.connection = control
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { w.endAfter(ctx, ended) })
	defer func() {
		v := recover()
		close(ended)
		watching.Wait()
		w.late.close()
		taken := w.hangUp()
		if !taken {
			c.giveBack(control)
		}
		switch aborted, _ := v.(error); {
		case v == nil:
		case !taken || errors.Is(aborted, http.ErrAbortHandler) && !taken:
			panic(v) // who stands around this one answers, or breaks off
		default:
			c.opts.Logger.Error(fmt.Errorf("panic: %v", v), "the handler of a connection failed", "resource", c.served.Resource.GroupResource().String(),
				"subresource", c.info.Subresource, "stack", string(debug.Stack()))
			err = nil // nobody can be told
		}
	}()
	err = serve(w, c.r.WithContext(c.at.HookContext(ctx)))
	switch {
	case err == nil:
		return nil
	case w.began():
		c.opts.Logger.V(1).Info("a connection ended with an error", "resource", c.served.Resource.GroupResource().String(), "subresource", c.info.Subresource, "error", err.Error())
		return nil
	}
	return c.refuseConnection(status.From(err))
}

// line is the writer that the handler of a connection is given. It knows whether the connection was taken over.
type line struct {
	http.ResponseWriter
	late *writeLimit

	mu    sync.Mutex
	conn  net.Conn // taken over
	begun bool
}

// WriteHeader begins the answer.
func (l *line) WriteHeader(code int) {
	l.note(code >= http.StatusOK)
	l.ResponseWriter.WriteHeader(code)
}

// Write sends a part of the answer, within its own time.
func (l *line) Write(p []byte) (int, error) {
	l.note(true)
	l.late.begin()
	defer l.late.pause()
	return l.ResponseWriter.Write(p)
}

// Flush sends what was written.
func (l *line) Flush() { _ = l.FlushError() }

// FlushError is Flush with its error.
func (l *line) FlushError() error {
	if !l.began() {
		l.WriteHeader(http.StatusOK) // which net/http would send by itself, past those who count on seeing it
	}
	l.late.begin()
	defer l.late.pause()
	return http.NewResponseController(l.ResponseWriter).Flush()
}

// Hijack takes the connection over. The server closes it when the handler returns.
func (l *line) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(l.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn, l.begun = conn, true
	return conn, rw, nil
}

// Unwrap gives http.ResponseController the connection's own writer.
func (l *line) Unwrap() http.ResponseWriter { return l.ResponseWriter }

func (l *line) note(begun bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun = l.begun || begun
}

func (l *line) began() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun
}

// hangUp closes the connection if it was taken over, and tells whether it was.
func (l *line) hangUp() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return false
	}
	_ = l.conn.Close()
	return true
}

// lastWords is how long a connection may go on after it was told to end.
const lastWords = 5 * time.Second

// endAfter breaks the connection off when ctx has been done for a while, unless the handler has returned.
func (l *line) endAfter(ctx context.Context, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	late := time.NewTimer(lastWords)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
		if !l.hangUp() {
			control, past := http.NewResponseController(l.ResponseWriter), time.Now().Add(-time.Second)
			_ = control.SetReadDeadline(past)
			_ = control.SetWriteDeadline(past)
		}
	}
}

// untilDraining returns a context that ends with the request's, when the client may no longer have the connection, and when the
// server is about to stop.
func (c *call) untilDraining() (ctx context.Context, release func()) {
	around := c.r.Context()
	if ended := request.ExchangeFrom(around).Ended; ended != nil {
		around = ended
	}
	ctx, cancel := context.WithCancel(around)
	stop := context.AfterFunc(c.opts.Draining, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// calls counts the connections that are being served. Those that were taken over are nobody else's to wait for: net/http has
// forgotten them.
type calls struct {
	mu    sync.Mutex
	open  int
	empty chan struct{} // closed when none is left; nil while nobody waits
}

// enter counts a connection, unless the server is about to stop.
func (l *calls) enter(draining context.Context) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if draining.Err() != nil {
		return false
	}
	l.open++
	return true
}

func (l *calls) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open--; l.open == 0 && l.empty != nil {
		close(l.empty)
		l.empty = nil
	}
}

// none returns a channel that is closed when no connection is left.
func (l *calls) none() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == 0 {
		out := make(chan struct{})
		close(out)
		return out
	}
	if l.empty == nil {
		l.empty = make(chan struct{})
	}
	return l.empty
}

// Wait waits until all connections have ended, once Options.Draining is done, but no longer than limit. It reports whether they have.
func (h *Handler) Wait(limit time.Duration) bool {
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-h.connected.none():
		return true
	case <-late.C:
		return false
	}
}
