package registry

import (
	"context"
	"slices"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/patch"
	"github.com/kindwright/kindwright/status"
)

// Create stores a new object. body is its JSON; the name comes from there, or is generated (CREATE-01, NAME-06). For a
// virtual resource it runs the operation and the result is its answer (MODEL-21); for a subresource that is an action, the
// action (PATH-21).
func (at *Resolved) Create(ctx context.Context, body []byte, o WriteOptions) (*Result, error) {
	ctx = withObjects(ctx, at.engine)
	e, served, sub, t := at.engine, at.acts, at.Subresource, at.Target
	r := served.Kind
	if sub != nil && sub.Acts("create") {
		return e.actOn(ctx, served, sub, t, "create", body, o)
	}
	if sub != nil || t.Name != "" {
		return nil, status.MethodNotAllowed(r.GroupResource(), "create")
	}
	if !r.ClusterScoped && t.Namespace == "" {
		return nil, status.MethodNotAllowed(r.GroupResource(), "create") // P1: never an object without a namespace
	}
	attempts := 0
	base := write{engine: e, served: served, target: t, opts: o, mayCreate: true, attempt: &attempts}
	base.user, _ = authn.UserFrom(ctx)
	base.compute = func(w *write) (Tree, error) { return w.decodeBody(body) }
	if r.Virtual != nil {
		return base.operate(ctx)
	}
	return walk(ctx, func() *write { w := base; return &w })
}

// Update replaces an object by body (UPDATE-01). Where the kind allows it, an absent object is
// created (UPDATE-10).
func (at *Resolved) Update(ctx context.Context, body []byte, o WriteOptions) (*Result, error) {
	ctx = withObjects(ctx, at.engine)
	base, err := at.writeTo(ctx, "update", o)
	if err != nil {
		return nil, err
	}
	if base.sub != nil && base.sub.Acts("update") {
		return at.engine.actOn(ctx, base.served, base.sub, at.Target, "update", body, o)
	}
	base.mayCreate = base.resource().Writes.CreateOnUpdate && base.sub == nil
	base.compute = func(w *write) (Tree, error) {
		if w.creating() && o.MayCreate != nil {
			if err := o.MayCreate(ctx); err != nil {
				return nil, err
			}
		}
		return w.decodeBody(body)
	}
	return walk(ctx, func() *write { w := *base; return &w })
}

// Patch changes an object by a patch, which is applied to the newest state until the store accepts the outcome: writers of
// different fields never see a conflict (PATCH-16). A resourceVersion in the patch makes it conditional (PATCH-04). A
// server-side apply creates an object that is absent (PATCH-02).
func (at *Resolved) Patch(ctx context.Context, p PatchRequest, o WriteOptions) (*Result, error) {
	ctx = withObjects(ctx, at.engine)
	base, err := at.writeTo(ctx, "patch", o)
	if err != nil {
		return nil, err
	}
	if err := takes(base.patches(), p.Type); err != nil {
		return nil, err
	}
	base.patching, base.applying = true, p.Type == ApplyPatch
	base.mayCreate = base.applying && base.sub == nil
	base.compute = func(w *write) (Tree, error) {
		if w.creating() && w.opts.MayCreate != nil {
			if err := w.opts.MayCreate(ctx); err != nil {
				return nil, err
			}
		}
		o := patch.Options{Kind: w.kind().GroupKind(), Name: w.target.Name, Duplicates: w.duplicate}
		switch p.Type {
		case ApplyPatch:
			return w.apply(ctx, p.Body)
		case JSONPatch:
			return patch.JSON(w.oldTree, p.Body, o)
		case StrategicMergePatch:
			return patch.Strategic(w.oldTree, p.Body, w.kind().Schema, o)
		}
		return patch.Merge(w.oldTree, p.Body, o)
	}
	return walk(ctx, func() *write { w := *base; return &w })
}

// writeTo prepares a write to a named object or subresource.
func (at *Resolved) writeTo(ctx context.Context, verb string, o WriteOptions) (*write, error) {
	served, sub, t := at.acts, at.Subresource, at.Target
	r := served.Kind
	allowed := r.Verbs()
	if sub != nil {
		allowed = sub.Verbs
	}
	if t.Name == "" || !slices.Contains(allowed, verb) {
		return nil, status.MethodNotAllowed(r.GroupResource(), verb)
	}
	w := &write{engine: at.engine, served: served, sub: sub, target: t, opts: o, mayUpdate: true, attempt: new(int)}
	w.user, _ = authn.UserFrom(ctx)
	return w, nil
}

// operate runs a virtual resource's operation on the body. The document walks the steps that make sense for something that
// is not stored: its kind and namespace are checked, its fields are pruned, defaulted and validated.
func (w *write) operate(ctx context.Context) (*Result, error) {
	if err := w.accept(ctx); err != nil {
		return nil, err
	}
	r := w.resource()
	answer, err := r.Virtual(ctx, w.object)
	if err != nil {
		return nil, err
	}
	return documentResult(r.GroupVersionKind(), answer, true)
}
