// Package external signs the tokens of service accounts with keys that another process holds.
//
// The process serves Kubernetes' protocol for external signers (ExternalJWTSigner, v1) on a Unix
// socket: --service-account-signing-endpoint of kube-apiserver. It signs claims and publishes the keys
// that tokens may be signed with. So keys can live in a module of hardware or a service, and rotate
// there.
//
// The protocol is gRPC. The four messages are small, and gRPC over HTTP/2 without streams is a header
// and a trailer, so the package speaks it with net/http and has no dependency for it.
//
// Read package serviceaccount next: a [Signer] is its Signer and its KeySource.
// Source: SAT-05.
package external
