// Package token authenticates callers by bearer tokens from a static file:
//
//	token,user,uid,"group1,group2"
//
// It is for tests, bootstrapping and small installations. Tokens are valid as long as they are in the
// file, which is read again when it changes. Tokens that expire or are bound to
// objects need other authenticators, which can read them with [authn.BearerToken] as this one does.
//
// The package keeps digests and never tokens, so memory dumps of its values, its errors and its
// logs contain none.
// Source: AUTHN-22.
package token
