package gc

import (
	"context"
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
)

// verdict is the result of resolving an owner reference.
type verdict int

const (
	solid    verdict = iota // the owner exists
	dangling                // the owner does not exist
	ending                  // the owner waits until its dependents are deleted
	foreign                 // the owner is namespaced and the dependent is not: the reference is ambiguous
)

// judge decides about an object that has owners, or had some when it was queued.
func (s *session) judge(ctx context.Context, o *object) error {
	if len(o.owners) == 0 {
		return nil
	}
	verdicts := make([]verdict, len(o.owners))
	count := map[verdict]int{}
	for i, ref := range o.owners {
		v, _, err := s.weigh(ctx, o, ref)
		if err != nil {
			return err
		}
		if v == foreign {
			s.complain(ctx, o, ref, "is in a namespace, which an object without one cannot refer to")
			return nil // kept for good: the reference never named an object
		}
		verdicts[i] = v
		count[v]++
	}
	switch {
	case count[solid] == len(o.owners):
		return nil
	case count[solid] > 0:
		var kept []meta.OwnerReference
		for i, ref := range o.owners {
			if verdicts[i] == solid {
				kept = append(kept, ref)
			}
		}
		return s.setOwners(ctx, o, kept)
	case count[ending] > 0 && s.hasDependents(o.uid()):
		return s.remove(ctx, o, meta.DeletePropagationForeground) // so that the owner waits for all descendants
	case slices.Contains(o.finalizers, meta.FinalizerOrphanDependents):
		return s.remove(ctx, o, meta.DeletePropagationOrphan)
	case slices.Contains(o.finalizers, meta.FinalizerDeleteDependents):
		return s.remove(ctx, o, meta.DeletePropagationForeground)
	}
	return s.remove(ctx, o, meta.DeletePropagationBackground)
}

func (c *Collector) hasDependents(owner meta.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, has := c.index.first(owner, "")
	return has
}

// weigh resolves a reference of an object. It returns the owner if that exists.
func (s *session) weigh(ctx context.Context, o *object, ref meta.OwnerReference) (verdict, *object, error) {
	gv, err := meta.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return solid, nil, fmt.Errorf("%w: %s", errUnserved, ref.APIVersion)
	}
	k := s.present()
	served, ok := k.named[gv.WithKind(ref.Kind)]
	if !ok {
		return s.weighOtherVersions(ctx, o, ref, k.versions[meta.GroupKind{Group: gv.Group, Kind: ref.Kind}])
	}
	return s.weighIn(ctx, o, ref, served)
}

// weighOtherVersions resolves a reference whose version is not served by searching the served
// versions. If none of them has the owner, its kind may be one that is not served.
func (s *session) weighOtherVersions(ctx context.Context, o *object, ref meta.OwnerReference, versions []*engine.Served) (verdict, *object, error) {
	for _, served := range versions {
		v, owner, err := s.weighIn(ctx, o, ref, served)
		if err != nil || v == solid {
			return v, owner, err
		}
	}
	return solid, nil, fmt.Errorf("%w: %s of %s", errUnserved, ref.Kind, ref.APIVersion)
}

func (s *session) weighIn(ctx context.Context, o *object, ref meta.OwnerReference, served *engine.Served) (verdict, *object, error) {
	r, namespace := served.Resource, ""
	if !r.ClusterScoped {
		if namespace = o.entry.Namespace(); namespace == "" {
			return foreign, nil, nil
		}
	}
	if meta.CheckPathSegment(ref.Name) != "" {
		return dangling, nil, nil // no object has such a name
	}
	owner, err := s.readFrom(ctx, served, storage.ObjectKey(r.StorageName, namespace, ref.Name))
	switch {
	case err != nil:
		return solid, nil, err
	case owner == nil || owner.uid() != ref.UID:
		if namespace != "" && s.liesElsewhere(served, ref) {
			s.complain(ctx, o, ref, "is in another namespace, which counts as absent")
		}
		return dangling, nil, nil
	case owner.deleting(meta.FinalizerDeleteDependents):
		return ending, owner, nil
	}
	return solid, owner, nil
}
