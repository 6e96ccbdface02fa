// Package token authenticates callers by bearer tokens from a static file (AUTHN-22):
//
//	token,user,uid,"group1,group2"
//
// It suits tests, bootstrapping and small installations: tokens are valid for as long as the
// process runs, and a change of the file takes effect at the next start. Tokens that expire or that
// are bound to objects belong to other authenticators, which read them with [authn.BearerToken] as
// this one does.
//
// The package keeps digests, never tokens: a dump of its values, its errors and its logs hold none.
package token
