// Package driver puts load on any server of a resource API and says what an operation costs the server. It speaks plain
// HTTP/2, so that no client library stands between, and checks what it is answered: a server that is fast because it is
// wrong has errors, not figures.
//
//	target, err := driver.Open(ctx, driver.Config{…}, scale)
//	for _, w := range driver.Workloads(scale) {
//		result := w.Run(ctx, target)
//	}
//
// The main figure is the processor time that the server's processes spend on an operation, for it depends least on what
// else the machine does. What a server refuses to do is reported as not served, with its words.
//
// Workloads make their objects in namespaces of their own, whose names differ from run to run.
//
// It is not for starting servers (package server), nor for comparing results (the program above).
package driver
