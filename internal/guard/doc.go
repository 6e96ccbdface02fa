// Package guard protects the server from functions that its users wrote: from their panics, and
// from values that are nil where a function should be.
package guard
