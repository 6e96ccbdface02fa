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
	verbs []string                           // of the requests that it makes sense for; nil is all
	begin func(s *Server) func(c *faultCall) // when the fault is set up, and then for each request
	wrong string                             // why there can be no such effect
}

// String says what the effect is, "" of the zero value, which has none.
func (e Effect) String() string { return e.text }

// faultCall is a request that a fault has hit.
type faultCall struct {
	w       http.ResponseWriter
	r       *http.Request
	next    http.Handler
	info    *request.Info
	call    *call
	stopped <-chan struct{}
}

// pass lets the request go on, with another writer.
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

// client is the context of the connection. That of the request also ends when the server gives up.
func (c *faultCall) client() context.Context { return c.call.request.Context() }

// breakOff ends the connection as it is. It does not return.
func breakOff() { panic(http.ErrAbortHandler) }

func effect(apply func(c *faultCall), format string, args ...any) Effect {
	return Effect{text: fmt.Sprintf(format, args...), begin: func(*Server) func(*faultCall) { return apply }}
}

// withCode is an effect that answers with a code, which must be that of a refusal.
func (e Effect) withCode(code int) Effect {
	if code < 400 || code > 599 {
		e.wrong = fmt.Sprintf("%d is not the code of a refusal, from 400 to 599", code)
	}
	return e
}

// Answer has the request refused with a code, as a server would do it that has met with this:
// nothing is done. For 429 and 503 with a Retry-After, see RetryAfter; a 504 says that the server
// has given up, and a client that gives up itself wants Hang.
func Answer(code int) Effect {
	return effect(func(c *faultCall) { c.refuse(c.failure(code)) }, "answered %d", code).withCode(code)
}

// RetryAfter is Answer with the time, in whole seconds, after which the client should try again.
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

// injected is in the message of every error that a fault makes up.
const injected = "injected by a fault of the test"

// failure is what a server says with a code.
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
		return status.Conflict(gr, c.info.Name, "the object has been modified; please apply your changes to the latest version and try again ("+injected+")")
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

// Break breaks the connection off before anything is done: what a client sees of a server that is
// not there.
func Break() Effect { return effect(func(*faultCall) { breakOff() }, "broken off") }

// LoseAnswer does what is asked, and breaks the connection off instead of answering: the object is
// written, and the client cannot know.
func LoseAnswer() Effect {
	return effect(func(c *faultCall) {
		c.pass(&lostAnswer{header: http.Header{}})
		breakOff()
	}, "done, and the answer lost")
}

// Hang does nothing and answers nothing, until the client gives up or the fault is stopped; then
// the connection breaks.
func Hang() Effect {
	return effect(func(c *faultCall) {
		select {
		case <-c.stopped:
		case <-c.client().Done():
		}
		breakOff()
	}, "left hanging")
}

// Delay has the request wait before anything is done. In a synctest bubble the time is virtual.
// What the server allows for a request passes meanwhile.
func Delay(d time.Duration) Effect {
	return effect(func(c *faultCall) {
		c.wait(c.r.Context(), d)
		c.pass(c.w)
	}, "delayed by %s", d)
}

// DelayAnswer does what is asked, and has the answer wait.
func DelayAnswer(d time.Duration) Effect {
	return effect(func(c *faultCall) {
		c.pass(&heldAnswer{ResponseWriter: c.w, hold: func() { c.wait(c.client(), d) }})
	}, "answered %s later", d)
}

// Stale has reads answered from the state at the time when the fault is set up, as by a server
// whose cache has stopped: get and list, and watches, which then show nothing new. Reads that ask
// for a later version wait for it in vain, and are told so with 504. Writes are not concerned.
func Stale() Effect {
	return Effect{text: "answered from a past state", verbs: []string{request.VerbGet, request.VerbList, request.VerbWatch}, begin: func(s *Server) func(*faultCall) {
		past := s.Fork(s.t)
		return func(c *faultCall) {
			there := *c.call // whole from the beginning: the deadlines of the way up to here are not those of a watch
			there.server, there.note = past, nil
			past.API.ServeHTTP(c.w, there.request.WithContext(context.WithValue(there.request.Context(), callKey{}, &there)))
		}
	}}
}

// BreakWatch breaks watches off after some events, not counting bookmarks; after 0 as soon as they
// begin.
func BreakWatch(events int) Effect {
	return watchEffect(events, point{after: func(*frames) error { breakOff(); return nil }}, "watch broken off after %d events", events)
}

// CutWatch breaks watches off in the middle of what follows some events.
func CutWatch(events int) Effect {
	return watchEffect(events, point{before: func(f *frames, frame []byte) error {
		_ = f.send(frame[:len(frame)/2])
		_ = f.flush()
		breakOff()
		return nil
	}}, "watch cut after %d events", events)
}

// EndWatch ends watches after some events with an ERROR event of a code: 410 is a watch that has
// fallen too far behind.
func EndWatch(events, code int) Effect {
	return watchEffect(events, point{after: func(f *frames) error {
		if err := f.send(f.errorFrame(f.call.failure(code))); err != nil {
			return err
		}
		_ = f.flush()
		return errOver
	}}, "watch ended after %d events with %d", events, code).withCode(code)
}

// SilenceWatch has watches say nothing after some events, not even bookmarks, and goes on with what
// was held back when the fault is stopped. It is what a client sees of a connection whose other end
// is gone: the watch does not end by itself.
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

// SlowWatch delivers what watches have to say later, in order, each thing once: by d, and what
// happens meanwhile by up to d more.
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

// lostAnswer takes an answer and forgets it.
type lostAnswer struct{ header http.Header }

// Header returns a header that nobody sees.
func (w *lostAnswer) Header() http.Header { return w.header }

// WriteHeader does nothing.
func (w *lostAnswer) WriteHeader(int) {}

// Write does nothing.
func (w *lostAnswer) Write(p []byte) (int, error) { return len(p), nil }

// FlushError does nothing.
func (w *lostAnswer) FlushError() error { return nil }

// heldAnswer has an answer wait: its beginning, or of a stream each part that is sent on its way
// after that.
type heldAnswer struct {
	http.ResponseWriter
	hold   func()
	always bool
	begun  bool
}

// WriteHeader begins the answer.
func (w *heldAnswer) WriteHeader(code int) {
	if !w.begun && !w.always && code >= http.StatusOK {
		w.hold()
	}
	w.begun = w.begun || code >= http.StatusOK
	w.ResponseWriter.WriteHeader(code)
}

// Write sends a part of the answer.
func (w *heldAnswer) Write(p []byte) (int, error) {
	if !w.begun {
		w.hold()
		w.begun = true
	}
	return w.ResponseWriter.Write(p)
}

// FlushError sends what is there on its way.
func (w *heldAnswer) FlushError() error {
	w.begun = w.begun && !w.always
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// SetWriteDeadline does nothing: who writes is not to know that it is held up.
func (w *heldAnswer) SetWriteDeadline(time.Time) error { return nil }

// Unwrap gives http.ResponseController the connection's own writer.
func (w *heldAnswer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
