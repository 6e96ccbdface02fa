// Package egresstest has a tunnel server for tests: it answers HTTP CONNECT, remembers where it was
// asked to connect, and misbehaves on request.
//
// [Server.Document] is the EgressSelectorConfiguration that leads to it.
package egresstest
