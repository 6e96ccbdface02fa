// Package patch applies patches to trees: JSON Patch (RFC 6902), JSON Merge Patch (RFC 7386) and
// the strategic merge patch of Kubernetes.
//
//	JSON       application/json-patch+json             a list of operations, applied in order
//	Merge      application/merge-patch+json            a partial object; null removes a field
//	Strategic  application/strategic-merge-patch+json  a merge patch that can merge lists
//
// Each function takes the object and the body of the request. It returns the patched object as a
// new tree, which may share parts with the original. It never modifies the original. Errors are
// *status.Error: 400 for a malformed patch, 422 for a patch that cannot be applied, and 413 for a
// patch that would cost too much.
//
// JSON Patch is applied by github.com/evanphx/json-patch. This package rejects malicious patches
// before the library sees them; see the limits in limit.go and the paths in pointer.go.
//
// This package does not decide which fields a patch may change. Later steps of a write
// (internal/engine/pipeline.go) do, and treat the result like any object that a client sent.
// Server-side apply has its own package, apply. [ParseType] reads the media type of a request; the
// types that a kind accepts are Kind.Patches of internal/engine, and their names are in package
// meta.
package patch
