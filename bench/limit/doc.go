// Package limit is a minimal server: it answers clients of a resource API with prepared bytes,
// through net/http alone. Its cost is the cost of Go's HTTP/2 and the operating system. Whatever
// another server costs beyond that is its own.
//
// It keeps the objects that it receives in a map, with a version inserted, and assembles each
// collection once. Each event of a watch is one Write and one Flush. It does not validate, merge,
// select, page, convert or compress, and rejects requests for that. It can lose or reorder events
// on purpose, to test that a measurement notices.
package limit
