package authn

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Authenticator identifies the sender of a request.
//
// Authenticate returns one of three results:
//
//   - a user, true, nil: the request carries a valid credential of a kind that this authenticator
//     knows;
//   - ok false, nil: the request carries no credential of that kind, or one that another
//     authenticator may know (a bearer token that is not in a file may be a signed one);
//   - an error: the request carries an invalid credential for this authenticator. The error is
//     logged and never sent to the caller. It must not contain the credential.
//
// Authenticate must not modify the request, must respect its context when it calls other systems,
// and must be safe for concurrent use.
type Authenticator interface {
	Authenticate(r *http.Request) (u User, ok bool, err error)
}

// Func is an [Authenticator] made from a function.
type Func func(r *http.Request) (User, bool, error)

// Authenticate calls the function.
func (f Func) Authenticate(r *http.Request) (User, bool, error) { return f(r) }

var _ Authenticator = Func(nil)

// ErrBadCredential is wrapped by errors of [Anonymous] and [Middleware] for a credential that no
// authenticator accepts.
var ErrBadCredential = errors.New("credential not accepted by any authenticator")

// Union tries authenticators in order and returns the first user; it does not call later ones. List
// certificates first, then tokens, then [Anonymous]. The order decides when a request carries both
// a valid certificate and a token.
//
// An error does not stop the search, because the credential may be valid for a later authenticator
// (two certificate authorities, two token issuers). But after an error Union does not accept an
// anonymous user; it returns the collected errors.
// Source: security vectors A7, A8.
func Union(a ...Authenticator) Authenticator {
	return union(a)
}

type union []Authenticator

// Unwrap returns the members, so that a server can bind those that read its objects.
func (list union) Unwrap() []Authenticator { return list }

// IdentityHeaders returns those of the members.
func (list union) IdentityHeaders() (names, prefixes []string) {
	for _, a := range list {
		n, p := IdentityHeaders(a)
		names, prefixes = append(names, n...), append(prefixes, p...)
	}
	return names, prefixes
}

// HeaderRevision changes with those of the members.
func (list union) HeaderRevision() (sum uint64) {
	for _, a := range list {
		sum += HeaderRevision(a)
	}
	return sum
}

func (list union) Authenticate(r *http.Request) (User, bool, error) {
	var errs []error
	for _, a := range list {
		u, ok, err := a.Authenticate(r)
		switch {
		case err != nil:
			errs = append(errs, err)
		case ok && len(errs) > 0 && u.IsAnonymous():
			// An earlier authenticator rejected a credential that Anonymous does not recognize,
			// such as a cookie.
		case ok:
			return u, true, nil
		}
	}
	return User{}, false, errors.Join(errs...)
}

// Each is an [Authenticator] for programs that do not want to guess which of two credentials a
// client means. A request with a token and a client certificate must prove with each of them alone
// that it comes from the same user. By default the first good credential decides, whatever the other
// one is; see [Union].
func Each(a Authenticator) Authenticator { return each{a} }

type each struct{ all Authenticator }

// IdentityHeaders returns those of the authenticator that is asked.
func (e each) IdentityHeaders() (names, prefixes []string) { return IdentityHeaders(e.all) }

// HeaderRevision returns that of the authenticator that is asked.
func (e each) HeaderRevision() uint64 { return HeaderRevision(e.all) }

