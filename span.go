package kindwright

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/tracing"
)

// groupMonitoring are those who watch over servers.
const groupMonitoring = "system:monitoring"

// withSpan has the request followed, if the tracer wants that. The sender is known, and still acts for
// themselves.
// Source: TRACE-04, TRACE-05.
func (s *Server) withSpan(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := request.ExchangeFrom(r.Context())
		if ctx, span := s.span(x, r); span != nil {
			x.Follow(ctx, span)
		}
		next.ServeHTTP(w, r)
	})
}

// span asks the tracer.
func (s *Server) span(x *request.Exchange, r *http.Request) (context.Context, tracing.Span) {
	name := r.Method
	if info := x.Info.Load(); info != nil && info.IsResource {
		name += " " + info.Route()
	}
	around := x.Around()
	ctx, span, err := s.begin(around, tracing.Request{
		Name: name, AuditID: x.ID, Start: x.Start, HTTP: r, Trusted: trusted(x.User.Load()),
	})
	if err != nil {
		s.cfg.log.Error(err, "a request is not followed", guard.WithStack(err, "auditID", x.ID)...)
	}
	if span == nil {
		return nil, nil
	}
	if ctx == nil {
		ctx = around
	}
	return ctx, &guardedSpan{span: span, log: s.cfg.log, id: x.ID}
}

// begin calls the tracer.
func (s *Server) begin(ctx context.Context, r tracing.Request) (within context.Context, span tracing.Span, err error) {
	defer guard.Recover(&err, "the tracer")
	within, span = s.cfg.tracer.Begin(ctx, r)
	if guard.IsNil(span) {
		span = nil
	}
	return within, span, nil
}

// trusted reports whether a user may decide that their requests are followed.
func trusted(u *authn.User) bool {
	return u != nil && (slices.Contains(u.Groups, authn.GroupMasters) || slices.Contains(u.Groups, groupMonitoring))
}

// endSpan ends the span of a request, if it has one.
func endSpan(x *request.Exchange) {
	span := x.Span()
	if span == nil {
		return
	}
	if took := x.Took(request.Writing); took > 0 && !x.Streams {
		now := time.Now()
		span.Part(request.Writing.String(), now.Add(-took), now)
	}
	span.End(tracing.Answer{Code: int(x.Code.Load()), Bytes: x.Bytes.Load(), Aborted: x.Aborted.Load()})
}

// guardedSpan is a span that is told nothing more once it has panicked. The request goes on.
type guardedSpan struct {
	span   tracing.Span
	log    logr.Logger
	id     string
	failed atomic.Bool
}

// Part tells of a part of the work.
func (g *guardedSpan) Part(name string, start, end time.Time) {
	g.tell(func() { g.span.Part(name, start, end) })
}

// Call begins a call to another server.
func (g *guardedSpan) Call(r *http.Request) tracing.Call {
	c := &guardedCall{of: g}
	g.tell(func() { c.call = g.span.Call(r) })
	return c
}

// End ends the span.
func (g *guardedSpan) End(a tracing.Answer) { g.tell(func() { g.span.End(a) }) }

// tell calls the span.
func (g *guardedSpan) tell(what func()) {
	if g.failed.Load() {
		return
	}
	if err := told(what); err != nil && !g.failed.Swap(true) {
		g.log.Error(err, "a request is followed no further", guard.WithStack(err, "auditID", g.id)...)
	}
}

// told calls a function of a span.
func told(what func()) (err error) {
	defer guard.Recover(&err, "the span of a request")
	what()
	return nil
}

// guardedCall is a call of a guarded span.
type guardedCall struct {
	of   *guardedSpan
	call tracing.Call
}

// End ends the call.
func (c *guardedCall) End(code int, err error) {
	if !guard.IsNil(c.call) {
		c.of.tell(func() { c.call.End(code, err) })
	}
}
