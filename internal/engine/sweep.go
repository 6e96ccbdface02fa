package engine

import (
	"context"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// Sweep deletes the objects of s in a namespace that were last written before a revision. These are
// the remains of a deleted namespace, even if a new one has its name by now (NS-02). Each is
// deleted like by a client's DELETE with background propagation, so finalizers are respected; s
// need not be served yet. Sweep deletes what it can and returns the first error.
func (e *Engine) Sweep(ctx context.Context, s *Served, namespace string, before storage.Revision) error {
	if s.Cache == nil || s.stored != s || s.Kind.ClusterScoped {
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
		t := registry.Target{Resource: s.Kind.GroupVersionResource(), Namespace: namespace, Name: entry.Name()}
		_, err := e.deleteFrom(ctx, s, t, registry.DeleteOptions{UID: entry.UID(), Propagation: meta.DeletePropagationBackground}, asked{})
		if err != nil && first == nil && !IsGone(err) && !status.IsConflict(err) {
			first = err
		}
	}
	return first
}
