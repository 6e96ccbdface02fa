package authn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/spelling"
	"github.com/kindwright/kindwright/meta"
)

// Option configures a [Middleware].
type Option func(*middleware)

// WithLogger sets the logger for rejected requests. It receives the authenticator's reason, which
// the caller never sees. By default nothing is logged.
func WithLogger(l logr.Logger) Option { return func(m *middleware) { m.log = l } }

// WithRefusal sets the function that writes a 401. By default the Status is written as JSON; a
// server that negotiates media types sets its own. The Status's Code is the HTTP status to send.
// write must not be nil.
func WithRefusal(write func(w http.ResponseWriter, r *http.Request, s meta.Status)) Option {
	return func(m *middleware) { m.refuse = write }
}

// WithContext sets what puts the user of a request into its context. The default is [WithUser]; a
// server that keeps all it knows about a request in one context puts its own here. What put returns
// must answer [UserFrom] with u.
func WithContext(put func(ctx context.Context, u User) context.Context) Option {
	return func(m *middleware) { m.put = put }
}

// WithImpersonation leaves requests with Impersonate-* headers to the next handler, which must carry
// the impersonation out or reject it; see package authz/impersonation.
func WithImpersonation() Option { return func(m *middleware) { m.impersonation = true } }

type middleware struct {
	authenticator Authenticator
	known         atomic.Pointer[secrets] // of the header fields of now
	impersonation bool
	log           logr.Logger
	refuse        func(http.ResponseWriter, *http.Request, meta.Status)
	put           func(context.Context, User) context.Context
}

// Middleware identifies the user of each request and puts it into the request's context, where
// [UserFrom] finds it. It adds the group system:authenticated to every user who is not anonymous.
//
// It rejects with 401 a request of a user whom [CheckText] does not allow, with more than one
// Authorization header, with an invalid or unknown credential, or, if a does not include
// [Anonymous], without a credential. The body is a Status with reason Unauthorized and message
// "Unauthorized". The log has the reason.
//
// It rejects a request with an Impersonate-* header with 403 once the sender is known, unless
// [WithImpersonation] is set. Serving the request with the sender's own rights would not be what the
// sender asked for.
//
// The next handler sees the request without Authorization and X-Remote-* headers, without those of a
// [HeaderOwner], in whichever spelling, and without tokens in WebSocket subprotocols. It must not
// modify the header fields: they are a copy only if some were removed.
// Source: AUTHN-20, AUTHN-23.
func Middleware(a Authenticator, opts ...Option) func(http.Handler) http.Handler {
	m := &middleware{authenticator: a, log: logr.Discard(), refuse: WriteStatus, put: WithUser}
	m.known.Store(newSecrets(a))
	for _, o := range opts {
		if o != nil {
			o(m)
		}
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			u, err := Identify(m.authenticator, r)
			if err != nil {
				m.log.V(1).Info("request rejected: not authenticated", "reason", err.Error())
				m.refuse(w, r, unauthorized())
				return
			}
			header, impersonates := m.secrets().without(r.Header)
			if impersonates && !m.impersonation {
				m.log.V(1).Info("request rejected: impersonation is not supported", "user", u.Name)
				m.refuse(w, r, failure(http.StatusForbidden, meta.ReasonForbidden, "forbidden: impersonation is not supported by this server"))
				return
			}
			ctx := m.put(r.Context(), u)
			if header != nil || ctx != r.Context() { // or the request is what the next handler may see
				r = r.WithContext(ctx)
			}
			if header != nil {
				r.Header = header
			}
			next.ServeHTTP(w, r)
		})
	}
}

// secrets returns the header fields that handlers must not see now.
func (m *middleware) secrets() *secrets {
	s := m.known.Load()
	if HeaderRevision(m.authenticator) != s.revision {
		s = newSecrets(m.authenticator)
		m.known.Store(s)
	}
	return s
}

// Identify returns the user of a request as [Middleware] does, whose name is never empty, or the
// error for which Middleware would reject the request. A server calls it to ask again about a
// request that has been running for a while.
func Identify(a Authenticator, r *http.Request) (User, error) {
	if n := len(r.Header["Authorization"]); n > 1 {
		return User{}, manyHeaders(n)
	}
	u, ok, err := a.Authenticate(withOffer(r))
	switch {
	case err != nil:
		return User{}, err
	case !ok && HasCredential(r):
		return User{}, fmt.Errorf("%w: %s", ErrBadCredential, credential(r))
	case !ok:
		return User{}, errors.New("no credential, and anonymous requests are not accepted")
	case u.Name == "":
		return User{}, errors.New("authenticator accepted a user without a name")
	case checkTexts(&u) != nil:
		return User{}, checkTexts(&u)
	case !u.Expires.IsZero() && u.Expired(time.Now()): // the time is asked for only if it matters
		return User{}, fmt.Errorf("%w: expired", ErrBadCredential)
	}
	if !u.IsAnonymous() && !u.In(GroupAuthenticated) {
		// Make a new slice: the authenticator may return the same one for every request.
		u.Groups = slices.Concat(u.Groups, []string{GroupAuthenticated})
	}
	return u, nil
}

