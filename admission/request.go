package admission

import (
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/json"
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
	// resourceVersion that it is stored under. Both are trees, made of map[string]any, []any, string, bool, nil, int64 and
	// float64 and nothing else. They are the plugin's own copies (X1): what it does to them reaches nobody, but for the object
	// that a Mutator returns; see Patched. What that holds beside the same things, such as an int or a []string, is turned
	// into them as JSON would.
	Object, OldObject map[string]any

	// Options is the meta.CreateOptions, meta.UpdateOptions or meta.DeleteOptions of the request (ADM-15).
	Options any

	User   authn.User
	DryRun bool // nothing will be stored: the plugin must have no side effects (DRY-02, DRY-10)
}

// GroupResource returns the resource without its version, as error messages name it.
func (r *Request) GroupResource() meta.GroupResource { return r.Resource.GroupResource() }

// copied returns the request for one plugin, whose objects are its own.
func (r *Request) copied() *Request {
	out := *r
	out.Object, _ = json.Clone(r.Object).(map[string]any)
	out.OldObject, _ = json.Clone(r.OldObject).(map[string]any)
	return &out
}
