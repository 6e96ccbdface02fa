// Package profile serves the runtime's profiles to go tool pprof. It does what net/http/pprof does,
// without registering itself in the program's default mux and without telling the command line,
// which may have secrets.
//
// Source: OPS-05.
package profile
