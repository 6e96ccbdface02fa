package authn

import (
	"fmt"
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

// WithLogger sets where refusals are reported, with the authenticator's reason, which the caller never sees. The
// default is to report nowhere.
func WithLogger(l logr.Logger) Option { return func(m *middleware) { m.log = l } }

// WithRefusal sets who writes a refusal. The default writes the Status as JSON; a server that negotiates media types
// puts its own writer here. The Status's Code is the HTTP status to send. write must not be nil.
func WithRefusal(write func(w http.ResponseWriter, r *http.Request, s meta.Status)) Option {
	return func(m *middleware) { m.refuse = write }
}

type middleware struct {
	authenticator Authenticator
	log           logr.Logger
	refuse        func(http.ResponseWriter, *http.Request, meta.Status)
}

// Middleware names the user of each request and puts it into the request's context, where [UserFrom] finds it.
//
// It refuses with 401 a request with more than one Authorization header, a request whose credential is bad or
// unknown, and, when a does not include [Anonymous], a request without any. The body is a Status with reason
// Unauthorized and message "Unauthorized" (AUTHN-23); the reason goes to the log. A request with an Impersonate-*
// header is refused with 400 once its sender is known: impersonation is not offered, and serving such a request
// under the sender's own rights would do something else than was asked.
//
// Everybody who is not anonymous gets the group system:authenticated (AUTHN-20). The handler behind it sees a copy of
// the request without Authorization and X-Remote-* headers and without tokens in WebSocket subprotocols.
func Middleware(a Authenticator, opts ...Option) func(http.Handler) http.Handler {
	m := &middleware{authenticator: a, log: logr.Discard(), refuse: writeStatus}
	for _, o := range opts {
		o(m)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}
}

func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	u, err := m.authenticate(r)
	if err != nil {
		m.log.V(1).Info("request refused: not authenticated", "reason", err.Error())
		m.refuse(w, r, unauthorized())
		return
	}
	if name := impersonation(r.Header); name != "" {
		m.log.V(1).Info("request refused: impersonation is not offered", "user", u.Name, "header", name)
		m.refuse(w, r, impersonationRefused(name))
		return
	}
	clean := r.WithContext(WithUser(r.Context(), u))
	clean.Header = withoutCredentials(r.Header)
	next.ServeHTTP(w, clean)
}

// authenticate returns the user of a request; no answer without an error and without a name is possible.
func (m *middleware) authenticate(r *http.Request) (User, error) {
	if n := len(r.Header["Authorization"]); n > 1 {
		return User{}, fmt.Errorf("%d authorization headers: it is undefined which one counts", n)
	}
	u, ok, err := m.authenticator.Authenticate(r)
	switch {
	case err != nil:
		return User{}, err
	case !ok && HasCredential(r):
		return User{}, fmt.Errorf("%w: %s", ErrBadCredential, credential(r))
	case !ok:
		return User{}, fmt.Errorf("no credential, and anonymous requests are not accepted")
	case u.Name == "":
		return User{}, fmt.Errorf("authenticator accepted a user without a name")
	}
	if !u.IsAnonymous() && !u.In(GroupAuthenticated) {
		// A new slice: the authenticator may hand out the same one for every request.
		u.Groups = append(slices.Clone(u.Groups), GroupAuthenticated)
	}
	return u, nil
}

// identityHeaders are the prefixes, in canonical form, of headers that name a user and that only a verified front
// proxy may set.
const (
	remotePrefix      = "X-Remote-"
	impersonatePrefix = "Impersonate-"
)

func impersonation(h http.Header) string {
	for name := range h {
		if strings.HasPrefix(textproto.CanonicalMIMEHeaderKey(name), impersonatePrefix) {
			return name
		}
	}
	return ""
}

// withoutCredentials returns the headers for handlers. The request that was received keeps its own, since outer
// handlers still hold it.
func withoutCredentials(h http.Header) http.Header {
	out := make(http.Header, len(h))
	for name, values := range h {
		// net/http made the names canonical; an in-process caller may not have.
		switch canonical := textproto.CanonicalMIMEHeaderKey(name); {
		case canonical == "Authorization", strings.HasPrefix(canonical, remotePrefix):
		case canonical == "Sec-Websocket-Protocol":
			if kept := withoutTokens(values); len(kept) > 0 {
				out[name] = kept
			}
		default:
			out[name] = values
		}
	}
	return out
}

// withoutTokens drops the subprotocols that carry a bearer token; the others are still to be negotiated.
func withoutTokens(lines []string) []string {
	var kept []string
	for _, line := range lines {
		for protocol := range strings.SplitSeq(line, ",") {
			protocol = strings.TrimSpace(protocol)
			if protocol != "" && !strings.HasPrefix(protocol, subprotocolPrefix) {
				kept = append(kept, protocol)
			}
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

func impersonationRefused(header string) meta.Status {
	return failure(http.StatusBadRequest, meta.ReasonBadRequest,
		fmt.Sprintf("impersonation is not supported by this server: remove the header %q", header))
}

func failure(code int32, reason meta.Reason, message string) meta.Status {
	return meta.Status{
		TypeMeta: meta.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   meta.StatusFailure, Message: message, Reason: reason, Code: code,
	}
}

// writeStatus is the default refusal: the Status as JSON.
func writeStatus(w http.ResponseWriter, _ *http.Request, s meta.Status) {
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
