// Package limit is a server that does as little as a server can: it answers clients of a resource API with bytes that lie
// ready, through net/http alone. What it costs is what Go's HTTP/2 and the operating system cost; what another server costs
// beyond that is its own doing.
//
// It keeps the objects that it was sent, in a map, with a version spliced in, and joins each collection once. Watches get
// each event with a Write and a Flush of its own. It does not check, merge, select, page, convert or compress, and
// refuses requests for that. It can be told to lose events or to put them out of order, to see that whoever measures it
// notices.
package limit
