// Package unary calls methods of a gRPC service on a Unix socket: one message there, one message back.
//
// That much of gRPC is a header and a trailer over HTTP/2, so net/http is enough and the library has no
// dependency for it. Streams, compression and TLS are not for this package. What messages say is the
// callers' business; they read and write them with package internal/protowire.
package unary
