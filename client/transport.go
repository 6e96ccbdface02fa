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

// InProcessURL is the default address of clients. No such host exists, so a client that was meant
// for a real server but got no address fails clearly.
const InProcessURL = "http://" + inProcessHost

const inProcessHost = "in-process.invalid"

// ErrTransportClosed is the error of requests through a closed Transport.
var ErrTransportClosed = errors.New("client: the in-process server is closed")

// Transport answers requests by calling a handler in the same process. It is an http.RoundTripper
// for any client and behaves like a connection:
//
//   - the handler runs in its own goroutine and its response streams, so watches work;
//   - the client sees what the handler writes after 4 KiB, on Flush, or when the handler returns;
//     the handler can be 256 KiB ahead of the reader;
//   - canceling the request, closing the body and Close end the context of the handler;
//   - a panic of the handler, including http.ErrAbortHandler, aborts the response: the body ends
//     with an error;
//   - Content-Length, HEAD, codes without a body and the sniffed Content-Type are as in net/http;
//   - write deadlines of http.ResponseController work; read deadlines are accepted but have no
//     effect;
//   - the two sides share no context values and no header maps.
//
// Unlike http.Transport it does not request compression by itself. It does not support trailers,
// 1xx responses and Hijack.
//
// It uses only channels, locks and timers, so a Transport can be part of a testing/synctest bubble.
// All methods are safe for concurrent use.
type Transport struct {
	handler http.Handler

	mu      sync.Mutex
	closed  bool
	calls   map[*exchange]struct{} // in progress
	running sync.WaitGroup         // their goroutines
}

// InProcess returns a Transport to h. The owner of h must call Close when h must no longer be
// called.
func InProcess(h http.Handler) *Transport {
	return &Transport{handler: h, calls: make(map[*exchange]struct{})}
}

// RoundTrip sends one request to the handler and returns when the header of the response is
// available. The error is the cause of the request's context, ErrTransportClosed, io.EOF if the
// handler stopped before it answered, or a problem of the request.
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
	}
	if r.Context().Err() != nil {
		// A response that arrived at the same moment has no reader. Often it is that of a handler that
		// has returned because of the same context.
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

// InFlight names the requests in progress, for reports about a server that does not come to rest.
func (t *Transport) InFlight() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	for e := range t.calls {
		out = append(out, fmt.Sprintf("%s %s", e.request.Method, e.request.RequestURI))
	}
	return out
}

// Close aborts all requests, rejects new ones and waits until all handlers have returned.
func (t *Transport) Close() {
	t.mu.Lock()
	t.closed = true
	calls := slices.Collect(maps.Keys(t.calls))
	t.mu.Unlock()
	for _, e := range calls { // without the lock: closing a body calls the client's code
		e.abort(ErrTransportClosed)
	}
	t.running.Wait()
}

var _ http.RoundTripper = (*Transport)(nil)
