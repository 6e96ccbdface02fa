// Package authn identifies the sender of a request.
//
// An [Authenticator] reads the credentials of a request and returns a [User]. [Union] combines
// authenticators in order (certificates first, then tokens), [Anonymous] at the end admits callers
// without a credential, and [Middleware] applies them to a handler:
//
//	certs → tokens → anonymous            first success wins
//
// Three rules always hold:
//
//   - A credential that no authenticator accepts is a 401. It never falls through to anonymous, not
//     even if the authenticator that rejected it is part of another union.
//   - A request with two Authorization headers is rejected, because it is undefined which one
//     counts.
//   - Credentials and identity headers (Authorization, X-Remote-*) are removed before the next
//     handler runs, so that they cannot reach a log, a hook or a back end.
//
// The package does not decide what a user may do; see package authz. It opens no listener and
// verifies no TLS handshake; the server does. The kinds of credentials are in packages below it:
// authn/token (a static file of bearer tokens), authn/x509 (client certificates) and
// authn/requestheader (users whom a front proxy names). Read
// [github.com/kindwright/kindwright/authz] next.
// Source: AUTHN-03.
package authn
