package admission

import (
	"context"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
)

// A NamespaceGate decides whether objects may be created in a namespace. A server without one has
// no namespace objects, and every well-formed namespace exists.
// Source: NS-07.
type NamespaceGate interface {
	// AdmitCreate returns the checks that must hold when the creation is committed. If they do not
	// hold any more, the write asks again. An error is the client's answer: 404 for a namespace
	// that does not exist, 403 with cause NamespaceTerminating for one that is being deleted. It calls
	// the object name, which is what its name will begin with while that is not generated.
	AdmitCreate(ctx context.Context, store *storage.Store, resource meta.GroupResource, namespace, name string) ([]storage.Op, error)
}

// A SteadyGate admits creations by the namespace alone, for as long as the checks hold that it returned.
// The server remembers them and does not ask again before every creation.
type SteadyGate interface {
	NamespaceGate

	// Steady does nothing. It marks the gate.
	Steady()
}
