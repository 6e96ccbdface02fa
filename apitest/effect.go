package apitest

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Effect is what a [Fault] does to a request.
type Effect struct {
	text  string
	verbs []string                           // verbs to which it applies; nil means all
	begin func(s *Server) func(c *faultCall) // called when the fault is set up; the result is called for each request
	wrong string                             // why the effect is invalid
}

// String describes the effect. It is "" for the zero value, which does nothing.
func (e Effect) String() string { return e.text }

// faultCall is a request with a fault.
type faultCall struct {
	w       http.ResponseWriter
	r       *http.Request
	next    http.Handler
	info    *request.Info
	call    *call
	stopped <-chan struct{}
}

// pass continues the request with another writer.
func (c *faultCall) pass(w http.ResponseWriter) { c.next.ServeHTTP(w, c.r) }

// wait returns when d has passed, the fault is stopped or ctx ends.
func (c *faultCall) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.stopped:
	case <-ctx.Done():
	}
}

// client returns the context of the connection. The context of the request ends also when the
// server gives up.
func (c *faultCall) client() context.Context { return c.call.request.Context() }

// breakOff closes the connection at once. It does not return.
func breakOff() { panic(http.ErrAbortHandler) }

func effect(apply func(c *faultCall), format string, args ...any) Effect {
	return Effect{text: fmt.Sprintf(format, args...), begin: func(*Server) func(*faultCall) { return apply }}
}

// withCode sets the code of an effect, which must be that of an error.
func (e Effect) withCode(code int) Effect {
	if code < 400 || code > 599 {
		e.wrong = fmt.Sprintf("%d is not the code of a refusal, from 400 to 599", code)
	}
	return e
}

// Answer rejects the request with a code, as a server would, without doing anything. For 429 and
// 503 with a Retry-After header see RetryAfter. A 504 means that the server gave up; for a client
// that gives up see Hang.
func Answer(code int) Effect {
	return effect(func(c *faultCall) { c.refuse(c.failure(code)) }, "answered %d", code).withCode(code)
}

// RetryAfter is Answer with a Retry-After header in whole seconds.
func RetryAfter(code, seconds int) Effect {
	return effect(func(c *faultCall) { c.refuse(c.failure(code).WithRetryAfter(seconds)) }, "answered %d, Retry-After %d", code, seconds).withCode(code)
}

// Refuse is Answer with an error of package status.
func Refuse(err error) Effect {
	e := effect(func(c *faultCall) { c.refuse(err) }, "answered %v", err)
	if err == nil {
		e.wrong = "Refuse needs an error"
	}
	return e
}

func (c *faultCall) refuse(err error) { negotiate.WriteError(c.w, c.r, err) }

// injected is part of every error message that a fault creates.
const injected = "injected by a fault of the test"

// failure returns the error that a server sends with a code.
func (c *faultCall) failure(code int) *status.Error {
	gr := meta.GroupResource{Group: c.info.Group, Resource: c.info.Resource}
	switch code {
	case http.StatusBadRequest:
		return status.BadRequest(injected)
	case http.StatusUnauthorized:
		return status.Unauthorized()
	case http.StatusForbidden:
		return status.Forbidden(gr, c.info.Name, injected)
	case http.StatusNotFound:
		return status.NotFound(gr, c.info.Name)
	case http.StatusConflict:
		if c.info.Verb == request.VerbCreate {
			return status.AlreadyExists(gr, c.info.Name)
		}
		return status.Conflict(gr, c.info.Name,
			"the object has been modified; please apply your changes to the latest version and try again ("+injected+")")
	case http.StatusGone:
		return status.Expired("too old resource version (" + injected + ")")
	case http.StatusTooManyRequests:
		return status.TooManyRequests("too many requests ("+injected+")", 0)
	case http.StatusServiceUnavailable:
		return status.ServiceUnavailable("the server is currently unable to handle the request (" + injected + ")")
	case http.StatusGatewayTimeout:
		return status.Timeout(injected, 0)
	}
	return status.Internal(nil).WithMessage("Internal error occurred: " + injected).WithCode(code)
}

// Break closes the connection before anything is done, as if the server did not exist.
func Break() Effect { return effect(func(*faultCall) { breakOff() }, "broken off") }

// LoseAnswer performs the request but closes the connection instead of responding. The object is
// written, and the client cannot know.
func LoseAnswer() Effect {
	return effect(func(c *faultCall) {
		c.pass(&lostAnswer{header: http.Header{}})
		breakOff()
	}, "done, and the answer lost")
}

// Hang does nothing and does not respond until the client gives up or the fault is stopped. Then it
// closes the connection.
func Hang() Effect {
	return effect(func(c *faultCall) {
		select {
		case <-c.stopped:
		case <-c.client().Done():
		}
		breakOff()
	}, "left hanging")
}

// Delay makes the request wait before anything is done. The time is virtual in a synctest bubble.
// It counts against the server's limit for the request.
func Delay(d time.Duration) Effect {
	return lasting(d, effect(func(c *faultCall) {
		c.wait(c.r.Context(), d)
		c.pass(c.w)
	}, "delayed by %s", d))
}

