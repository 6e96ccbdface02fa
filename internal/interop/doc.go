// Package interop runs widely used clients against our servers: client-go, controller-runtime,
// kubectl's own code and Helm's library. The servers are package apitest, without a port, and the
// binary of examples/server on bbolt. KINDWRIGHT_EXAMPLE_SERVER names a binary to use instead of
// building one.
//
// The package is a separate module, so nobody else inherits the clients' dependencies. It has only
// tests, and package controllers has the controllers that they run.
package interop
