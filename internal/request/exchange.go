package request

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/metrics/apiserver"
)

// Exchange is one request and its answer. The first link of a server's chain makes it, the links
// after it fill it in, and the first link reports it when the request has ended. It is the context
// of the request, so that a request needs one context for everything that is known about it.
//
// A fact is set once and does not change afterwards: methods that read are safe in any goroutine,
// at any time. Methods that set, and the exported fields, belong to the goroutine that serves the
// request.
type Exchange struct {
	// Kind is the served kind that the request began with, nil for a request that is not for a
	// served resource. Package internal/rest knows its type.
	Kind any

	// Meter counts the request; nil if nobody counts.
	Meter *apiserver.Served

	// Sent is the body of the request, if it was read as a whole. Nobody may change it.
	Sent []byte

	// Document is the answer, if it was written as a whole, or Object what wrote itself as the
	// answer. Both are empty for lists, for streams and for what is kept in compressed form. Nobody
	// may change the document.
	Document []byte
	Object   io.WriterTo

	own   bounded
	other *bounded // bounds the request where somebody has put a context around the exchange
	id    string
	start time.Time

	facts    atomic.Uint32 // the facts below that have been set
	received *http.Request
	info     *Info
	room     Info // for info, so that it needs no memory of its own
	user     authn.User
	decision authz.Decision
	reason   string

	code    atomic.Int32
	bytes   atomic.Int64
	aborted atomic.Bool

	warnings    Warnings
	annotations annotations
}

// The facts of an exchange that are set on the way.
const (
	hasInfo uint32 = 1 << iota
	hasUser
	hasDecision
)

// Begin makes x the context of a request, within the one it came with, and returns it.
func (x *Exchange) Begin(r *http.Request, id string, start time.Time) *Exchange {
	x.own.Context, x.id, x.received, x.start = r.Context(), id, r, start
	return x
}

// exchangeKey is the context key of the exchange.
type exchangeKey struct{}

// ExchangeFrom returns the exchange that a context belongs to, nil if there is none.
func ExchangeFrom(ctx context.Context) *Exchange {
	if x, ok := ctx.(*Exchange); ok {
		return x
	}
	x, _ := ctx.Value(exchangeKey{}).(*Exchange)
	return x
}

// From returns the parsed request, or nil when nothing was parsed: callers must then refuse.
func From(ctx context.Context) *Info {
	return ExchangeFrom(ctx).Info()
}

// Value returns what is known about the request, and leaves other keys to the context around it.
func (x *Exchange) Value(key any) any {
	switch key.(type) {
	case exchangeKey:
		return x
	case authn.UserKey:
		if x.has(hasUser) {
			return &x.user
		}
	}
	return x.own.Value(key)
}

// Deadline returns when the request must have been answered.
func (x *Exchange) Deadline() (time.Time, bool) { return x.own.Deadline() }

// Done returns a channel that is closed when the request should end.
func (x *Exchange) Done() <-chan struct{} { return x.own.Done() }

// Err says why the request should end, nil before.
func (x *Exchange) Err() error { return x.own.Err() }

// Bound gives the request a deadline and returns the context that has it: ctx itself, if it is the
// exchange. The deadline of a stream bounds only what comes before its handler, which is when
// Unbound lifts it.
func (x *Exchange) Bound(ctx context.Context, at time.Time, stream bool) context.Context {
	b := &x.own
	if ctx != context.Context(x) {
		b = &bounded{Context: ctx}
		x.other, ctx = b, b
	}
	b.bound(at, stream)
	return ctx
}

// Unbound lifts the deadline of a stream.
func (x *Exchange) Unbound() {
	x.own.lift()
	if x.other != nil {
		x.other.lift()
	}
}

// End ends the context: the handler has returned.
func (x *Exchange) End() {
	x.own.end()
	if x.other != nil {
		x.other.end()
	}
}

func (x *Exchange) has(fact uint32) bool { return x.facts.Load()&fact != 0 }

// ID is the audit id, "" for a context without an exchange.
func (x *Exchange) ID() string {
	if x == nil {
		return ""
	}
	return x.id
}

// Received is the request as it came in. It still has the credentials.
func (x *Exchange) Received() *http.Request { return x.received }

// Start is when the request came in.
func (x *Exchange) Start() time.Time { return x.start }

