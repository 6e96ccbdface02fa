// Package selfsigned makes certificates for servers that were given none: one that signs itself, or
// a small authority with certificates for a server and its administrator. It is for first steps and
// tests; whoever has certificates uses theirs.
package selfsigned
