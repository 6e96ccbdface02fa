package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
)

// exchange is one request through a Transport and its response.
type exchange struct {
	request *http.Request // as the handler sees it
	body    *requestBody
	cancel  context.CancelCauseFunc
	pipe    *pipe
	unhook  func() bool // stops following the client's context

	// answered is closed once one of these two is set, by the handler's goroutine.
	answered chan struct{}
	response *http.Response
	failure  error
}

// newExchange builds the request that a server would have read from the wire.
func newExchange(r *http.Request) (*exchange, error) {
	if r.URL == nil {
		return nil, errors.New("client: the request has no URL")
	}
	if err := r.Context().Err(); err != nil {
		return nil, context.Cause(r.Context())
	}
	uri := r.URL.RequestURI()
	target, err := url.ParseRequestURI(uri) // parse the text, as the server does
	if err != nil {
		return nil, fmt.Errorf("client: the request cannot be sent: %w", err)
	}
	// The handler gets its own context: values do not cross a connection.
	ctx, cancel := context.WithCancelCause(context.Background())
	e := &exchange{cancel: cancel, pipe: newPipe(), answered: make(chan struct{})}
	e.body = newRequestBody(r)
	e.request = (&http.Request{
		Method: r.Method, URL: target, RequestURI: uri, Host: r.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: r.Header.Clone(), Body: e.body, ContentLength: e.body.declared,
		RemoteAddr: "127.0.0.1:0",
	}).WithContext(ctx)
	if e.body.declared == 0 {
		e.request.Body = http.NoBody // handlers compare with it
	}
	if e.request.Method == "" {
		e.request.Method = http.MethodGet
	}
	if e.request.Host == "" {
		e.request.Host = r.URL.Host
	}
	if e.request.Header == nil {
		e.request.Header = make(http.Header)
	}
	if agent, has := e.request.Header["User-Agent"]; !has {
		e.request.Header.Set("User-Agent", "Go-http-client/1.1")
	} else if len(agent) == 0 || agent[0] == "" {
		e.request.Header.Del("User-Agent")
	}
	e.response = &http.Response{
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, Body: &answerBody{exchange: e},
	}
	clientContext := r.Context()
	e.unhook = context.AfterFunc(clientContext, func() { e.breakOff(context.Cause(clientContext)) })
	return e, nil
}

// serve runs the handler to its end.
func (e *exchange) serve(h http.Handler) {
	w := &answer{exchange: e, header: make(http.Header), length: -1}
	returned := false
	defer func() {
		e.end(w, returned, recover())
	}()
	h.ServeHTTP(w, e.request)
	returned = true
}

// end completes the response after the handler has returned, panicked or ended its goroutine.
func (e *exchange) end(w *answer, returned bool, panicked any) {
	e.body.end()
	err := io.EOF
	switch {
	case returned:
		w.finish()
		if w.short() {
			err = io.ErrUnexpectedEOF
		}
	case w.sent:
		err = io.ErrUnexpectedEOF
	default:
		e.failure = broken(panicked)
		close(e.answered)
	}
	e.pipe.finish(err)
	e.cancel(context.Canceled) // as net/http does when a handler returns
}

// broken returns the error for a handler that stopped before it answered. Over a connection it
// would be io.EOF; the text of a panic is more useful in a test or a log.
func broken(panicked any) error {
	if panicked == nil {
		return fmt.Errorf("client: the handler ended its goroutine: %w", io.EOF)
	}
	if err, ok := panicked.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		return io.EOF
	}
	return fmt.Errorf("client: the handler panicked: %v: %w", panicked, io.EOF)
}

// abort cancels the exchange, for the client or the Transport.
func (e *exchange) abort(why error) {
	e.unhook()
	e.breakOff(why)
}

func (e *exchange) breakOff(why error) {
	e.cancel(why)
	e.pipe.cut(why)
	e.body.end()
}

// answerBody is the response body as the client reads it.
type answerBody struct {
	exchange *exchange
	closing  sync.Once
}

// Read returns what the handler wrote.
func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.exchange.pipe.Read(p)
	if err != nil {
		b.exchange.unhook()
	}
	return n, err
}

// Close cancels the handler's context: the client reads no more.
func (b *answerBody) Close() error {
	b.closing.Do(func() { b.exchange.abort(http.ErrBodyReadAfterClose) })
	return nil
}

// requestBody is the request body as the handler reads it. Reads fail after the handler has
// returned, because the client owns the body again.
type requestBody struct {
	inner    io.ReadCloser
	declared int64 // the Content-Length, or -1 if unknown

	mu    sync.Mutex // guards the fields below, not the reads
	left  int64
	ended bool
	once  sync.Once
}

func newRequestBody(r *http.Request) *requestBody {
	b := &requestBody{inner: r.Body, declared: r.ContentLength}
	switch {
	case r.Body == nil || r.Body == http.NoBody:
		b.inner, b.declared = http.NoBody, 0
	case r.ContentLength == 0: // the client does not know the length
		b.declared = -1
	}
	b.left = b.declared
	return b
}

// Read returns what the client sends, up to the declared length.
func (b *requestBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	left, ended := b.left, b.ended
	b.mu.Unlock()
	switch {
	case ended:
		return 0, http.ErrBodyReadAfterClose
	case left == 0:
		return 0, io.EOF
	case left > 0 && int64(len(p)) > left:
		p = p[:left]
	}
	n, err := b.inner.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return n, http.ErrBodyReadAfterClose
	}
	if b.left > 0 {
		b.left -= int64(n)
		if errors.Is(err, io.EOF) && b.left > 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}

// Close ends the body. net/http gives it no other meaning.
func (b *requestBody) Close() error {
	b.end()
	return nil
}

// end returns the body to the client, as a RoundTripper must always do. It also wakes a Read.
func (b *requestBody) end() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.once.Do(func() { _ = b.inner.Close() })
}
