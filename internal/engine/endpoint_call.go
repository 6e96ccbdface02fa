package engine

import (
	"context"

	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// invoke prepares a call. It reads the object, including every write acknowledged before.
func (e *Engine) invoke(ctx context.Context, served *Served, t registry.Target) (*registry.Call[registry.Tree], error) {
	entry, err := e.current(ctx, served, storage.ObjectKey(served.Kind.StorageName, t.Namespace, t.Name))
	if err != nil {
		return nil, err
	}
	if entry == nil {
		return nil, status.NotFound(served.Kind.GroupResource(), t.Name)
	}
	object, err := served.treeOf(ctx, entry)
	if err != nil {
		return nil, err
	}
	return &registry.Call[registry.Tree]{Objects: e, Target: t, Object: &object}, nil
}

// hasMetadata reports whether documents of the resource have object metadata.
func hasMetadata(r *registry.Resource) bool {
	_, ok := r.Schema.Lookup("metadata", "uid")
	return ok
}
