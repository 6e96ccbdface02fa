package engine

import (
	"github.com/kindwright/kindwright/apply"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/registry"
)

// manageScale records the owners of the fields of a Scale. If the fields of an object have owners
// but its replicas have none, the writer who changes the replicas becomes their first owner.
func (w *write) manageScale(v *view) error {
	request := w.ownershipRequest(w.sent.old, w.sent.new)
	request.APIVersion = apply.ScaleVersion
	if len(tree.List(w.sent.old, "metadata", "managedFields")) == 0 {
		changed := !tree.SameScalar(tree.At(w.sent.old, "spec", "replicas"), tree.At(w.sent.new, "spec", "replicas"))
		if !changed || len(tree.List(w.object.old, "metadata", "managedFields")) == 0 {
			return nil
		}
		request.Live = nil
	}
	t, err := v.owners.Update(request)
	if t == nil {
		return err
	}
	w.unowned = err
	w.sent.new = t
	return nil
}

// scaleOwners computes the owners of the object from those of a Scale.
func (w *write) scaleOwners() {
	of := tree.List(w.object.old, "metadata", "managedFields")
	owners, err := apply.FromScale(of, tree.List(w.sent.new, "metadata", "managedFields"), w.kind.APIVersion(), w.served.ownership.rules.Load().replicas)
	if err != nil {
		w.unowned, owners = err, of
	}
	w.owners = owners
}

// applyScale computes the result of a server-side apply to a Scale.
func (w *write) applyScale(v *view, config registry.Tree) (registry.Tree, error) {
	request := w.ownershipRequest(w.sent.old, config)
	request.APIVersion = apply.ScaleVersion
	return v.owners.Apply(request)
}
