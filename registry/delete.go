package registry

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// The finalizers that deletion policies leave for a garbage collector (DEL-10).
const (
	FinalizerOrphan     = "orphan"
	FinalizerForeground = "foregroundDeletion"
)

// DeleteOptions are the options of Delete and DeleteCollection. Propagation is "", Background, Foreground or Orphan;
// other values are refused by whoever parses them.
type DeleteOptions struct {
	DryRun          bool
	UID             meta.UID         // "" or what the object's uid must be
	ResourceVersion storage.Revision // 0 or what the object's version must be
	Propagation     meta.DeletionPropagation
	GracePeriod     *int64 // seconds; negative counts as 1; kinds without graceful deletion ignore it (DEL-08)

	selected meta.UID // "" or the uid of the object that is meant: another one of its name is not found
	unmet    string   // a precondition that no object meets
}

// Require adds the preconditions of a request; nil adds none. An empty uid, an empty version and version 0 are those of an object
// that was never stored: no object meets them, so that a client that forgot to read what it deletes does not delete what it
// never saw (DEL-11). The error is 400 for a version that is none.
func (o *DeleteOptions) Require(p *meta.Preconditions) error {
	if p == nil {
		return nil
	}
	if p.UID != nil {
		if o.UID = *p.UID; o.UID == "" {
			o.unmet = "UID in precondition: it is empty"
		}
	}
	if p.ResourceVersion == nil {
		return nil
	}
	if v := *p.ResourceVersion; v == "" || v == "0" {
		o.unmet = fmt.Sprintf("ResourceVersion in precondition: %q is none that an object can have", v)
		return nil
	}
	version, err := storage.ParseRevision(*p.ResourceVersion)
	if err != nil {
		return status.BadRequest("invalid resource version in preconditions: %v", err)
	}
	o.ResourceVersion = version
	return nil
}

// normal returns the options with a negative grace period, which counts as one second (DEL-13).
func (o DeleteOptions) normal() DeleteOptions {
	if o.GracePeriod != nil && *o.GracePeriod < 0 {
		one := int64(1)
		o.GracePeriod = &one
	}
	return o
}

// Delete removes an object, or marks it for deletion where finalizers or its kind hold it (DEL-09). Result.Removed tells
// which.
func (at *Resolved) Delete(ctx context.Context, o DeleteOptions) (*Result, error) {
	ctx = withObjects(ctx, at.engine)
	served, t := at.Served, at.Target
	if at.Subresource != nil || served.Kind.Virtual != nil || t.Name == "" {
		return nil, status.MethodNotAllowed(served.Kind.GroupResource(), "delete")
	}
	return at.engine.deleteFrom(ctx, served, t, o)
}

// deleteFrom is Delete for a resource that has been found, and that need not be served yet.
func (e *Engine) deleteFrom(ctx context.Context, served *Served, t Target, o DeleteOptions) (*Result, error) {
	key := storage.ObjectKey(served.Kind.StorageName, t.Namespace, t.Name)
	o = o.normal()
	for range maxTries {
		result, err := e.deleteOnce(ctx, served, t, key, o)
		if !errors.Is(err, errRace) {
			return served.shown(ctx, result, err)
		}
		if err := e.catchUp(ctx, served); err != nil {
			return nil, err
		}
	}
	return nil, status.Conflict(served.Kind.GroupResource(), t.Name, "it is being changed too often; please try again")
}

func (e *Engine) deleteOnce(ctx context.Context, s *Served, t Target, key string, o DeleteOptions) (*Result, error) {
	r := s.Kind
	stored := r.base()
	old, err := e.current(ctx, s, key)
	if err != nil {
		return nil, err
	}
	if old == nil || o.selected != "" && o.selected != old.UID() {
		return nil, status.NotFound(r.GroupResource(), t.Name)
	}
	if err := o.preconditions(r, t.Name, old); err != nil {
		return nil, err
	}
	tree, err := treeOf(old)
	if err != nil {
		return nil, err
	}
	if stored.patient(tree, o) {
		return &Result{Entry: old}, nil // it is about to end, and this request does not make that sooner (META-15)
	}
	inForm, err := r.FromStored(ctx, tree)
	if err != nil {
		return nil, err
	}
	if err := e.admitDelete(ctx, r, t, inForm, tree, o); err != nil {
		return nil, err
	}
	next, err := e.marked(stored, tree, stored.withPolicy(tree, o.Propagation), o.GracePeriod)
	if err != nil {
		return nil, err
	}
	if !stored.held(next) {
		return e.removeNow(ctx, s, key, old, tree, o)
	}
	return e.mark(ctx, s, key, old, tree, next, o)
}

// preconditions compares what the requester insists on (DEL-11, W9).
func (o DeleteOptions) preconditions(r *Compiled, name string, old *watch.Entry) error {
	if o.unmet != "" {
		return status.Conflict(r.GroupResource(), name, "Precondition failed: "+o.unmet)
	}
	if o.UID != "" && o.UID != old.Facts().UID {
		return status.Conflict(r.GroupResource(), name, fmt.Sprintf("Precondition failed: UID in precondition: %s, UID in object meta: %s", cut(string(o.UID)), old.Facts().UID))
	}
	if o.ResourceVersion != 0 && o.ResourceVersion != old.Revision() {
		return status.Conflict(r.GroupResource(), name, fmt.Sprintf("Precondition failed: ResourceVersion in precondition: %s, ResourceVersion in object meta: %s", o.ResourceVersion, old.Revision()))
	}
	return nil
}

