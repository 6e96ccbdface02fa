package impersonation

import (
	"context"
	"errors"
	"net/http"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/status"
)

// Option configures a [Middleware].
type Option func(*middleware)

// WithLogger sets the logger for rejected requests. By default nothing is logged.
func WithLogger(l logr.Logger) Option { return func(m *middleware) { m.log = l } }

// WithRefusal sets the function that writes a rejection. By default the Status is written as JSON.
// write must not be nil.
func WithRefusal(write func(w http.ResponseWriter, r *http.Request, err *status.Error)) Option {
	return func(m *middleware) { m.refuse = write }
}

// WithContext sets what puts an identity into the context of a request. What put returns must answer
// [authn.UserFrom] with id.User. The default keeps only that user.
func WithContext(put func(ctx context.Context, id Identity) context.Context) Option {
	return func(m *middleware) { m.put = put }
}

type middleware struct {
	rules      Rules
	attributes authz.AttributesFunc
	log        logr.Logger
	refuse     func(http.ResponseWriter, *http.Request, *status.Error)
	put        func(context.Context, Identity) context.Context
}

// Middleware carries out the impersonation that a request asks for. Behind it [authn.UserFrom]
// returns the impersonated user, and the headers that asked for it are gone.
//
// It rejects headers that [Read] rejects with 400, and a sender who may not act as the user with
// the error of [Rules.As]. A request without such headers passes as it is.
func Middleware(rules Rules, attributes authz.AttributesFunc, opts ...Option) func(http.Handler) http.Handler {
	m := &middleware{
		rules: rules, attributes: attributes, log: logr.Discard(),
		refuse: func(w http.ResponseWriter, r *http.Request, err *status.Error) { authn.WriteStatus(w, r, err.Status()) },
		put:    func(ctx context.Context, id Identity) context.Context { return authn.WithUser(ctx, id.User) },
	}
	for _, o := range opts {
		if o != nil {
			o(m)
		}
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			id, asked, err := m.identity(r)
			if err != nil {
				m.log.V(1).Info("request rejected: impersonation", "user", id.Sender.Name, "reason", err.Error())
				m.refuse(w, r, answerOf(err))
				return
			}
			if asked {
				r = r.WithContext(m.put(r.Context(), id))
				r.Header = without(r.Header)
			}
			next.ServeHTTP(w, r)
		})
	}
}

// identity returns as whom the sender acts. asked is false if the request has no such headers.
func (m *middleware) identity(r *http.Request) (id Identity, asked bool, err error) {
	wanted, asked, err := Read(r.Header)
	if err != nil || !asked {
		return Identity{}, asked, err
	}
	sender, ok := authn.UserFrom(r.Context())
	if !ok || sender.Name == "" {
		return Identity{}, true, errors.New("request was not authenticated")
	}
	defer guard.Recover(&err, "reading the attributes")
	a, err := m.attributes(r)
	if err != nil {
		return Identity{}, true, err
	}
	id, err = m.rules.As(r.Context(), sender, wanted, a)
	id.Sender = sender
	return id, true, err
}

// answerOf returns the answer that an error is, or a 500.
func answerOf(err error) *status.Error {
	var answer *status.Error
	if errors.As(err, &answer) {
		return answer
	}
	return status.Internal(err)
}
