// Package jws verifies signed tokens in their compact form and reads sets of keys. It is the only
// importer of go-jose, which reads keys and signs.
//
// A caller names the algorithms that it accepts. None of them is symmetric, so that a public key
// never serves as a secret. A header that names the type of another document is refused. Everything
// else in a header but alg, kid and crit is ignored: a token does not bring its own key, and nothing
// is fetched for it.
//
// The package looks at signatures alone. What a payload means, and until when, is the business of
// those who call it.
package jws
