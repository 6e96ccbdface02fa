// Package driver puts load on any server of a resource API and measures what an operation costs the
// server. It speaks plain HTTP/2 without a client library, and it checks the responses: a server
// that is fast because it is wrong reports errors instead of figures.
//
//	target, err := driver.Open(ctx, driver.Config{…}, scale)
//	for _, w := range driver.Workloads(scale) {
//		result := w.Run(ctx, target)
//	}
//
// The main figure is the processor time that the server's processes spend on an operation, because
// it depends least on the load of the machine. An operation that the server does not support is
// reported as not served, with the server's message.
//
// Workloads create their objects in namespaces of their own, with new names in every run.
//
// The package does not start servers (see package server) and does not compare results (see the
// program above).
package driver
