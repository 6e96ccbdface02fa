package engine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/apply"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
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

// scaling is a write of a Scale as validating plugins see it: without the owners of its fields, which are worked
// out for a merge, and which mutating plugins may want to change. kube-apiserver shows them the same.
type scaling struct{ *write }

func (s scaling) admission() *admission.Request {
	r := s.write.admission()
	r.Object = tree.Without(r.Object, "metadata", "managedFields")
	r.OldObject = tree.Without(r.OldObject, "metadata", "managedFields")
	return r
}

// countReplicas lets a whole Scale without replicas mean none: clients leave out a zero. A patch means
// what patchedScale makes of it.
func (w *write) countReplicas() {
	if w.view == nil || w.view.Replicas == nil || w.verb != verbUpdate {
		return
	}
	if tree.At(w.sent.old, "spec", "replicas") == nil && tree.At(w.sent.new, "spec", "replicas") == nil {
		w.sent.new = tree.With(w.sent.new, int64(0), "spec", "replicas")
	}
}

// unstatedReplicas stands in a Scale for replicas that the object does not state, while a patch is applied.
// What the patch leaves is not stated, and what it removes, or sets to null, is none. kube-apiserver does
// the same with the same number, which no Scale can have.
const unstatedReplicas = int64(-1 << 31)

// patchedScale applies a patch to a Scale whose object does not state its replicas.
func patchedScale(old registry.Tree, apply func(registry.Tree) (registry.Tree, error)) (registry.Tree, error) {
	out, err := apply(tree.With(old, unstatedReplicas, "spec", "replicas"))
	if err != nil {
		return nil, err
	}
	if spec, said := out["spec"]; said && spec != nil && !isMap(spec) {
		return out, nil // the schema refuses it
	}
	switch tree.At(out, "spec", "replicas") {
	case nil:
		return tree.With(out, int64(0), "spec", "replicas"), nil
	case unstatedReplicas:
		return tree.Without(out, "spec", "replicas"), nil
	}
	return out, nil
}

func isMap(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

// unstated is the error of reading the Scale of an object that says nothing of its replicas.
func unstated(v *view) error {
	text := fmt.Sprintf("the spec replicas field %q does not exist", "."+strings.Join(v.Replicas, "."))
	return status.Internal(errors.New(text)).WithMessage("Internal error occurred: " + text).WithCauses(meta.StatusCause{Message: text})
}

// scaleOwners computes the owners of the object from those of a Scale.
func (w *write) scaleOwners() {
	of := tree.List(w.object.old, "metadata", "managedFields")
	scale := tree.List(w.sent.new, "metadata", "managedFields")
	if w.kind.Type == nil {
		scale = undated(scale)
	}
	owners, err := apply.FromScale(of, scale, w.kind.APIVersion(), w.served.ownership.rules.Load().replicas)
	if err != nil {
		w.unowned, owners = err, of
	}
	w.owners = owners
}

// undated returns entries without their times. kube-apiserver does not note when somebody became an
// owner of replicas through a Scale, so these entries come first among those of custom resources.
func undated(entries []any) []any {
	out := make([]any, len(entries))
	for i, e := range entries {
		out[i] = e
		if entry, ok := e.(map[string]any); ok {
			out[i] = tree.Without(entry, "time")
		}
	}
	return out
}

// applyScale computes the result of a server-side apply to a Scale.
func (w *write) applyScale(v *view, config registry.Tree) (registry.Tree, error) {
	request := w.ownershipRequest(w.sent.old, config)
	request.APIVersion = apply.ScaleVersion
	return v.owners.Apply(request)
}
