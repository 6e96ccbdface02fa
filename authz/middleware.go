package authz

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// AttributesFunc reads what a request is about to do. The server passes a function that reads its
// one strict parse; a host that mounts the middleware alone writes its own, in terms of its own
// routes. The field User is filled in by the middleware, from the request's context, whatever the
// function put there.
type AttributesFunc func(r *http.Request) (Attributes, error)

// Option changes a [Middleware].
type Option func(*middleware)

// WithLogger sets where refusals and failures of authorizers are reported. The default is to report
// nowhere.
func WithLogger(l logr.Logger) Option { return func(m *middleware) { m.log = l } }

// WithRefusal sets who writes a refusal: a 403, or a 500 when no decision could be made. The
// default writes the Status as JSON; a server that negotiates media types puts its own writer here.
// write must not be nil.
func WithRefusal(write func(w http.ResponseWriter, r *http.Request, err *status.Error)) Option {
	return func(m *middleware) { m.refuse = write }
}

// WithDecision sets a function that is told each decision before it takes effect, for the audit
// log: Allow, or Deny for everything that is refused.
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

// Middleware lets through what z allows and refuses everything else with 403 (AUTHZ-15). It fails
// closed: when attributes or z return an error, panic or give an unknown decision, or when the
// request's context carries no user (see [authn.UserFrom]), the answer is a 500 whose cause is
// logged and not sent (security vector Z10).
func Middleware(z Authorizer, attributes AttributesFunc, opts ...Option) func(http.Handler) http.Handler {
	m := &middleware{
		authorizer: z, attributes: attributes, log: logr.Discard(), refuse: writeStatus,
		told: func(*http.Request, Attributes, Decision, string) {},
	}
	for _, o := range opts {
		o(m)
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

// authorize returns nil for the one outcome that lets the request pass.
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
		m.log.Error(err, "request refused: no authorization decision", "user", a.User.Name, "verb", a.Verb, "path", r.URL.Path)
		m.told(r, a, Deny, "")
		return status.Internal(err)
	case d == Allow:
		m.told(r, a, Allow, reason)
		return nil
	}
	m.log.V(1).Info("request refused: not authorized", "user", a.User.Name, "verb", a.Verb, "path", r.URL.Path, "reason", reason)
	m.told(r, a, Deny, reason)
	return Refusal(a, reason)
}

// read returns the attributes of a request, with its user.
func (m *middleware) read(r *http.Request) (a Attributes, err error) {
	u, ok := authn.UserFrom(r.Context())
	if !ok || u.Name == "" {
		return Attributes{}, errors.New("request was not authenticated")
	}
	defer func() {
		if p := recover(); p != nil {
			a, err = Attributes{}, fmt.Errorf("reading the attributes panicked: %v", p)
		}
		a.User = u
	}()
	return m.attributes(r)
}

// Refusal is the 403 for a request with these attributes (AUTHZ-15). reason is the authorizer's and
// may be empty. Characters that mean something to a browser are escaped, since user names and paths
// may come from anywhere.
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

// writeStatus is the default refusal.
func writeStatus(w http.ResponseWriter, r *http.Request, refusal *status.Error) {
	authn.WriteStatus(w, r, refusal.Status())
}
