// Package interop runs the clients that people really have against our servers: client-go, controller-runtime and kubectl's own
// code. It is a module of its own, so that their dependencies are nobody else's. It holds tests alone.
package interop
