// Package server runs what is measured in a process of its own, so that its processor time and its memory are its alone:
// our server, with the two kinds of package shape on memory or on bbolt, or the server of package limit.
//
// The process is the same program again. A program, or a test's TestMain, asks first of all whether it is such a child:
//
//	if server.IsChild() {
//		os.Exit(server.Main())
//	}
//
// Start then starts one. It ends when Stop is called, or when the program that started it ends, however that happens.
// Besides its API a child serves, on a second loopback port, what only a measurement wants: CPU profiles and the size of
// the live heap.
package server
