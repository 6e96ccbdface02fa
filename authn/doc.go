// Package authn answers who sent a request.
//
// An [Authenticator] reads the credentials of a request and names a [User]. Authenticators are put
// in order with [Union] (certificates first, then tokens), closed with [Anonymous] where callers
// without a credential are welcome, and mounted with [Middleware]:
//
//	certs → tokens → anonymous            first success wins
//
// Three rules hold whatever is combined:
//
//   - A credential that is present and that nobody accepts is a 401. It never falls through to
//     anonymous (AUTHN-03), not even when the authenticator that refused it stands in another
//     union.
//   - A request with two Authorization headers is refused, since nobody can say which one counts.
//   - Credentials and identity headers (Authorization, X-Remote-*) are gone before the next handler
//     runs, so that they cannot reach a log, a hook or a back end.
//
// What the package is not for: it makes no decision about what a user may do, that is package
// authz; it opens no listener and verifies no TLS handshake, that is the server's; and it knows no
// kinds of credential itself, these live below it: authn/token (a static file of bearer tokens) and
// authn/x509 (client certificates). Read [github.com/kindwright/kindwright/authz] next.
package authn
