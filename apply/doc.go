// Package apply implements server-side apply and managed fields: who owns which field of an object,
// and how an applied configuration changes it. It is pure: it takes trees and schemas, returns
// trees, and uses neither I/O nor a clock.
//
// [Fields] holds the rules of one kind. [New] makes it from the schemas of the kind's versions. It
// has one method for each way of writing:
//
//	Update   for a create, an update or a patch: computes the owners of the new object's fields
//	Apply    merges a configuration into the stored object, subject to the owners of other fields
//
// Both return the object with metadata.managedFields. The write pipeline also needs these
// functions: [EqualButTimes] reports whether a write would only change timestamps, and so can be
// skipped. [Check] reports whether managedFields is still readable after mutating admission.
// [Reach] excludes status from what the main resource owns, and everything else from what the
// status subresource owns. [ToScale] and [FromScale] translate the ownership of replicas between an
// object and its Scale.
//
// The merge itself is done by sigs.k8s.io/structured-merge-diff. No other package imports that
// module, and its types do not leave this package. This package adds what a server needs on top:
// entries and their timestamps, fields without an owner, a limit on the number of owners, conflict
// messages, kubectl's migration from client-side apply, and fast paths for writes that do not
// change ownership.
//
// The cost of a call grows with the size of its trees. In structured-merge-diff, it also grows with
// the square of the number of members of a map or keyed list. Objects beyond a limit are therefore
// not tracked. No input from a client makes this package panic.
//
// This package does not decide what a schema allows (package openapi), does not handle other
// patches (internal/patch) and does not order the steps of a write (internal/engine/pipeline.go,
// which is the one to read next).
package apply
