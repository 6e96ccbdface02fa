package engine

import (
	"context"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// Sweep deletes the objects of s in a namespace that were last written before a revision: what a
// namespace that is gone has left behind, also where a new one has its name by now (NS-02). Each is
// deleted as by a client's DELETE in the background, so finalizers have their say; s need not be
// served yet. It deletes what it can, and returns the first of the errors.
func (e *Engine) Sweep(ctx context.Context, s *Served, namespace string, before storage.Revision) error {
	if s.Cache == nil || s.base != nil || s.Kind.ClusterScoped {
		return nil
	}
	if err := s.Cache.Fresh(ctx); err != nil {
		return err
	}
	var first error
	for entry := range s.Cache.Snapshot().Ascend(storage.NamespacePrefix(s.Kind.StorageName, namespace), "") {
		if entry.Revision() >= before {
			continue
		}
		t := registry.Target{Resource: s.Kind.GroupVersionResource(), Namespace: namespace, Name: entry.Facts().Name}
		_, err := e.deleteFrom(ctx, s, t, registry.DeleteOptions{UID: entry.Facts().UID, Propagation: meta.DeletePropagationBackground}, "")
		if err != nil && first == nil && !status.IsNotFound(err) && !status.IsConflict(err) {
			first = err
		}
	}
	return first
}