func (e each) Authenticate(r *http.Request) (User, bool, error) {
	certificate := r.TLS != nil && len(r.TLS.PeerCertificates) > 0
	if !certificate || len(r.Header["Authorization"]) == 0 && !hasSubprotocolToken(r) {
		return e.all.Authenticate(r)
	}
	withCertificate := r.WithContext(r.Context())
	withCertificate.Header = maps.Clone(r.Header)
	delete(withCertificate.Header, "Authorization")
	withCertificate.Header["Sec-Websocket-Protocol"] = withoutTokens(r.Header["Sec-Websocket-Protocol"])
	withToken := r.WithContext(r.Context())
	withToken.TLS = nil
	u, ok, err := e.all.Authenticate(withCertificate)
	if !ok || err != nil {
		return User{}, false, errors.Join(fmt.Errorf("%w: the client certificate beside a token", ErrBadCredential), err)
	}
	v, ok, err := e.all.Authenticate(withToken)
	switch {
	case !ok || err != nil:
		return User{}, false, errors.Join(fmt.Errorf("%w: the token beside a client certificate", ErrBadCredential), err)
	case u.Name != v.Name || u.IsAnonymous():
		return User{}, false, fmt.Errorf("%w: the client certificate and the token name two users", ErrBadCredential)
	}
	if !v.Expires.IsZero() && (u.Expires.IsZero() || v.Expires.Before(u.Expires)) {
		u.Expires = v.Expires
	}
	return u, true, nil
}

// Anonymous accepts requests without any credential, as user system:anonymous in group
// system:unauthenticated. A request with a credential is an error: this authenticator is the last
// one, so no other has accepted the credential. [HasCredential] says what counts. Source: AUTHN-01,
// AUTHN-02.
func Anonymous() Authenticator {
	return Func(func(r *http.Request) (User, bool, error) {
		if kind := credential(r); kind != "" {
			return User{}, false, fmt.Errorf("%w: %s", ErrBadCredential, kind)
		}
		return User{Name: UserAnonymous, Groups: []string{GroupUnauthenticated}, Method: "anonymous"}, true, nil
	})
}

// AnonymousAt is [Anonymous] for requests with one of these paths alone, letter by letter. Other
// requests without a credential stay without a user. A server that admits nobody else as anonymous
// gives it as the last authenticator. A path begins with a slash, or no request could have it: a server
// with another one does not start.
// Source: AUTHNCFG-09.
func AnonymousAt(paths ...string) Authenticator { return anonymousAt{slices.Clone(paths)} }

type anonymousAt struct{ paths []string }

// Authenticate implements Authenticator.
func (a anonymousAt) Authenticate(r *http.Request) (User, bool, error) {
	if !slices.Contains(a.paths, r.URL.Path) {
		return User{}, false, nil
	}
	return Anonymous().Authenticate(r)
}

// Validate returns which paths no request can have.
func (a anonymousAt) Validate() error {
	var problems []error
	for _, p := range a.paths {
		if !strings.HasPrefix(p, "/") {
			problems = append(problems, fmt.Errorf("AnonymousAt: path %q must begin with a slash", p))
		}
	}
	return errors.Join(problems...)
}

// Validate returns what is wrong with an authenticator, if it can tell, or with the members of a Union.
func Validate(a Authenticator) error {
	var problems []error
	if v, ok := a.(interface{ Validate() error }); ok {
		problems = append(problems, v.Validate())
	}
	if u, ok := a.(interface{ Unwrap() []Authenticator }); ok {
		for _, member := range u.Unwrap() {
			problems = append(problems, Validate(member))
		}
	}
	return errors.Join(problems...)
}

// HasCredential reports whether the request claims an identity: by an Authorization header of any
// scheme, by a bearer token in a WebSocket subprotocol, or by a client certificate. An unknown
// scheme counts as a credential that cannot be checked, not as none. Cookies, query parameters and
// bodies do not count.
// Source: AUTHN-19, security vector A6.
func HasCredential(r *http.Request) bool { return credential(r) != "" }

// credential returns the kind of the first credential, or "". It returns no part of the credential,
// so the result may be logged.
func credential(r *http.Request) string {
	switch {
	case len(r.Header["Authorization"]) > 0:
		return "authorization header"
	case hasSubprotocolToken(r):
		return "websocket subprotocol token"
	case r.TLS != nil && len(r.TLS.PeerCertificates) > 0:
		return "client certificate"
	}
	return ""
}

func hasSubprotocolToken(r *http.Request) bool {
	for protocol := range subprotocols(r.Header["Sec-Websocket-Protocol"]) {
		if strings.HasPrefix(protocol, subprotocolPrefix) {
			return true
		}
	}
	return false
}
