package registry

import (
	"context"

	"github.com/kindwright/kindwright/storage"
)

// A NamespaceGate decides whether objects may be created in a namespace. Without one a server has no namespace
// objects, and every well-formed namespace exists (NS-07).
type NamespaceGate interface {
	// AdmitCreate returns nil and the checks that must hold when the creation is committed, or an error for the client:
	// 404 for a namespace that does not exist, 403 with cause NamespaceTerminating for one that is ending. A creation
	// whose checks fail at the commit asks again (design rule 2).
	AdmitCreate(ctx context.Context, store *storage.Store, r *Resource, namespace, name string) ([]storage.Op, error)
}
