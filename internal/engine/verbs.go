package engine

import (
	"context"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Create stores a new object. body is its JSON. The name comes from body or is generated
// (CREATE-01, NAME-06). For a virtual resource Create runs the operation and returns its answer
// (MODEL-21). For a subresource that is an action, it runs the action (PATH-21).
func (at *Resolved) Create(ctx context.Context, body []byte, o registry.WriteOptions) (*registry.Result, error) {
	ctx = at.HookContext(ctx)
	r := at.acts.Kind
	if at.Subresource != nil && at.Subresource.Acts(verbCreate) {
		return at.act(ctx, verbCreate, body, o)
	}
	if at.Subresource != nil {
		return nil, status.MethodNotAllowed(r.GroupResource(), verbCreate)
	}
	in := at.intent(ctx, verbCreate, body, o)
	if in.mayCreate = true; r.Virtual != nil {
		return in.operate(ctx)
	}
	return in.walk(ctx)
}

// Update replaces an object by body (UPDATE-01). It creates an absent object if the kind allows
// that (UPDATE-10).
func (at *Resolved) Update(ctx context.Context, body []byte, o registry.WriteOptions) (*registry.Result, error) {
	ctx = at.HookContext(ctx)
	if at.Subresource != nil && at.Subresource.Acts(verbUpdate) {
		return at.act(ctx, verbUpdate, body, o)
	}
	in := at.intent(ctx, verbUpdate, body, o)
	in.mayUpdate = true
	in.mayCreate, in.allowCreate = in.kind.Writes.CreateOnUpdate && in.sub == nil, o.MayCreate
	return in.walk(ctx)
}

// Patch applies a patch to the newest state of an object, and repeats that until the store accepts
// the outcome. Writers of different fields therefore never see a conflict (PATCH-16). A
// resourceVersion in the patch makes it conditional (PATCH-04). A server-side apply creates an
// absent object (PATCH-02).
func (at *Resolved) Patch(ctx context.Context, p registry.PatchRequest, o registry.WriteOptions) (*registry.Result, error) {
	ctx = at.HookContext(ctx)
	in := at.intent(ctx, verbPatch, p.Body, o)
	types := in.kind.Patches
	if in.sub != nil {
		types = in.sub.Patches(in.kind)
	}
	if err := takes(types, p.Type); err != nil {
		return nil, err
	}
	in.mayUpdate, in.patch = true, p.Type
	if p.Type == meta.ApplyPatch {
		in.verb, in.mayCreate, in.allowCreate = verbApply, in.sub == nil, o.MayCreate
	}
	return in.walk(ctx)
}

// intent returns the write that a request asks for.
func (at *Resolved) intent(ctx context.Context, verb string, body []byte, o registry.WriteOptions) *intent {
	in := &intent{
		engine: at.engine, at: at, served: at.acts, kind: at.acts.Kind, sub: at.Subresource,
		target: at.Target, opts: o, verb: verb, body: body,
	}
	if in.sub != nil {
		in.view = in.sub.view
	}
	in.user, _ = authn.UserFrom(ctx)
	return in
}

// operate runs a virtual resource's operation on the document that was sent.
func (in *intent) operate(ctx context.Context) (*registry.Result, error) {
	w := in.try()
	if err := run(ctx, documentSteps, w); err != nil {
		return nil, err
	}
	if err := in.at.requested(ctx, in.verb, in.kind, in.target.Namespace, in.target.Name); err != nil {
		return nil, err
	}
	if w.opts.DryRun {
		ctx = hookcontext.WithDryRun(ctx)
	}
	answer, err := in.kind.Virtual(ctx, w.sent.new)
	if err != nil {
		return nil, err
	}
	return answered(in.kind.GroupVersionKind(), answer, true)
}