// lasting refuses an effect that lasts a negative time.
func lasting(d time.Duration, e Effect) Effect {
	if d < 0 {
		e.wrong = fmt.Sprintf("%q: the time must not be negative", e.text)
	}
	return e
}

// DelayAnswer performs the request and delays the response.
func DelayAnswer(d time.Duration) Effect {
	return lasting(d, effect(func(c *faultCall) {
		c.pass(&heldAnswer{ResponseWriter: c.w, hold: func() { c.wait(c.client(), d) }})
	}, "answered %s later", d))
}

// Stale answers reads from the state at the time when the fault is set up, as a server whose cache
// has stopped: get, list, and watches, which then show nothing new. Reads that require a later
// version wait in vain and fail with 504. Writes are not affected.
func Stale() Effect {
	return Effect{text: "answered from a past state", verbs: []string{request.VerbGet, request.VerbList, request.VerbWatch}, begin: func(s *Server) func(*faultCall) {
		past := s.Fork(s.t)
		return func(c *faultCall) {
			there := *c.call // the original request: the deadlines set on the way here must not apply to a watch
			there.server, there.note = past, nil
			past.API.ServeHTTP(c.w, there.request.WithContext(context.WithValue(there.request.Context(), callKey{}, &there)))
		}
	}}
}

// BreakWatch closes a watch after some events, not counting bookmarks. With 0 it closes the watch
// when it starts.
func BreakWatch(events int) Effect {
	return watchEffect(events, point{after: func(*frames) error { breakOff(); return nil }}, "watch broken off after %d events", events)
}

// CutWatch closes a watch in the middle of the frame that follows some events.
func CutWatch(events int) Effect {
	return watchEffect(events, point{before: func(f *frames, frame []byte) error {
		_ = f.send(frame[:len(frame)/2])
		_ = f.flush()
		breakOff()
		return nil
	}}, "watch cut after %d events", events)
}

// EndWatch ends a watch after some events with an ERROR event of a code. 410 means that the watch
// has fallen too far behind.
func EndWatch(events, code int) Effect {
	return watchEffect(events, point{after: func(f *frames) error {
		if err := f.send(f.errorFrame(f.call.failure(code))); err != nil {
			return err
		}
		_ = f.flush()
		return errOver
	}}, "watch ended after %d events with %d", events, code).withCode(code)
}

// SilenceWatch makes a watch silent after some events, without even bookmarks. It delivers what was
// held back when the fault is stopped. To the client it looks like a connection whose other end is
// gone: the watch does not end by itself.
func SilenceWatch(events int) Effect {
	return watchEffect(events, point{before: func(f *frames, frame []byte) error {
		select {
		case <-f.call.stopped:
		case <-f.call.client().Done():
			return f.call.client().Err()
		}
		return f.send(frame)
	}}, "watch silent after %d events", events)
}

// SlowWatch delays the events of a watch, in order, by d. Events during the delay wait up to
// another d.
func SlowWatch(d time.Duration) Effect {
	return onlyWatches(effect(func(c *faultCall) {
		c.pass(&heldAnswer{ResponseWriter: c.w, hold: func() { c.wait(c.client(), d) }, always: true})
	}, "watch late by %s", d))
}

func watchEffect(events int, p point, format string, args ...any) Effect {
	return onlyWatches(effect(func(c *faultCall) {
		c.pass(&frames{ResponseWriter: c.w, call: c, left: events, point: p})
	}, format, args...))
}

func onlyWatches(e Effect) Effect {
	e.verbs = []string{request.VerbWatch}
	return e
}

// lostAnswer discards a response.
type lostAnswer struct{ header http.Header }

// Header returns a header that is discarded.
func (w *lostAnswer) Header() http.Header { return w.header }

// WriteHeader does nothing.
func (w *lostAnswer) WriteHeader(int) {}

// Write does nothing.
func (w *lostAnswer) Write(p []byte) (int, error) { return len(p), nil }

// FlushError does nothing.
func (w *lostAnswer) FlushError() error { return nil }

// heldAnswer delays a response: its beginning and, for a stream, each flushed part after that.
type heldAnswer struct {
	http.ResponseWriter
	hold   func()
	always bool
	begun  bool
}

// WriteHeader starts the response.
func (w *heldAnswer) WriteHeader(code int) {
	if !w.begun && !w.always && code >= http.StatusOK {
		w.hold()
	}
	w.begun = w.begun || code >= http.StatusOK
	w.ResponseWriter.WriteHeader(code)
}

// Write sends a part of the response.
func (w *heldAnswer) Write(p []byte) (int, error) {
	if !w.begun {
		w.hold()
		w.begun = true
	}
	return w.ResponseWriter.Write(p)
}

// FlushError flushes the writer.
func (w *heldAnswer) FlushError() error {
	w.begun = w.begun && !w.always
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// SetWriteDeadline does nothing: the handler must not notice the delay.
func (w *heldAnswer) SetWriteDeadline(time.Time) error { return nil }

// Unwrap gives http.ResponseController the connection's own writer.
func (w *heldAnswer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
