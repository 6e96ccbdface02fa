// Package crd serves CustomResourceDefinition, the kind that adds kinds to a running server.
//
//	srv, err := kindwright.New(db, kindwright.Serve(kinds.ControlPlane(), crd.Kinds()), …)
//
// A definition that a client creates becomes a kind like any other: compiled once, kept as JSON, read
// without decoding. It is Established when requests for its objects are answered. A changed definition
// replaces the kind in one step, so no request in between fails. A deleted definition takes its objects
// with it: they are deleted first, one by one, with their finalizers.
//
// The controller that does this follows the definitions by a watch. Several processes on one store
// therefore serve the same kinds.
//
// Programs and tests install definitions from files with Install. From writes the definition of a Go
// kind, and Convert brings the conversions of a definition in Go.
//
// Source: CRD-01 to CRD-23.
package crd
