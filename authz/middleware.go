package authz

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// AttributesFunc returns the attributes of a request. The server passes a function that uses its
// own parse of the request; a program that uses the middleware alone describes its own routes. The
// middleware overwrites User with the user from the request's context.
type AttributesFunc func(r *http.Request) (Attributes, error)

// Option configures a [Middleware].
type Option func(*middleware)

// WithLogger sets the logger for rejected requests and failing authorizers. By default nothing is
// logged.
func WithLogger(l logr.Logger) Option { return func(m *middleware) { m.log = l } }

// WithRefusal sets the function that writes a rejection: a 403, or that of [Failure]. By default the Status is written as JSON; a server that negotiates media types sets its
// own. write must not be nil.
func WithRefusal(write func(w http.ResponseWriter, r *http.Request, err *status.Error)) Option {
	return func(m *middleware) { m.refuse = write }
}

// WithDecision sets a function that receives each decision before it takes effect, for the audit
// log: Allow, or Deny for every rejected request.
func WithDecision(told func(r *http.Request, a Attributes, d Decision, reason string)) Option {
	return func(m *middleware) { m.told = told }
}

type middleware struct {
	authorizer Authorizer
	attributes AttributesFunc
	log        logr.Logger
	refuse     func(http.ResponseWriter, *http.Request, *status.Error)
	told       func(*http.Request, Attributes, Decision, string)
}

// Middleware passes on what z allows and rejects everything else with 403.
//
// It fails closed: the response is that of [Failure] if attributes or z return an error, panic or
// give an unknown decision, or if the request's context has no user (see [authn.UserFrom]). The
// cause is logged and not sent.
// Source: AUTHZ-15, security vector Z10.
func Middleware(z Authorizer, attributes AttributesFunc, opts ...Option) func(http.Handler) http.Handler {
	m := &middleware{
		authorizer: z, attributes: attributes, log: logr.Discard(), refuse: writeStatus,
		told: func(*http.Request, Attributes, Decision, string) {},
	}
	for _, o := range opts {
		if o != nil {
			o(m)
		}
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if refusal := m.authorize(r); refusal != nil {
				m.refuse(w, r, refusal)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// authorize returns nil only if the request is allowed.
func (m *middleware) authorize(r *http.Request) *status.Error {
	a, err := m.read(r)
	var (
		d      Decision
		reason string
	)
	if err == nil {
		d, reason, err = decide(r.Context(), m.authorizer, a)
	}
	switch {
	case err != nil:
		m.log.Error(err, "request rejected: no authorization decision",
			guard.WithStack(err, "user", a.User.Name, "verb", a.Verb, "path", r.URL.EscapedPath())...)
		m.told(r, a, Deny, "")
		return failure(r.Context(), err)
	case d == Allow:
		m.told(r, a, Allow, reason)
		return nil
	}
	m.log.V(1).Info("request rejected: not authorized", "user", a.User.Name, "verb", a.Verb, "path", r.URL.EscapedPath(), "reason", reason)
	m.told(r, a, Deny, reason)
	return Refusal(a, reason)
}

// read returns the attributes of a request, with its user.
func (m *middleware) read(r *http.Request) (a Attributes, err error) {
	u, ok := authn.UserFrom(r.Context())
	if !ok || u.Name == "" {
		return Attributes{}, errors.New("request was not authenticated")
	}
	defer func() { a.User = u }()
	defer guard.Recover(&err, "reading the attributes")
	return m.attributes(r)
}

// Require returns nil if z allows a, or else the answer to a request that needs it: the 403 of
// [Refusal], or that of [Failure] if z fails. If z fails because ctx has ended, the answer is a 504.
func Require(ctx context.Context, z Authorizer, a Attributes) error {
	d, reason, err := decide(ctx, z, a)
	switch {
	case err != nil:
		return failure(ctx, err)
	case d != Allow:
		return Refusal(a, reason)
	}
	return nil
}

// failure is Failure about a question of ctx. If that has ended, the time is what was missing: 504.
func failure(ctx context.Context, err error) *status.Error {
	if ended := ctx.Err(); ended != nil {
		return status.From(ended).WithCause(err)
	}
	return Failure(err)
}

// Failure returns the answer to a request about which an authorizer returned an error: 503 with
// Retry-After if err wraps [ErrUnavailable], 500 otherwise. The text of err is not in it.
func Failure(err error) *status.Error {
	if errors.Is(err, ErrUnavailable) {
		return status.ServiceUnavailable("the server cannot authorize requests yet").WithRetryAfter(1).WithCause(err)
	}
	return status.Internal(err)
}

// Refusal returns the 403 for a request with these attributes. reason is the authorizer's and may
// be empty. It escapes characters with a meaning for browsers, because user names and paths may
// come from anyone. Source: AUTHZ-15.
func Refusal(a Attributes, reason string) *status.Error {
	why := sentence(a)
	if reason != "" {
		why += ": " + reason
	}
	why = html.Replace(why)
	if !a.ResourceRequest {
		return status.Forbidden(meta.GroupResource{}, "", why)
	}
	return status.Forbidden(meta.GroupResource{Group: a.Group, Resource: a.Resource}, a.Name, why)
}

var html = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// sentence says who cannot do what, and where.
func sentence(a Attributes) string {
	if !a.ResourceRequest {
		return fmt.Sprintf("User %q cannot %s path %q", a.User.Name, a.Verb, a.Path)
	}
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	where := "at the cluster scope"
	if a.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", a.Namespace)
	}
	return fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", a.User.Name, a.Verb, resource, a.Group, where)
}

// writeStatus is the default writer of rejections.
func writeStatus(w http.ResponseWriter, r *http.Request, refusal *status.Error) {
	authn.WriteStatus(w, r, refusal.Status())
}
