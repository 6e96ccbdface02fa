package engine

import (
	"context"
	"errors"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/patch"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// Amend applies a merge patch to the metadata of an object, for the server's own work, if the object
// is still what entry is. An object whose last finalizer goes is removed.
//
// The record keeps the version that it was written in, and nothing is converted. So an object that
// cannot be converted can lose its finalizers. Amend does nothing and returns false where Patch is
// as good, or where a plugin has to see the object.
func (e *Engine) Amend(ctx context.Context, served *Served, entry *watch.Entry, body []byte) (bool, error) {
	facts := entry.Facts()
	t := registry.Target{Resource: served.Kind.GroupVersionResource(), Namespace: facts.Namespace, Name: facts.Name}
	target := admissionTarget(t, admission.Update, t.Name)
	asked := e.admission(target, admission.Request{Kind: served.Kind.GroupVersionKind(), Name: t.Name})
	if facts.Form == 0 || e.cfg.Admission.Concerns(asked) {
		return false, nil
	}
	d := &deletion{
		engine: e, served: served, stored: served.Kind.base, target: t, key: entry.Key(), patch: body,
		opts: registry.DeleteOptions{UID: entry.UID(), ResourceVersion: entry.Revision()},
	}
	err := run(ctx, amendSteps, d)
	if errors.Is(err, errRace) {
		if err := served.Cache.Fresh(ctx); err != nil { // the collector looks at the live view to find out what happened
			return true, e.readError(served.Kind, "get", err)
		}
		err = status.Conflict(served.Kind.GroupResource(), t.Name, "it was changed meanwhile")
	}
	return true, err
}

// amend computes the object after the patch.
func amend(_ context.Context, d *deletion) (err error) {
	d.next, err = patch.Merge(d.old, d.patch, patch.Options{Kind: d.served.Kind.GroupKind(), Name: d.target.Name})
	return err
}

func commitAmended(ctx context.Context, d *deletion) error {
	if deleting(d.next) {
		return commitDeletion(ctx, d)
	}
	return d.mark(ctx)
}
