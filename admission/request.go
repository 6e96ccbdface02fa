package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Request describes one write to the plugins. It belongs to one request and is not kept after the
// call.
type Request struct {
	Operation Operation

	// Kind, Resource and Subresource are what the objects below are given in. They are those of the
	// request itself unless a plugin was handed a converted copy: RequestKind, RequestResource and
	// RequestSubresource always say what the client asked for.
	// Source: ADM-07.
	Kind        meta.GroupVersionKind
	Resource    meta.GroupVersionResource
	Subresource string // empty for the object itself

	RequestKind        meta.GroupVersionKind
	RequestResource    meta.GroupVersionResource
	RequestSubresource string

	// Namespace is empty for cluster-scoped kinds, except for Namespace objects: theirs is their
	// own name, as in Kubernetes.
	Namespace string
	Name      string // empty on create while the server has yet to generate it (ADM-08)

	// Object is about to be stored; it is nil on delete. A Mutator sees it as it was sent, also where the
	// path of the write changes nothing, such as the spec beside a status. OldObject is stored now, with its
	// resourceVersion; it is nil on create. Both are trees of map[string]any, []any, string, bool,
	// nil, int64 and float64. They are shared with the engine, so a plugin must not change them. A
	// Mutator returns another tree; see Patched.
	Object, OldObject map[string]any

	// Options is the meta.CreateOptions, meta.UpdateOptions or meta.DeleteOptions of the request,
	// with apiVersion and kind. A patch has the options of the create or update that it amounts to.
	// It is nil for CONNECT, whose options are the Object.
	// Source: ADM-15.
	Options any

	User   authn.User
	DryRun bool // nothing will be stored: the plugin must have no side effects (DRY-02, DRY-10)

	// Notes is what plugins remember between the tries of one write. It is nil where there is one try,
	// such as for connections.
	Notes *Notes

	// Reinvocation is what mutators know about being asked twice. The chain sets it.
	Reinvocation *Reinvocation

	// Server answers questions about other objects and versions. The engine sets it. In a test it
	// may be nil; those questions then return errors.
	Server Server
}

// Server gives plugins access to the server that received the write. Reads see every write that was
// answered before. All methods are safe for concurrent use, and the trees they return are
// read-only.
type Server interface {
	// Authorizer decides what a user may do.
	Authorizer() authz.Authorizer

	// Convert returns an object in another served version of its kind. It returns the object itself
	// if it is of that version already.
	Convert(ctx context.Context, object map[string]any, to meta.GroupVersionKind) (map[string]any, error)

	// ConvertBack returns an object with a change that was made to it in another version: shown is
	// the object in that version, and changed what was made of it. What the version cannot say
	// stays, except where the kind converts as custom resources do, which lose it.
	ConvertBack(ctx context.Context, object, shown, changed map[string]any) (map[string]any, error)

	// Get returns one object. The error is a NotFound for an object or a resource that does not
	// exist.
	Get(ctx context.Context, of meta.GroupVersionResource, namespace, name string) (map[string]any, error)

	// List returns the objects of a namespace, or of all namespaces for "". An error ends it.
	List(ctx context.Context, of meta.GroupVersionResource, namespace string) iter.Seq2[map[string]any, error]

	// Merge returns an object with a part of one merged in, by the keys of its lists. Nobody owns the
	// fields that this sets.
	Merge(ctx context.Context, object, part map[string]any) (map[string]any, error)

	// Default returns an object in canonical form, with the defaults of its kind. A value that the Go type of
	// the kind cannot hold is an error. For other kinds, what their schema does not allow stays as it is.
	Default(ctx context.Context, object map[string]any) (map[string]any, error)

	// CheckFields returns the answer to a write whose object has fields that the Go type of its kind does
	// not have. An object of a kind without a Go type may have any; the write drops what the schema does
	// not describe.
	CheckFields(object map[string]any) error

	// Labels returns the labels of one object without decoding it.
	Labels(ctx context.Context, of meta.GroupVersionResource, namespace, name string) (meta.LabelSet, error)

	// ResourceOf returns the resource of a served kind.
	ResourceOf(kind meta.GroupVersionKind) (Form, bool)

	// Forms returns the forms of the objects of a resource, itself among them: those that are
	// served, and the versions of definitions that are not served any more.
	Forms(of meta.GroupVersionResource) []Form
}

// Form is a served version of a resource, or the same objects in another group.
type Form struct {
	Resource      meta.GroupVersionResource
	Kind          meta.GroupVersionKind
	ClusterScoped bool
}

