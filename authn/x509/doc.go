// Package x509 authenticates callers by client certificates: the common name is the user, the
// organizations are the groups (AUTHN-06, AUTHN-20).
//
// The listener should ask for certificates with tls.RequestClientCert: the handshake then proves
// that the caller holds the key, and the certificate is verified here, where a bad one is a 401
// that the caller can read instead of a failed handshake.
//
// A certificate says who its holder is for as long as it is valid; there is no revocation.
// Identities that a front proxy passes on are another authenticator's business.
package x509