func (e *Engine) admitDelete(ctx context.Context, r *Compiled, t Target, old, stored Tree, o DeleteOptions) (err error) {
	defer func() {
		if v := recover(); v != nil { // also called by the end of a namespace, where nobody else would catch it (ERR-25)
			e.cfg.Logger.Error(fmt.Errorf("panic: %v", v), "a rule about deletion failed", "resource", r.GroupResource().String(), "stack", string(debug.Stack()))
			err = status.Internal(errors.New("a rule about deletion panicked"))
		}
	}()
	switch base := r.base(); {
	case r.Hooks.BeforeDelete != nil:
		err = r.Hooks.BeforeDelete(ctx, old)
	case base.Hooks.BeforeDelete != nil: // a form without a rule of its own has that of what is stored
		err = base.Hooks.BeforeDelete(ctx, stored)
	}
	if err != nil {
		return err
	}
	chain, target := e.cfg.Admission, admissionTarget(t, admission.Delete, t.Name)
	mutates, validates := chain.Mutates(target), chain.Validates(target)
	if !mutates && !validates {
		return nil
	}
	request := e.admission(t, admission.Delete, r.GroupVersionKind(), t.Name)
	request.OldObject, request.DryRun, request.Options = old, o.DryRun, o.document(e.optionsKind("DeleteOptions"))
	request.User, _ = authn.UserFrom(ctx)
	if mutates {
		if _, _, err := chain.Mutate(ctx, request); err != nil {
			return err
		}
	}
	return chain.Validate(ctx, request)
}

// document is the options as admission sees them (ADM-15).
func (o DeleteOptions) document(kind meta.TypeMeta) meta.DeleteOptions {
	out := meta.DeleteOptions{TypeMeta: kind, DryRun: dryRun(o.DryRun), GracePeriodSeconds: o.GracePeriod}
	if o.Propagation != "" {
		out.PropagationPolicy = &o.Propagation
	}
	if o.UID != "" || o.ResourceVersion != 0 {
		out.Preconditions = &meta.Preconditions{}
	}
	if o.UID != "" {
		out.Preconditions.UID = &o.UID
	}
	if o.ResourceVersion != 0 {
		version := o.ResourceVersion.String()
		out.Preconditions.ResourceVersion = &version
	}
	return out
}

// withPolicy puts the finalizer of a deletion policy on an object. An explicit policy replaces the finalizer of another;
// without one the object's own finalizers stand, and without those the kind's policy counts (DEL-10).
func (r *Compiled) withPolicy(t Tree, p meta.DeletionPropagation) Tree {
	if r.Deletion.NoDependents {
		return t
	}
	if p == "" {
		now := finalizers(t)
		if slices.Contains(now, FinalizerOrphan) || slices.Contains(now, FinalizerForeground) {
			return t
		}
		p = r.Deletion.Policy
	}
	if p == "" {
		return t
	}
	var want string
	switch p {
	case meta.DeletePropagationOrphan:
		want = FinalizerOrphan
	case meta.DeletePropagationForeground:
		want = FinalizerForeground
	}
	kept := slices.DeleteFunc(slices.Clone(tree.List(t, "metadata", "finalizers")), func(v any) bool {
		return (v == FinalizerOrphan || v == FinalizerForeground) && v != want
	})
	if len(kept) == 0 {
		t = tree.Without(t, "metadata", "finalizers")
	} else {
		t = tree.With(t, kept, "metadata", "finalizers")
	}
	if want != "" {
		t = withFinalizer(t, want)
	}
	return t
}

func (e *Engine) removeNow(ctx context.Context, s *Served, key string, old *watch.Entry, tree Tree, o DeleteOptions) (*Result, error) {
	if o.DryRun {
		return &Result{Entry: old, Removed: true}, nil
	}
	expect := storage.Expect(old.Revision())
	_, err := e.store(ctx, s, []storage.Op{storage.Delete(key, expect)}, Change{Old: tree})
	if err != nil {
		return nil, e.deleteError(s.Kind, err)
	}
	return &Result{Entry: old, Removed: true}, nil
}

// mark stores that deletion was asked for. A second request changes nothing unless it brings another policy, or an earlier
// end.
func (e *Engine) mark(ctx context.Context, s *Served, key string, old *watch.Entry, tree, next Tree, o DeleteOptions) (*Result, error) {
	r := s.Kind.base()
	encoded, err := encode(next, old.Length()+256)
	if err != nil {
		return nil, err
	}
	before, err := encode(tree, old.Length()+256)
	if err != nil {
		return nil, err
	}
	if string(encoded) == string(before) {
		return &Result{Entry: old}, nil
	}
	rev := old.Revision()
	if !o.DryRun {
		op := storage.Put(key, e.value(r, encoded), storage.Expect(rev))
		if rev, err = e.store(ctx, s, []storage.Op{op}, Change{Old: tree, New: next}); err != nil {
			return nil, e.deleteError(r, err)
		}
	}
	entry, err := r.newEntry(key, rev, encoded)
	if err != nil {
		return nil, err
	}
	return &Result{Entry: entry}, nil
}

func (e *Engine) deleteError(r *Compiled, err error) error {
	var lost *storage.ConflictError
	if errors.As(err, &lost) {
		return errRace
	}
	return e.writeError(r, err)
}
