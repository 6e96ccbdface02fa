// Package apply will hold server-side apply: who owns which field of an object, and what an apply request makes of it, as
// pure functions over trees and schemas without I/O.
//
// Nothing is here yet. Until it is, PATCH with application/apply-patch+yaml is refused with 415, and metadata.managedFields
// is not kept: what a client sends of it is dropped. Its place in the order of a write is reserved, between the reset of
// fields and mutating admission (see pipeline.go in package registry), so that what admission adds never counts as sent by
// an applier.
package apply