// Parse sets what the request asks for. See [Parser.Parse] for its errors, after which nothing is
// set.
func (x *Exchange) Parse(p *Parser, r *http.Request) error {
	info, err := p.parse(&x.room, r)
	if err == nil {
		x.SetInfo(info)
	}
	return err
}

// SetInfo sets what the request asks for.
func (x *Exchange) SetInfo(info *Info) {
	if !x.has(hasInfo) {
		x.info = info
		x.facts.Or(hasInfo)
	}
}

// Info is what the request asks for; nil before it was parsed, and if it could not be.
func (x *Exchange) Info() *Info {
	if x == nil || !x.has(hasInfo) {
		return nil
	}
	return x.info
}

// SetUser sets who asks, and returns a context that tells so: ctx itself, if it is the exchange.
func (x *Exchange) SetUser(ctx context.Context, u authn.User) context.Context {
	if x.has(hasUser) {
		return authn.WithUser(ctx, u)
	}
	x.user = u
	x.facts.Or(hasUser)
	if ctx != context.Context(x) {
		return authn.WithUser(ctx, u) // somebody between may have named another
	}
	return ctx
}

// User is who asks; ok is false before that is known.
func (x *Exchange) User() (u authn.User, ok bool) {
	if !x.has(hasUser) {
		return authn.User{}, false
	}
	return x.user, true
}

// SetDecision sets what the authorizer said. A refusal is Deny, whatever the reason for it.
func (x *Exchange) SetDecision(d authz.Decision, reason string) {
	if !x.has(hasDecision) {
		x.decision, x.reason = d, reason
		x.facts.Or(hasDecision)
	}
}

// Decision is what the authorizer said, NoOpinion before it was asked, and its reason.
func (x *Exchange) Decision() (authz.Decision, string) {
	if !x.has(hasDecision) {
		return authz.NoOpinion, ""
	}
	return x.decision, x.reason
}

// SetCode notes that the answer has begun. Only the first code counts.
func (x *Exchange) SetCode(code int) { x.code.CompareAndSwap(0, int32(code)) } //nolint:gosec // three digits

// Code is the code of the answer, 0 before it has begun, and if the connection was lost before
// that.
func (x *Exchange) Code() int { return int(x.code.Load()) }

// Wrote notes that bytes of the answer have been handed to the connection.
func (x *Exchange) Wrote(bytes int64) { x.bytes.Add(bytes) }

// Bytes is how many bytes of the answer's body have been handed to the connection; of a connection
// that changed its protocol, all bytes since.
func (x *Exchange) Bytes() int64 { return x.bytes.Load() }

// Answer returns the body of the answer if it is at hand, before compression.
func (x *Exchange) Answer() []byte {
	if x.Object == nil {
		return x.Document
	}
	var b bytes.Buffer
	_, _ = x.Object.WriteTo(&b) // which does not fail
	return b.Bytes()
}

// Abort notes that the connection was broken off, so that the client has no answer, or a part of
// one.
func (x *Exchange) Abort() { x.aborted.Store(true) }

// Aborted tells whether the connection was broken off.
func (x *Exchange) Aborted() bool { return x.aborted.Load() }

// Warnings is the collection of warnings. A nil exchange has one that drops everything.
func (x *Exchange) Warnings() *Warnings {
	if x == nil {
		return nil
	}
	return &x.warnings
}

// annotations are what the audit log is told about a request beside what everybody can see.
type annotations struct {
	mu   sync.Mutex
	list map[string]string
}

// Annotate adds an annotation for the audit log. The first value of a key counts, and a nil
// exchange drops it.
func (x *Exchange) Annotate(key, value string) {
	if x == nil {
		return
	}
	x.annotations.mu.Lock()
	defer x.annotations.mu.Unlock()
	if _, ok := x.annotations.list[key]; ok {
		return
	}
	if x.annotations.list == nil {
		x.annotations.list = map[string]string{}
	}
	x.annotations.list[key] = value
}

// Annotations returns a copy of the annotations, nil if there are none.
func (x *Exchange) Annotations() map[string]string {
	x.annotations.mu.Lock()
	defer x.annotations.mu.Unlock()
	return maps.Clone(x.annotations.list)
}

var _ context.Context = (*Exchange)(nil)
