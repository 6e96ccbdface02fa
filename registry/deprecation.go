package registry

import (
	"fmt"

	"github.com/kindwright/kindwright/meta"
)

// Deprecation says that a version of a kind is on its way out (VER-17). Every part of it may be missing. A server that emulates a
// release before Since does not warn yet; a Since that is no release of Kubernetes, such as one of your own, is always warned of.
type Deprecation struct {
	Since   string // the release from which on it is deprecated, such as "1.30"
	Removed string // the release that no longer has it

	// Instead is what to use: a version alone for one of the same group and kind.
	Instead meta.GroupVersionKind

	Message string // in place of the usual text; at most 256 bytes are shown
}

// maxDeprecation bounds a text of the program's own.
const maxDeprecation = 256

// warning is what clients of a resource are told.
func (d *Deprecation) warning(r *Resource) string {
	if d.Message != "" {
		return d.Message[:min(len(d.Message), maxDeprecation)]
	}
	text := fmt.Sprintf("%s %s is deprecated", r.APIVersion(), r.Names.Kind)
	if d.Since != "" {
		text += " in v" + d.Since + "+"
	}
	if d.Removed != "" {
		text += ", unavailable in v" + d.Removed + "+"
	}
	if i := d.Instead; i.Version != "" {
		if i.Kind == "" {
			i.Group, i.Kind = r.Group, r.Names.Kind
		}
		text += fmt.Sprintf("; use %s %s", i.GroupVersion(), i.Kind)
	}
	return text
}

// Warning is what the answers to requests for the resource warn of, "" for nothing.
func (r *Resource) Warning() string {
	if r.Deprecated == nil {
		return ""
	}
	return r.Deprecated.warning(r)
}
