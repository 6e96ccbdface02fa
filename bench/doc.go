// Command bench measures what our server costs: processor time per operation, and memory. It
// compares it with a server that does nothing (package limit) and optionally with any other server
// of a resource API.
//
//	go -C bench run . -backend bbolt -run '^get|^list' -rounds 3 -json out.json
//
// README.md explains the output, and RESULTS.md has the results.
package main
