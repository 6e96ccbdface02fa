package rest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Connect is a subresource that clients connect to: `pods/exec`, `pods/proxy`. Its handler gets the object, the options from the
// query, and the request as net/http has it: it answers like any handler, or takes the connection over. Upgrade and AcceptWebSocket
// do that, and so does any library that takes an http.ResponseWriter and an http.Request.
//
// A connection is authorized by its method (GET is get, POST create, and so on) on resource/name, and admitted with operation
// CONNECT and its options as the object. It has no time-out. Its context ends with the client, as far as net/http sees that, and when
// the server is about to stop; some seconds later a connection that still is there is closed. The server waits for the
// handler, and closes what it took over when it returns, or panics.
type Connect[T, O any] struct {
	Name    string                // the path segment
	Methods []string              // of GET, POST, PUT, PATCH and DELETE; default GET and POST
	Kind    meta.GroupVersionKind // of O; default: the Go type's name, in the group and version of the kind

	// Paths takes URLs that go on below the subresource; Call.Path has what follows. Parameters of the query are the handler's alone then.
	// Segments are decoded and plain: none is empty, "." or "..", or holds a slash.
	Paths bool

	// Upgrade refuses requests that do not ask for another protocol, or cannot, as HTTP/2 cannot (400).
	Upgrade bool

	// Origins are those, such as "https://shop.example.com", whose pages may connect, as browsers say it in the header Origin.
	// "*" lets all connect. Default: the server's own alone. Clients that are no browsers send no such header.
	Origins []string

	// Serve serves one connection. Its error is sent like those of other hooks, unless the answer has begun. It must
	// return when r.Context() is done.
	Serve func(w http.ResponseWriter, r *http.Request, call *registry.Call[T], options *O) error
}

// Describe makes it a Subresource.
func (c Connect[T, O]) Describe(of *registry.Resource, types *registry.Types) (registry.Subresource, error) {
	fail := func(format string, args ...any) (registry.Subresource, error) {
		return registry.Subresource{}, fmt.Errorf("subresource %q: "+format, append([]any{c.Name}, args...)...)
	}
	if c.Serve == nil {
		return fail("it has no function Serve")
	}
	methods := c.Methods
	if len(methods) == 0 {
		methods = []string{http.MethodGet, http.MethodPost}
	}
	var verbs []string
	for _, m := range methods {
		verb, ok := connectVerbs[m]
		if !ok || slices.Contains(verbs, verb) {
			return fail("method %q cannot be served, or is given twice", m)
		}
		verbs = append(verbs, verb)
	}
	for _, origin := range c.Origins {
		if u, err := url.Parse(origin); origin != "*" && (err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin) {
			return fail("origin %q is not of the form https://host", origin)
		}
	}
	return registry.Connection[T, O]{
		Name: c.Name, Verbs: verbs, Kind: c.Kind, Paths: c.Paths, Transport: &transport{upgrade: c.Upgrade, origins: c.Origins},
		Handler: func(call *registry.Call[T], options *O) any {
			return handler(func(w http.ResponseWriter, r *http.Request) error { return c.Serve(w, r, call, options) })
		},
	}.Describe(of, types)
}

var connectVerbs = map[string]string{
	http.MethodGet: request.VerbGet, http.MethodPost: request.VerbCreate, http.MethodPut: request.VerbUpdate,
	http.MethodPatch: request.VerbPatch, http.MethodDelete: request.VerbDelete,
}

// handler serves one connection.
type handler func(w http.ResponseWriter, r *http.Request) error

// transport is what is asked of a request before anything is done for it.
type transport struct {
	upgrade bool
	origins []string
}

func (t *transport) check(r *http.Request) error {
	if asksUpgrade(r) {
		if r.ContentLength != 0 || len(r.TransferEncoding) > 0 {
			// What is in a body and what belongs to the other protocol is for nobody to guess (H6).
			return status.BadRequest("a request for another protocol has no body")
		}
	} else if t.upgrade {
		if r.ProtoMajor != 1 {
			return status.BadRequest("this needs a connection of its own, which %s does not have; use HTTP/1.1 with the headers Connection and Upgrade", r.Proto)
		}
		return status.BadRequest("Upgrade request required")
	}
	return t.checkOrigin(r)
}

// checkOrigin refuses pages of other sites: a browser lets them connect, with the certificate of its user (H10).
func (t *transport) checkOrigin(r *http.Request) error {
	origins := r.Header["Origin"]
	if len(origins) == 0 || slices.Contains(t.origins, "*") {
		return nil
	}
	if len(origins) == 1 {
		if slices.Contains(t.origins, origins[0]) {
			return nil
		}
		u, err := url.Parse(origins[0])
		if err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) && (u.Scheme == "https") == (r.TLS != nil) {
			return nil
		}
	}
	return status.Forbidden(meta.GroupResource{}, "", "").WithMessage("pages of this origin may not connect")
}

// connect serves a connection to a subresource.
func (c *call) connect() error {
	asked, _ := c.sub.Transport()
	settings, ok := asked.(*transport)
	if !ok {
		return status.Internal(fmt.Errorf("subresource %q was not made by rest.Connect", c.sub.Name))
	}
	if err := settings.check(c.r); err != nil {
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
	serve, ok := made.(handler)
	if !ok {
		return status.Internal(errors.New("the handler of a connection is of another package"))
	}
	w := &line{ResponseWriter: c.w, late: &patience{connection: http.NewResponseController(c.w), after: c.opts.WatchWrite}}
	return c.serveLine(ctx, w, serve)
}

// refuseConnection ends the connection with the answer: what a client that asked for another protocol sends next may be meant for
// that (H11).
func (c *call) refuseConnection(err error) error {
	if asksUpgrade(c.r) {
		c.w.Header().Set("Connection", "close")
	}
	return err
}

// serveLine runs the handler of a connection and cleans up after it.
func (c *call) serveLine(ctx context.Context, w *line, serve handler) (err error) {
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
			c.opts.Logger.Error(fmt.Errorf("panic: %v", v), "the handler of a connection failed", "resource", c.target.Resource.GroupResource().String(),
				"subresource", c.sub.Name, "stack", string(debug.Stack()))
			err = nil // nobody can be told
		}
	}()
	err = serve(w, c.r.WithContext(ctx))
	switch {
	case err == nil:
		return nil
	case w.began():
		c.opts.Logger.V(1).Info("a connection ended with an error", "resource", c.target.Resource.GroupResource().String(), "subresource", c.sub.Name, "error", err.Error())
		return nil
	}
	return c.refuseConnection(status.From(err))
}

// line is the writer that the handler of a connection is given. It knows whether the connection was taken over.
type line struct {
	http.ResponseWriter
	late *patience

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

// untilDraining returns a context that ends with the request's, and when the server is about to stop.
func (c *call) untilDraining() (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancel(c.r.Context())
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
