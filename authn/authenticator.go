package authn

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Authenticator proves who sent a request.
//
// Authenticate returns one of three answers:
//
//   - a user, true, nil: the request carries a credential of a kind this authenticator knows, and
//     it is good;
//   - ok false, nil: the request carries no credential of that kind, or one that another
//     authenticator may know (a bearer token that is not in a file may still be a signed one);
//   - an error: the request carries a credential that is meant for this authenticator and that is
//     bad. The error is logged and never sent to the caller. It must not contain the credential.
//
// Authenticate must not change the request, must respect the request's context when it asks other
// systems, and may be called by many goroutines at once.
type Authenticator interface {
	Authenticate(r *http.Request) (u User, ok bool, err error)
}

// Func is an [Authenticator] made from a function.
type Func func(r *http.Request) (User, bool, error)

// Authenticate calls the function.
func (f Func) Authenticate(r *http.Request) (User, bool, error) { return f(r) }

var _ Authenticator = Func(nil)

// ErrBadCredential is what an error of [Anonymous] and of [Middleware] wraps: a credential is
// present, and none of the authenticators knows it.
var ErrBadCredential = errors.New("credential not accepted by any authenticator")

// Union asks authenticators in order; the first that names a user wins and later ones are not
// asked. List certificates first, then tokens, then [Anonymous]: that order is what decides when a
// request carries both a good certificate and a token (security vector A7).
//
// An authenticator's error does not end the search, because the same credential may be good for a
// later authenticator (two certificate authorities, two issuers of tokens). But once one has
// failed, only a real user counts: an anonymous one is not accepted any more (security vector A8),
// and the answer is the collected errors.
func Union(a ...Authenticator) Authenticator {
	return union(a)
}

type union []Authenticator

func (list union) Authenticate(r *http.Request) (User, bool, error) {
	var errs []error
	for _, a := range list {
		u, ok, err := a.Authenticate(r)
		switch {
		case err != nil:
			errs = append(errs, err)
		case ok && len(errs) > 0 && u.IsAnonymous():
			// Someone before refused a credential that Anonymous does not know about (a cookie,
			// say).
		case ok:
			return u, true, nil
		}
	}
	return User{}, false, errors.Join(errs...)
}

// Anonymous accepts requests that carry no credential of any kind, as user system:anonymous in
// group system:unauthenticated (AUTHN-01, AUTHN-02). A request with a credential is an error here,
// since this authenticator stands last and nobody before it accepted that credential. See
// [HasCredential] for what counts.
func Anonymous() Authenticator {
	return Func(func(r *http.Request) (User, bool, error) {
		if kind := credential(r); kind != "" {
			return User{}, false, fmt.Errorf("%w: %s", ErrBadCredential, kind)
		}
		return User{Name: UserAnonymous, Groups: []string{GroupUnauthenticated}, Method: "anonymous"}, true, nil
	})
}

// HasCredential reports whether the request carries anything that claims an identity: an
// Authorization header of whatever scheme (an unknown scheme is a credential that nobody can check,
// not the absence of one), a bearer token in a WebSocket subprotocol (AUTHN-19), or a client
// certificate. Cookies, query parameters and bodies are not places for credentials and are not
// looked at (security vector A6).
func HasCredential(r *http.Request) bool { return credential(r) != "" }

// credential names the kind of the first credential found, "" when there is none. It returns no
// part of the credential, so it may be logged.
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
