// Package patch applies patches to trees: JSON Patch (RFC 6902), JSON Merge Patch (RFC 7386) and Kubernetes' strategic merge
// patch, within limits.
//
//	JSON   application/json-patch+json    a list of operations, in order, all or nothing
//	Merge  application/merge-patch+json   a partial object; null removes, lists are replaced whole
//	Strategic  application/strategic-merge-patch+json  a merge patch that merges lists by the schema, with directives
//
// All take the object as it is and the body of the request, and return the patched object as a new tree that may share
// parts with the old one. None changes the old one. A body that is no patch is 400, a patch that cannot be applied 422,
// one that would cost too much 413; all errors are *status.Error.
//
// JSON Patch is applied by github.com/evanphx/json-patch. What a hostile patch could make it do is refused before it is
// asked: see the limits in limit.go and the paths in pointer.go.
//
// What it is not for: which fields a patch may change is decided by the steps of a write that follow (package registry),
// which treat the result like any object that was sent. Server-side apply has its own package, apply. [ParseType] tells
// the four kinds of patches apart.
package patch
