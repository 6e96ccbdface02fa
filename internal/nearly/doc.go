// Package nearly tells which known name a misspelt one was probably meant to be. Where an option that
// is not recognised would make a request do more than its sender wanted, the server rejects such a
// name instead of ignoring it. The package knows names only; what an unknown name leads to is decided
// by its callers, of which internal/request is the one to read next.
package nearly
