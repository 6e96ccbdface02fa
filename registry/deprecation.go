package registry

import "github.com/kindwright/kindwright/meta"

// Deprecation says that a version of a kind is on its way out. Every part of it may be missing. A
// server that emulates a release before Since does not warn yet; a Since that is no release of
// Kubernetes, such as one of your own, is always warned of.
// Source: VER-17.
type Deprecation struct {
	Since   string // the release from which on it is deprecated, such as "1.30"
	Removed string // the release that no longer has it

	// Instead is what to use: a version alone for one of the same group and kind.
	Instead meta.GroupVersionKind

	Message string // in place of the usual text; at most 256 bytes are shown
}
