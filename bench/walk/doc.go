// Command walk shows how much code runs for one request of each kind.
//
// Build it with coverage counters over the library and give it a directory:
//
//	make walks
//
// It starts a server on bbolt behind plain HTTP, sends one request after the other, and writes the
// counters of each request into a directory of its own. The counters are cleared before each
// request, and the server is otherwise idle, so what they hold is the way of that request.
// scripts/walks.sh turns them into counts of functions, files and packages. Compare two commits by
// these counts: fewer functions on the way of a request are fewer places to read and to break.
package main