// namespaces is the resource of Namespace objects.
var namespaces = meta.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// errNoServer is the answer of a Request without a Server.
var errNoServer = errors.New("the admission request has no server")

// GroupResource returns the resource without its version, as error messages name it.
func (r *Request) GroupResource() meta.GroupResource { return r.Resource.GroupResource() }

// Target returns what a plugin's rules match: what the client asked for. In a Request made by hand,
// the Request fields may be empty; then Target uses Resource and Subresource.
func (r *Request) Target() Target {
	if r.RequestResource == (meta.GroupVersionResource{}) {
		return Target{Operation: r.Operation, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace}
	}
	return Target{Operation: r.Operation, Resource: r.RequestResource, Subresource: r.RequestSubresource, Namespace: r.Namespace}
}

// Labels returns the labels of Object and those of OldObject. A selector of a webhook matches a
// write if it matches either.
func (r *Request) Labels() (now, before meta.LabelSet) {
	return labels(r.Object), labels(r.OldObject)
}

// HasNamespace reports whether the write has a namespace whose labels count. A Namespace has, although
// it may have no name yet: it is its own.
func (r *Request) HasNamespace() bool {
	return r.Namespace != "" || r.Resource.GroupResource() == namespaces.GroupResource()
}

// NameInErrors returns what errors call the object: its name, what its name will begin with while that
// is not generated, or Unknown, as for reviews. kube-apiserver says the same.
func (r *Request) NameInErrors() string {
	metadata, _ := r.Object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	prefix, _ := metadata["generateName"].(string)
	return cmp.Or(r.Name, name, prefix, "Unknown")
}

// NamespaceLabels returns the labels of the namespace of the write. For a Namespace they are its
// own: those of the new object, unless it is deleted. Other cluster-scoped kinds have none, and so
// have all writes on a server without namespaces. The error for a namespace that does not exist is a
// NotFound.
func (r *Request) NamespaceLabels(ctx context.Context) (meta.LabelSet, error) {
	switch {
	case r.Resource.GroupResource() == namespaces.GroupResource() && r.Object != nil && r.Subresource == "":
		return labels(r.Object), nil
	case r.Namespace == "":
		return nil, nil
	case r.Resource.GroupResource() == namespaces.GroupResource() && r.OldObject != nil:
		return labels(r.OldObject), nil
	case r.Server == nil:
		return nil, fmt.Errorf("read the labels of namespace %q: %w", r.Namespace, errNoServer)
	}
	set, err := r.Server.Labels(ctx, namespaces, "", r.Namespace)
	if status.ReasonOf(err) == meta.ReasonNotFound {
		if _, served := r.Server.ResourceOf(namespaces.GroupVersion().WithKind("Namespace")); !served {
			return nil, nil
		}
	}
	return set, err
}

// Convert returns an object of the request, or any object of a served kind, in another version.
func (r *Request) Convert(ctx context.Context, object map[string]any, to meta.GroupVersionKind) (map[string]any, error) {
	if r.Server == nil {
		return nil, fmt.Errorf("convert to %s: %w", to, errNoServer)
	}
	return r.Server.Convert(ctx, object, to)
}

// ConvertBack returns Object with a change that a plugin has made to it in another version; see
// [Server].
func (r *Request) ConvertBack(ctx context.Context, shown, changed map[string]any) (map[string]any, error) {
	if r.Server == nil {
		return nil, fmt.Errorf("convert to %s: %w", r.Kind, errNoServer)
	}
	return r.Server.ConvertBack(ctx, r.Object, shown, changed)
}

// Warn adds a warning to the response, for people to read. Text beyond 256 characters may be cut.
func (r *Request) Warn(ctx context.Context, text string) { request.Warn(ctx, text) }

// Annotate adds an annotation to the request's audit event. The key is a qualified name, such as
// "policy.example.com/decision"; the first value of a key counts.
func (r *Request) Annotate(ctx context.Context, key, value string) error {
	if why := meta.CheckQualifiedName(key); why != "" {
		return fmt.Errorf("audit annotation %q: %s", key, why)
	}
	request.ExchangeFrom(ctx).Annotate(key, value)
	return nil
}

// labels returns the labels of an object. It omits values that are not strings; validation reports
// them.
func labels(object map[string]any) meta.LabelSet {
	metadata, _ := object["metadata"].(map[string]any)
	all, _ := metadata["labels"].(map[string]any)
	if len(all) == 0 {
		return nil
	}
	texts := make(map[string]string, len(all))
	for key, v := range all {
		if text, ok := v.(string); ok {
			texts[key] = text
		}
	}
	return meta.NewLabelSet(texts)
}
