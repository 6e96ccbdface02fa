// Package interop runs the clients that people really have against our servers: client-go, controller-runtime, kubectl's own code
// and Helm's library, against package apitest without a port and against the binary of examples/server on bbolt. It is a module of
// its own, so that their dependencies are nobody else's. It holds tests alone, and in package controllers what they run. KINDWRIGHT_EXAMPLE_SERVER names a binary to use instead of
// building one.
package interop
