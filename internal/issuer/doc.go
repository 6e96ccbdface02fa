// Package issuer has an issuer of signed tokens for tests: an OpenID Connect provider that serves its
// discovery document and its keys over HTTPS, changes its keys, and fails on demand.
package issuer
