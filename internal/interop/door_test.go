package interop

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"sync"
)

// request is one request that a server received.
type request struct {
	method, path        string
	query               url.Values
	accept, contentType string
	code                int // of the answer; 0 if there was none
}

func (r *request) watches() bool {
	return r.query.Get("watch") == "1" || r.query.Get("watch") == "true"
}

// initial reports whether a request asks for a whole collection: by LIST, or by a watch with
// initial events.
func (r *request) initial() bool {
	if r.watches() {
		rv := r.query.Get("resourceVersion")
		return r.query.Get("sendInitialEvents") == "true" || rv == "" || rv == "0"
	}
	return r.method == http.MethodGet
}

// door sits between clients and a server, on the clients' side. It records all requests, including
// retries. It can break watches and delay new ones.
type door struct {
	mu       sync.Mutex
	requests []*request
	answers  []*request           // those answered with 200, in the order of the answers
	streams  map[*stream]struct{} // watches being answered
	closed   string               // the path of delayed watches; "*" is any
	opened   chan struct{}        // closed when they may continue; nil if none are delayed
}

// wrap puts the door in front of a transport.
func (d *door) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		in := &request{method: r.Method, path: r.URL.Path, query: r.URL.Query(), accept: r.Header.Get("Accept"), contentType: r.Header.Get("Content-Type")}
		d.note(in)
		if !in.watches() {
			return d.answered(in, next, r)
		}
		if err := d.wait(r.Context(), in); err != nil {
			return nil, err
		}
		ctx, cut := context.WithCancel(r.Context())
		s := &stream{door: d, path: in.path, cut: cut}
		d.enter(s)
		answer, err := d.answered(in, next, r.WithContext(ctx))
		if err != nil {
			s.leave()
			return nil, err
		}
		s.ReadCloser, answer.Body = answer.Body, s
		return answer, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (d *door) note(in *request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.requests = append(d.requests, in)
}

// answered forwards a request and records its answer.
func (d *door) answered(in *request, next http.RoundTripper, r *http.Request) (*http.Response, error) {
	answer, err := next.RoundTrip(r)
	if err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		in.code = answer.StatusCode
		if in.code == http.StatusOK {
			d.answers = append(d.answers, in)
		}
	}
	return answer, err
}

// wait delays a watch while the door is shut.
func (d *door) wait(ctx context.Context, in *request) error {
	d.mu.Lock()
	opened := d.opened
	held := opened != nil && (d.closed == in.path || d.closed == "*")
	d.mu.Unlock()
	if !held {
		return nil
	}
	select {
	case <-opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *door) enter(s *stream) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.streams == nil {
		d.streams = map[*stream]struct{}{}
	}
	d.streams[s] = struct{}{}
}

// shut breaks the watches of a path abruptly, and delays new ones until the returned function is
// called. The path "*" means all.
func (d *door) shut(path string) (open func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	opened := make(chan struct{})
	d.closed, d.opened = path, opened
	for s := range d.streams {
		if path == s.path || path == "*" {
			s.broken = true
			s.cut()
		}
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		close(opened)
		d.opened = nil
	}
}

// seen returns the requests that match.
func (d *door) seen(match func(*request) bool) []request { return d.since(0, match) }

// since returns the matching requests, without looking at the first ones.
func (d *door) since(first int, match func(*request) bool) (out []request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.requests[first:] {
		if match(r) {
			out = append(out, *r)
		}
	}
	return out
}

// asked returns the number of requests.
func (d *door) asked() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.requests)
}

// stream is the body of a watch's answer.
type stream struct {
	io.ReadCloser
	door   *door
	path   string
	cut    context.CancelFunc
	broken bool // guarded by door.mu
}

// Read reads on. A broken stream ends as if the connection were gone, and data under way is lost.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.door.mu.Lock()
	defer s.door.mu.Unlock()
	if s.broken {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// Close ends the request too.
func (s *stream) Close() error {
	s.leave()
	return s.ReadCloser.Close()
}

func (s *stream) leave() {
	s.cut()
	s.door.mu.Lock()
	defer s.door.mu.Unlock()
	delete(s.door.streams, s)
}

// granted returns how many requests were answered with 200.
func (d *door) granted() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.answers)
}

// grants returns the requests that were answered with 200, in the order of the answers, except the
// first n.
func (d *door) grants(first int) (out []request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.answers[first:] {
		out = append(out, *r)
	}
	return out
}

// handle puts the door on the server's side, for clients in other programs.
func (d *door) handle(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in := &request{method: r.Method, path: r.URL.Path, query: r.URL.Query(), accept: r.Header.Get("Accept"), contentType: r.Header.Get("Content-Type")}
		d.note(in)
		if in.watches() {
			if d.wait(r.Context(), in) != nil {
				return
			}
			ctx, cut := context.WithCancel(r.Context())
			s := &stream{door: d, path: in.path, cut: cut}
			d.enter(s)
			defer s.leave()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(&seen{ResponseWriter: w, door: d, request: in}, r)
	})
}

// seen records the answer to a request for a door.
type seen struct {
	http.ResponseWriter
	door    *door
	request *request
}

// Unwrap is for http.ResponseController.
func (s *seen) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// WriteHeader passes the code on.
func (s *seen) WriteHeader(code int) {
	s.door.mu.Lock()
	if s.request.code == 0 {
		s.request.code = code
		if code == http.StatusOK {
			s.door.answers = append(s.door.answers, s.request)
		}
	}
	s.door.mu.Unlock()
	s.ResponseWriter.WriteHeader(code)
}
