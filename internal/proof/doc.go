// Package proof remembers what tokens prove, so that a signature is verified once and not with each
// request.
//
// A [Cache] holds proofs, never verdicts: what a token proves does not change until it expires, while
// the account that it belongs to can be gone a moment later. The cache keeps a keyed hash of each
// token and not the token. It is bounded, and requests with one token wait for one verification.
package proof
