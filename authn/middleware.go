package authn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// Option changes a [Middleware].
type Option func(*middleware)

// WithLogger sets where refusals are reported, with the authenticator's reason, which the caller
// never sees. The default is to report nowhere.
func WithLogger(l logr.Logger) Option { return func(m *middleware) { m.log = l } }

// WithRefusal sets who writes a refusal. The default writes the Status as JSON; a server that
// negotiates media types puts its own writer here. The Status's Code is the HTTP status to send.
// write must not be nil.
func WithRefusal(write func(w http.ResponseWriter, r *http.Request, s meta.Status)) Option {
	return func(m *middleware) { m.refuse = write }
}

// WithContext sets what puts the user of a request into its context. The default is [WithUser]; a server that keeps
// all it knows about a request in one context puts its own here. What put returns must answer [UserFrom] with u.
func WithContext(put func(ctx context.Context, u User) context.Context) Option {
	return func(m *middleware) { m.put = put }
}

type middleware struct {
	authenticator Authenticator
	log           logr.Logger
	refuse        func(http.ResponseWriter, *http.Request, meta.Status)
	put           func(context.Context, User) context.Context
}

// Middleware names the user of each request and puts it into the request's context, where
// [UserFrom] finds it.
//
// It refuses with 401 a request with more than one Authorization header, a request whose credential
// is bad or unknown, and, when a does not include [Anonymous], a request without any. The body is a
// Status with reason Unauthorized and message "Unauthorized" (AUTHN-23); the reason goes to the
// log.
//
// A request with an Impersonate-* header is refused once its sender is known, with 400 when it
// names no user (IMP-03) and else with 403: nobody may impersonate here, and serving the request
// under the sender's own rights would do something else than was asked.
//
// Everybody who is not anonymous gets the group system:authenticated (AUTHN-20). The handler behind
// it sees a copy of the request without Authorization and X-Remote-* headers and without tokens in
// WebSocket subprotocols.
func Middleware(a Authenticator, opts ...Option) func(http.Handler) http.Handler {
	m := &middleware{authenticator: a, log: logr.Discard(), refuse: WriteStatus, put: WithUser}
	for _, o := range opts {
		o(m)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if known := m.admit(w, r); known != nil {
				next.ServeHTTP(w, known)
			}
		})
	}
}

// admit returns the request as the handler is to see it, or refuses it and returns nil.
func (m *middleware) admit(w http.ResponseWriter, r *http.Request) *http.Request {
	u, err := m.authenticate(r)
	if err != nil {
		m.log.V(1).Info("request refused: not authenticated", "reason", err.Error())
		m.refuse(w, r, unauthorized())
		return nil
	}
	header, impersonates, user := withoutCredentials(r.Header)
	if impersonates {
		m.log.V(1).Info("request refused: impersonation is not offered", "user", u.Name)
		m.refuse(w, r, impersonationRefused(user))
		return nil
	}
	clean := r.WithContext(m.put(r.Context(), u))
	clean.Header = header
	return clean
}

// authenticate returns the user of a request; no answer without an error and without a name is
// possible.
func (m *middleware) authenticate(r *http.Request) (User, error) {
	if n := len(r.Header["Authorization"]); n > 1 {
		return User{}, manyHeaders(n)
	}
	u, ok, err := m.authenticator.Authenticate(r)
	switch {
	case err != nil:
		return User{}, err
	case !ok && HasCredential(r):
		return User{}, fmt.Errorf("%w: %s", ErrBadCredential, credential(r))
	case !ok:
		return User{}, errors.New("no credential, and anonymous requests are not accepted")
	case u.Name == "":
		return User{}, errors.New("authenticator accepted a user without a name")
	}
	if !u.IsAnonymous() && !u.In(GroupAuthenticated) {
		// A new slice: the authenticator may hand out the same one for every request.
		u.Groups = slices.Concat(u.Groups, []string{GroupAuthenticated})
	}
	return u, nil
}

// The prefixes, in canonical form, of headers that name a user. The first may be set by a verified
// front proxy alone.
const (
	remotePrefix      = "X-Remote-"
	impersonatePrefix = "Impersonate-"
)

// withoutCredentials returns the headers for handlers, and reports whether the request asks to be
// served as somebody else and whether it names a user for that. The request that was received keeps
// its headers, since outer handlers still hold it.
func withoutCredentials(h http.Header) (out http.Header, impersonates, user bool) {
	out = maps.Clone(h)
	for name, values := range h {
		if !suspicious(name) {
			continue
		}
		// net/http made the names canonical; an in-process caller may not have.
		switch canonical := textproto.CanonicalMIMEHeaderKey(name); {
		case canonical == "Authorization", strings.HasPrefix(canonical, remotePrefix):
			delete(out, name)
		case canonical == "Sec-Websocket-Protocol":
			if kept := withoutTokens(values); len(kept) > 0 {
				out[name] = kept
			} else {
				delete(out, name)
			}
		case strings.HasPrefix(canonical, impersonatePrefix):
			impersonates = true
			user = user || canonical == impersonatePrefix+"User"
		}
	}
	return out, impersonates, user
}

// suspicious reports whether a header's name has the first letter of one that withoutCredentials
// knows.
func suspicious(name string) bool {
	if name == "" {
		return false
	}
	switch name[0] | 0x20 { // in lower case
	case 'a', 's', 'i', 'x':
		return true
	}
	return false
}

// withoutTokens drops the subprotocols that carry a bearer token; the others are still to be
// negotiated.
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

func impersonationRefused(user bool) meta.Status {
	if !user {
		return failure(http.StatusBadRequest, meta.ReasonBadRequest,
			"impersonation of a group, uid or extra without a user; impersonation is not supported by this server")
	}
	return failure(http.StatusForbidden, meta.ReasonForbidden, "forbidden: impersonation is not supported by this server")
}

func failure(code int32, reason meta.Reason, message string) meta.Status {
	return meta.Status{
		TypeMeta: meta.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   meta.StatusFailure, Message: message, Reason: reason, Code: code,
	}
}

// WriteStatus writes a Status as JSON, with the Status's code. It is what this package and package
// authz refuse requests with unless they are given another writer.
func WriteStatus(w http.ResponseWriter, _ *http.Request, s meta.Status) {
	body, err := json.Marshal(s)
	if err != nil { // cannot happen for a Status; the code alone still refuses
		body = nil
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache, private")
	w.WriteHeader(int(s.Code))
	_, _ = w.Write(body) // the caller has gone: nobody is left to tell
}