// HeaderOwner is an optional method set of an [Authenticator] that takes identities from header
// fields. [Middleware] removes these fields from every request, whoever sent it: names, and all that
// begin with one of the prefixes. An authenticator that wraps another one should have the method too,
// and return [IdentityHeaders] of the other.
type HeaderOwner interface {
	IdentityHeaders() (names, prefixes []string)
}

// IdentityHeaders returns the header fields that an authenticator takes identities from, nil if it
// is no [HeaderOwner].
func IdentityHeaders(a Authenticator) (names, prefixes []string) {
	if owner, ok := a.(HeaderOwner); ok {
		return owner.IdentityHeaders()
	}
	return nil, nil
}

// HeaderChanger is an optional method set of a [HeaderOwner] whose fields change while it is in use.
// HeaderRevision is cheap, and returns a greater number after each change. An authenticator that wraps
// another one should have the method too, and return [HeaderRevision] of the other.
type HeaderChanger interface {
	HeaderRevision() uint64
}

// HeaderRevision returns the revision of an authenticator's header fields, 0 if they never change.
func HeaderRevision(a Authenticator) uint64 {
	if changer, ok := a.(HeaderChanger); ok {
		return changer.HeaderRevision()
	}
	return 0
}

const (
	impersonatePrefix = "impersonate-"
	subprotocolField  = "sec-websocket-protocol"
)

// secrets are the header fields that handlers must not see, in lower case with hyphens.
type secrets struct {
	names, prefixes []string
	initials        [256]bool // how they begin
	revision        uint64    // see HeaderChanger
}

func newSecrets(a Authenticator) *secrets {
	s := &secrets{revision: HeaderRevision(a)} // before the fields: a change between the two is seen again
	names, prefixes := IdentityHeaders(a)
	for _, name := range append(names, "Authorization") {
		s.names = append(s.names, spelling.Of(name))
	}
	for _, prefix := range append(prefixes, "X-Remote-") { // which only a verified front proxy may set
		s.prefixes = append(s.prefixes, spelling.Of(prefix))
	}
	for _, name := range slices.Concat(s.names, s.prefixes, []string{impersonatePrefix, subprotocolField}) {
		s.initials[name[0]], s.initials[strings.ToUpper(name)[0]] = true, true
	}
	return s
}

// fieldUse is what a header field is to handlers.
type fieldUse int

const (
	visible  fieldUse = iota
	removed           // handlers do not see it
	filtered          // they see what is no token
	asking            // they see it, and it asks for impersonation
)

// use returns what a field is. It allocates nothing.
func (s *secrets) use(name string) fieldUse {
	if name == "" || !s.initials[name[0]] {
		return visible
	}
	for _, hides := range s.names {
		if len(name) == len(hides) && spelling.Begins(name, hides) {
			return removed
		}
	}
	for _, hides := range s.prefixes {
		if spelling.Begins(name, hides) {
			return removed
		}
	}
	switch {
	case spelling.Begins(name, impersonatePrefix):
		return asking
	case len(name) == len(subprotocolField) && spelling.Begins(name, subprotocolField):
		return filtered
	}
	return visible
}

// without returns a copy of the headers for handlers, or nil if they may see all of h. It does not
// modify h, because outer handlers still use it. It also reports whether the request asks for impersonation.
func (s *secrets) without(h http.Header) (out http.Header, impersonates bool) {
	removes := false
	for name := range h {
		switch s.use(name) {
		case removed, filtered:
			removes = true
		case asking:
			impersonates = true
		}
	}
	if !removes {
		return nil, impersonates
	}
	out = maps.Clone(h)
	for name, values := range h {
		switch s.use(name) {
		case removed:
			delete(out, name)
		case filtered:
			if kept := withoutTokens(values); len(kept) > 0 {
				out[name] = kept
			} else {
				delete(out, name)
			}
		}
	}
	return out, impersonates
}

// withoutTokens drops the subprotocols that carry a bearer token and keeps the others for
// negotiation.
func withoutTokens(lines []string) []string {
	var kept []string
	for protocol := range subprotocols(lines) {
		if !strings.HasPrefix(protocol, subprotocolPrefix) {
			kept = append(kept, protocol)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return []string{strings.Join(kept, ", ")}
}

func unauthorized() meta.Status {
	return failure(http.StatusUnauthorized, meta.ReasonUnauthorized, "Unauthorized")
}

func failure(code int32, reason meta.Reason, message string) meta.Status {
	return meta.Status{
		TypeMeta: meta.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   meta.StatusFailure, Message: message, Reason: reason, Code: code,
	}
}

// WriteStatus writes a Status as JSON, with the Status's code. It is the default writer of this
// package and of package authz.
func WriteStatus(w http.ResponseWriter, _ *http.Request, s meta.Status) {
	body, err := json.Marshal(s)
	if err != nil { // cannot happen for a Status; the code is enough
		body = nil
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache, private")
	w.WriteHeader(int(s.Code))
	_, _ = w.Write(body) // the caller may be gone
}
