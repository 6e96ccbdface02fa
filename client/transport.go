package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
)

// InProcessURL is where clients find an in-process server unless they are told otherwise. No such
// host exists, so that a client that was meant for a real server and not given its address fails
// clearly.
const InProcessURL = "http://" + inProcessHost

const inProcessHost = "in-process.invalid"

// ErrTransportClosed is what requests get from a Transport after Close.
var ErrTransportClosed = errors.New("client: the in-process server is closed")

// Transport answers requests by calling a handler in the same process. It is an http.RoundTripper
// for any client, and keeps to what a connection would do, so that neither side can tell:
//
//   - the handler runs in a goroutine of its own, and its answer streams: a watch works;
//   - what it writes is seen after 4 KiB, on Flush, or when it returns, and it can be 256 KiB ahead
//     of its reader;
//   - cancelling the request, closing the body and Close end the context of the handler;
//   - a handler's panic, http.ErrAbortHandler included, breaks the answer off: the body ends with
//     an error;
//   - Content-Length, HEAD, codes without a body and the sniffed Content-Type are as in net/http;
//   - write deadlines of http.ResponseController work; read deadlines are accepted and do nothing;
//   - the two sides share no context values and no header maps.
//
// Unlike http.Transport it does not ask for compression by itself. Trailers, 1xx answers and Hijack
// do not exist.
//
// Everything is made of channels, locks and timers, so that a Transport made in a testing/synctest
// bubble lives in it. All methods are safe for concurrent use.
type Transport struct {
	handler http.Handler

	mu      sync.Mutex
	closed  bool
	calls   map[*exchange]struct{} // being handled
	running sync.WaitGroup         // their goroutines
}

// InProcess returns a Transport to h. The owner of h calls Close when h must not be called any
// more.
func InProcess(h http.Handler) *Transport {
	return &Transport{handler: h, calls: make(map[*exchange]struct{})}
}

// RoundTrip sends one request to the handler and returns when the head of its answer is there. The
// errors are the cause of the request's context, ErrTransportClosed, io.EOF for a handler that
// broke off before it answered, and what is wrong with the request.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	e, err := newExchange(r)
	if err == nil {
		err = t.start(e)
	}
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	select {
	case <-e.answered:
	case <-r.Context().Done():
		// An answer that came at the same moment has nobody who would read it.
		err := context.Cause(r.Context())
		e.abort(err)
		return nil, err
	}
	if e.failure != nil {
		return nil, e.failure
	}
	return e.response, nil
}

func (t *Transport) start(e *exchange) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrTransportClosed
	}
	t.calls[e] = struct{}{}
	t.running.Go(func() {
		defer t.done(e) // deferred: a handler may end its goroutine
		e.serve(t.handler)
	})
	return nil
}

func (t *Transport) done(e *exchange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.calls, e)
}

// InFlight names the requests that are being handled, for reports about a server that does not come
// to rest.
func (t *Transport) InFlight() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	for e := range t.calls {
		out = append(out, fmt.Sprintf("%s %s", e.request.Method, e.request.RequestURI))
	}
	return out
}

// Close breaks off all requests, refuses new ones and waits until the handler has returned from
// each.
func (t *Transport) Close() {
	t.mu.Lock()
	t.closed = true
	calls := slices.Collect(maps.Keys(t.calls))
	t.mu.Unlock()
	for _, e := range calls { // without the lock: closing a body is code of the client's
		e.abort(ErrTransportClosed)
	}
	t.running.Wait()
}

var _ http.RoundTripper = (*Transport)(nil)
