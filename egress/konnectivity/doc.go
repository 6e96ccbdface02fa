// Package konnectivity opens the tunnels of the protocol GRPC of an EgressSelectorConfiguration, with the
// client of Kubernetes' konnectivity.
//
//	selector, err := egress.Load("egress.yaml", egress.Options{GRPC: konnectivity.Connect})
//
// A tunnel carries one connection, and ends with it. Deadlines of such a connection cannot be set; what
// uses it must end by closing it, as net/http and crypto/tls do.
//
// Package egress says which connections of a server go through tunnels, and has those by HTTP CONNECT.
package konnectivity
