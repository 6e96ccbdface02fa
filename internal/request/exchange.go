package request

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/flow"
	"github.com/kindwright/kindwright/internal/metrics/apiserver"
	"github.com/kindwright/kindwright/status"
)

// Exchange is one request and its answer. The first link of a server's chain makes it, the links
// after it fill it in, and the first link reports it when the request has ended. It is the context
// of the request, so that a request needs one context for everything that is known about it.
//
// The first group of fields is set by Begin. The atomic ones are set once, on the way, and what they
// point to does not change afterwards. Both are safe to read in any goroutine, at any time. All
// others belong to the goroutine that serves the request.
type Exchange struct {
	bounded

	ID       string        // the audit id
	Start    time.Time     // when the request came in
	Received *http.Request // as it came in, with its credentials

	Info     atomic.Pointer[Info]       // what is asked for; nil if that was not parsed, or could not be
	Misused  error                      // the 405 for a method that the path cannot have, once the sender may be told
	Unread   error                      // the 400 for a query that cannot be read, once the sender is known
	User     atomic.Pointer[authn.User] // who asks
	Decision atomic.Pointer[Decision]   // what the authorizer said

	// Impersonation says as whom User acts; nil if they act for themselves. From then on the context
	// answers authn.UserFrom with the impersonated user.
	Impersonation atomic.Pointer[Impersonation]

	// Code is the code of the answer: 0 before it has begun, and if the connection was lost before
	// that. Bytes counts what was handed to the connection of the answer's body; of a connection
	// that changed its protocol, all bytes since. Aborted says that the connection was broken off, so
	// that the client has no answer, or a part of one.
	Code    atomic.Int32
	Bytes   atomic.Int64
	Aborted atomic.Bool

	// Warnings are for the client.
	Warnings Warnings

	// Body is what the body of the request has taken of the memory for bodies.
	Body flow.Hold

	// Changes is the length of the stored object that the request changes, 0 if none is known. A few
	// bytes of a patch take what decoding a large object takes, and wait for it as a long body does.
	// What is not longer than flow.Free is bounded by the number of requests.
	Changes int64

	// Seat is what a request whose body is read holds meanwhile; nil if it holds nothing that others wait for.
	Seat Seat

	// Begun, if not nil, is called when the answer begins.
	Begun func()

	// Authorized is what the authorizer has allowed, if the server checks that it does just that.
	Authorized *authz.Attributes

	// Kind is the served kind that the request began with, nil for a request that is not for a
	// served resource. Package internal/rest knows its type.
	Kind any

	// Meter counts the request; zero if nobody counts.
	Meter apiserver.Running

	// Lap is the time since Start at which the user was known.
	Lap time.Duration

	// Streams says that the request may last as long as it likes, once its handler has begun.
	Streams bool

	// Elsewhere says that another server answers the request.
	Elsewhere bool

	// Claim is the request as the authenticators saw it, with its credentials.
	Claim *http.Request

	// Judge, if not nil, asks again whether the request may be served: who sends it, and whether
	// they may. Its error is the answer.
	Judge func(ctx context.Context, x *Exchange) error

	// Ended, if not nil, is done when the caller's credential or permission has ended. Streams then
	// end in order.
	Ended context.Context

	// CBOR says that the server reads and writes CBOR.
	CBOR bool

	// Limit is what Bound has given the request.
	Limit *bounded

	// Record is what the audit log gets to know; nil if nothing is recorded.
	Record *Record

	// Sent is the body of the request, if it was read as a whole. Nobody may change it.
	Sent []byte

	// Document is the answer, if it was written as a whole, or Object what wrote itself as the
	// answer. Both are empty for lists, for streams and for what is kept in compressed form. Nobody
	// may change the document.
	Document []byte
	Object   io.WriterTo

	// Room for what the atomic fields point to, so that they need no memory of their own.
	info     Info
	user     authn.User
	decision Decision

	annotations annotations
	side        sideDecisions
	latencies   latencies
	trace       atomic.Pointer[trace] // nil for a request that is not followed
}

// Decision is what the authorizer said, and why. A refusal is Deny, whatever the reason for it.
type Decision struct {
	authz.Decision
	Reason string
}

// Begin makes x the context of a request, within the one it came with, and returns it.
func (x *Exchange) Begin(r *http.Request, id string, start time.Time) *Exchange {
	x.Context, x.ID, x.Received, x.Start = r.Context(), id, r, start
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
	if x := ExchangeFrom(ctx); x != nil {
		return x.Info.Load()
	}
	return nil
}

