// Command bench measures what our server costs, in processor time of the server for each operation and in memory, beside a
// server that does nothing (package limit) and, if one is named, any other server of a resource API.
//
//	go -C bench run . -backend bbolt -run '^get|^list' -rounds 3 -json out.json
//
// See README.md for how to read it, and RESULTS.md for what came out.
package main
