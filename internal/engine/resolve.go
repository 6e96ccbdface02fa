package engine

import (
	"context"
	"io"
	"iter"
	"net/url"
	"slices"

	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// Resolved is the target of a request, looked up for one verb that it has. The request uses the same
// kind from beginning to end, even if kinds are added, removed or replaced meanwhile. Its methods are
// the verbs of an Engine.
type Resolved struct {
	Target      registry.Target
	Served      *Served
	Subresource *Subresource // nil for objects themselves, and collections
	Requested   bool         // a client asked for it, and not the server itself; see Config.Check

	engine *Engine
	acts   *Served // the resource whose objects a verb uses: Served, or the stored form if that has the subresource
}

// Resolve looks up a target in the present set, which it loads once. It rejects requests for
// resources that do not exist, and verbs that the target does not have.
func (e *Engine) Resolve(verb string, t registry.Target) (*Resolved, error) {
	served, ok := e.set.Load().named.get(t.Resource)
	if !ok {
		return nil, status.NotFound(t.Resource.GroupResource(), t.Name)
	}
	return e.ResolveIn(served.Served, verb, t)
}

// ResolveIn is Resolve for a kind that has been looked up.
func (e *Engine) ResolveIn(served *Served, verb string, t registry.Target) (*Resolved, error) {
	at := &Resolved{Target: t, Served: served, engine: e, acts: served}
	if t.Subresource != "" {
		sub, ok := served.Kind.Endpoint(t.Subresource)
		if !ok {
			return nil, at.withoutSubresource()
		}
		if at.Subresource = sub; sub.stored {
			at.acts = served.stored
		}
	}
	if err := at.check(verb); err != nil {
		return nil, err
	}
	return at, nil
}

// withoutSubresource is the error for a subresource that the kind does not have. As in kube-apiserver, that
// of a kind without a Go type names the object, because another version of it may have the subresource.
func (at *Resolved) withoutSubresource() error {
	r, t := at.Served.Kind, at.Target
	if r.Type == nil && r.ClusterScoped == (t.Namespace == "") {
		return status.NotFound(r.GroupResource(), t.Name)
	}
	return NotServed()
}

// NotServed is the answer to a request for a resource or a path that the server does not have.
func NotServed() *status.Error {
	return status.NotFound(meta.GroupResource{}, "").WithMessage("the server could not find the requested resource")
}

// check rejects a verb that the target does not have. It holds the rules of scope (P1, NAME-05): a
// cluster-scoped resource has no namespace; objects of other kinds have one, and only lists and watches
// extend over all namespaces.
func (at *Resolved) check(verb string) error {
	r, t := at.Served.Kind, at.Target
	verbs := r.Verbs
	if at.Subresource != nil {
		verbs = at.Subresource.Verbs
	}
	everywhere := !r.ClusterScoped && t.Namespace == ""
	named := true // the verb is one of an object
	switch verb {
	case request.VerbList, request.VerbWatch:
		named, everywhere = false, false
	case request.VerbDeleteCollection:
		named = false
	case request.VerbCreate:
		named = at.Subresource != nil
	}
	switch {
	case r.ClusterScoped && t.Namespace != "", named && everywhere:
		return withPath(NotServed(), r)
	case at.Subresource == nil && t.Name != "" && !slices.ContainsFunc(verbs, isNamed):
		return NotServed() // a kind such as a review: no object of it has a path
	case everywhere && r.Type == nil && slices.Contains(verbs, verb):
		return withPath(NotServed(), r) // as for custom resources in kube-apiserver
	case everywhere && slices.Contains(verbs, verb):
		return withPath(status.MethodNotAllowed(r.GroupResource(), verb), r)
	case everywhere, named == (t.Name == ""), !slices.Contains(verbs, verb):
		return status.MethodNotAllowed(r.GroupResource(), verb)
	}
	return nil
}

// isNamed reports whether a verb is one of an object.
func isNamed(verb string) bool {
	return verb == request.VerbGet || verb == request.VerbUpdate || verb == request.VerbPatch || verb == request.VerbDelete
}

// withPath adds to an error which path was probably meant.
func withPath(err *status.Error, r *Kind) error {
	hint := "namespaced: its paths have /namespaces/{namespace}/" + r.Plural
	if r.ClusterScoped {
		hint = "not namespaced: its paths have /" + r.Version + "/" + r.Plural
	}
	return err.WithMessage(err.Error() + ": the kind " + r.Names.Kind + " is " + hint)
}

// resolveNamed is Resolve for a verb of an object. The name may come from a field of another object, such
// as a reference, which can be empty: that is no request for the collection.
func (e *Engine) resolveNamed(verb string, t registry.Target) (*Resolved, error) {
	if _, ok := e.set.Load().named.get(t.Resource); ok && t.Name == "" {
		return nil, status.BadRequest("Name parameter required.")
	}
	return e.Resolve(verb, t)
}

// Get is Resolved.Get.
func (e *Engine) Get(ctx context.Context, t registry.Target, lr registry.ListRequest) (*watch.Entry, error) {
	at, err := e.resolveNamed(request.VerbGet, t)
	if err != nil {
		return nil, err
	}
	return at.Get(ctx, lr)
}

// List is Resolved.List.
func (e *Engine) List(ctx context.Context, t registry.Target, lr registry.ListRequest) (*registry.List, error) {
	at, err := e.Resolve(request.VerbList, t)
	if err != nil {
		return nil, err
	}
	l, err := at.List(ctx, lr)
	if err != nil {
		return nil, err
	}
	return &l.List, nil
}

// Watch is Resolved.Watch.
func (e *Engine) Watch(ctx context.Context, t registry.Target, wr registry.WatchRequest) iter.Seq2[watch.Event, error] {
	at, err := e.Resolve(request.VerbWatch, t)
	if err != nil {
		return func(yield func(watch.Event, error) bool) { yield(watch.Event{}, err) }
	}
	return at.Watch(ctx, wr)
}

// Follow is Resolved.Follow.
func (e *Engine) Follow(ctx context.Context, t registry.Target, wr registry.WatchRequest) (*watch.Cursor, error) {
	at, err := e.Resolve(request.VerbWatch, t)
	if err != nil {
		return nil, err
	}
	return at.Follow(ctx, wr)
}

// Create is Resolved.Create.
func (e *Engine) Create(ctx context.Context, t registry.Target, body []byte, o registry.WriteOptions) (*registry.Result, error) {
	at, err := e.Resolve(request.VerbCreate, t)
	if err != nil {
		return nil, err
	}
	return at.Create(ctx, body, o)
}

// Update is Resolved.Update.
func (e *Engine) Update(ctx context.Context, t registry.Target, body []byte, o registry.WriteOptions) (*registry.Result, error) {
	at, err := e.resolveNamed(request.VerbUpdate, t)
	if err != nil {
		return nil, err
	}
	return at.Update(ctx, body, o)
}

// Patch is Resolved.Patch.
func (e *Engine) Patch(ctx context.Context, t registry.Target, p registry.PatchRequest, o registry.WriteOptions) (*registry.Result, error) {
	at, err := e.resolveNamed(request.VerbPatch, t)
	if err != nil {
		return nil, err
	}
	return at.Patch(ctx, p, o)
}

// Delete is Resolved.Delete.
func (e *Engine) Delete(ctx context.Context, t registry.Target, o registry.DeleteOptions) (*registry.Result, error) {
	at, err := e.resolveNamed(request.VerbDelete, t)
	if err != nil {
		return nil, err
	}
	return at.Delete(ctx, o)
}

// DeleteCollection is Resolved.DeleteCollection.
func (e *Engine) DeleteCollection(ctx context.Context, t registry.Target, lr registry.ListRequest, o registry.DeleteOptions) (int, error) {
	at, err := e.Resolve(request.VerbDeleteCollection, t)
	if err != nil {
		return 0, err
	}
	return at.DeleteCollection(ctx, lr, o)
}

// Ask is Resolved.Ask.
func (e *Engine) Ask(ctx context.Context, t registry.Target, parameters url.Values) (*registry.Result, error) {
	at, err := e.Resolve(request.VerbGet, t)
	if err != nil {
		return nil, err
	}
	return at.Ask(ctx, parameters)
}

// Open is Resolved.Open.
func (e *Engine) Open(ctx context.Context, t registry.Target, parameters url.Values) (io.ReadCloser, error) {
	at, err := e.Resolve(request.VerbGet, t)
	if err != nil {
		return nil, err
	}
	return at.Open(ctx, parameters)
}