// Value returns what is known about the request, and leaves other keys to the context around it.
func (x *Exchange) Value(key any) any {
	switch key.(type) {
	case exchangeKey:
		return x
	case authn.UserKey:
		if as := x.Impersonation.Load(); as != nil {
			return &as.User
		}
		if u := x.User.Load(); u != nil {
			return u
		}
	}
	if t := x.trace.Load(); t != nil {
		if v := t.Value(key); v != nil {
			return v
		}
	}
	return x.bounded.Value(key)
}

// Bound gives the request a deadline, which Limit then is, and returns the context that has it: ctx
// itself, if it is the exchange. Only the deadline of a stream can be lifted.
func (x *Exchange) Bound(ctx context.Context, at time.Time) context.Context {
	x.Limit = &x.bounded
	if ctx != context.Context(x) {
		x.Limit = &bounded{Context: ctx} // somebody has put a context around the exchange
		ctx = x.Limit
	}
	x.Limit.mu.Lock()
	defer x.Limit.mu.Unlock()
	x.Limit.at, x.Limit.stream = at, x.Streams
	return ctx
}

// SetUser sets who asks, and returns a context that tells so: ctx itself, if it is an exchange.
func SetUser(ctx context.Context, u authn.User) context.Context {
	if x := ExchangeFrom(ctx); x.User.Load() == nil {
		x.user = u
		x.User.Store(&x.user)
		if ctx == context.Context(x) {
			return ctx
		}
	}
	return authn.WithUser(ctx, u) // somebody may have named another in a context of their own
}

// Impersonation is one user acting as another.
type Impersonation struct {
	User       authn.User // whose rights count
	Wanted     authn.User // what the request said of User
	Sender     authn.User // who acts: User of the exchange, unless a middleware has named another
	Constraint string     // the verb that allowed it, "" for plain impersonation
}

// Impersonate sets as whom the sender acts, and returns a context whose user is as.User.
func (x *Exchange) Impersonate(ctx context.Context, as *Impersonation) context.Context {
	x.Impersonation.Store(as)
	if ctx == context.Context(x) {
		return ctx
	}
	return authn.WithUser(ctx, as.User) // somebody may have named another in a context of their own
}

// slow is how long a client may take to send a body before the server asks again whether the
// client may do what it wants.
const slow = time.Second

// Recheck returns an error if the caller may no longer do what was allowed at the beginning of the
// request. The caller of Recheck has waited for the client since a moment. A credential that has
// expired meanwhile is always noticed; everything else after more than a second.
func (x *Exchange) Recheck(ctx context.Context, since time.Time) error {
	now := time.Now()
	if u, ok := authn.UserFrom(ctx); ok && u.Expired(now) {
		return status.Unauthorized()
	}
	if x.Judge == nil || now.Sub(since) < slow {
		return nil
	}
	return x.Judge(ctx, x)
}

// SetDecision sets what the authorizer said. The first decision counts.
func (x *Exchange) SetDecision(d authz.Decision, reason string) {
	if x.Decision.Load() == nil {
		x.decision = Decision{d, reason}
		x.Decision.Store(&x.decision)
	}
}

// SideDecision is what the authorizer said about something else than the request itself, which the
// server or a hook asked on the way: whether the caller may also create what an update finds absent.
type SideDecision struct {
	authz.Attributes
	Decision
}

// maxSideDecisions bounds what one request remembers. A hook may ask about every item of a list.
const maxSideDecisions = 100

// sideDecisions are the first of a request.
type sideDecisions struct {
	mu   sync.Mutex
	list []SideDecision
}

// NoteSideDecision records a decision for the audit log. A nil exchange drops it.
func (x *Exchange) NoteSideDecision(a authz.Attributes, d authz.Decision, reason string) {
	if x == nil {
		return
	}
	x.side.mu.Lock()
	defer x.side.mu.Unlock()
	if len(x.side.list) < maxSideDecisions {
		x.side.list = append(x.side.list, SideDecision{a, Decision{d, reason}})
	}
}

// SideDecisions returns the recorded decisions, nil if there are none.
func (x *Exchange) SideDecisions() []SideDecision {
	x.side.mu.Lock()
	defer x.side.mu.Unlock()
	return slices.Clone(x.side.list)
}

// Answer returns the body of the answer if it is at hand, before compression.
func (x *Exchange) Answer() []byte {
	if x.Object == nil {
		return x.Document
	}
	var b bytes.Buffer
	_, _ = x.Object.WriteTo(&b) // which does not fail
	return b.Bytes()
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

// Seat is a part of what the server does at once. A request gives it back while it waits for its client.
type Seat interface {
	// Yield gives the seat back. It reports whether the request may go on waiting for its client.
	Yield() bool

	// Return waits for a seat, if it was given back. The error is the answer if there is none.
	Return(ctx context.Context) error
}
