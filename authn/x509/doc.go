// Package x509 authenticates callers by client certificates: the common name is the user, the
// organizations are the groups.
//
// The listener should request certificates with tls.RequestClientCert. The handshake then proves
// that the caller has the key, and this package verifies the certificate. A caller with an invalid
// one gets a 401 that it can read, not a failed handshake.
//
// A certificate identifies its holder as long as it is valid; there is no revocation. Identities
// that a front proxy forwards need another authenticator.
// Source: AUTHN-06, AUTHN-20.
package x509
