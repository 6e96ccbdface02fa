package admission

import (
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/meta"
)

// Operation is what a write does to the stored object, which can differ from the verb that was asked for: a
// PUT may create (READ-12), an apply may update (ADM-10).
type Operation string

// The operations, spelled as in an AdmissionReview.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// Request describes one write to the plugins. It belongs to one request and is not kept after the call.
type Request struct {
	Operation   Operation
	Kind        meta.GroupVersionKind
	Resource    meta.GroupVersionResource
	Subresource string // empty for the object itself
	Namespace   string // empty for cluster-scoped kinds
	Name        string // empty on create while the server has yet to generate it (ADM-08)

	// Object is what is about to be stored, nil on delete. OldObject is what is stored, nil on create; it has the
	// resourceVersion that it is stored under (X1). Both are trees, made of map[string]any, []any, string, bool, nil, int64
	// and float64 and nothing else, and must not be changed in place: a Mutator returns another object, see Patched. What
	// that holds beside the same things, such as an int or a []string, is turned into them as JSON would.
	Object, OldObject map[string]any

	// Options is the meta.CreateOptions, meta.UpdateOptions or meta.DeleteOptions of the request (ADM-15).
	Options any

	User   authn.User
	DryRun bool // nothing will be stored: the plugin must have no side effects (DRY-02, DRY-10)
}

// GroupResource returns the resource without its version, as error messages name it.
func (r *Request) GroupResource() meta.GroupResource { return r.Resource.GroupResource() }
