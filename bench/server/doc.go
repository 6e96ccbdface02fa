// Package server runs the measured server in a process of its own, so that its processor time and
// memory can be measured: our server with the two kinds of package shape, in memory or on bbolt, or
// the server of package limit.
//
// The process runs the same program again. First of all, the program or a test's TestMain must
// check whether it is such a child:
//
//	if server.IsChild() {
//		os.Exit(server.Main())
//	}
//
// Start starts a child. It ends when Stop is called, or when its parent ends in any way. On a
// second loopback port a child serves data for measurements: CPU profiles and the size of the live
// heap.
package server
