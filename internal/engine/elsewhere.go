package engine

import (
	"context"

	"github.com/kindwright/kindwright/meta"
)

// Elsewhere are other servers that have objects in the namespaces of this one.
type Elsewhere interface {
	// Empty deletes the objects that the servers have in a namespace, as the user of the context. It tells
	// report of each resource with objects that are left, and of each failure. Calls of report run
	// concurrently. A server that is known not to answer is left out.
	Empty(ctx context.Context, namespace string, report func(of meta.GroupVersionResource, left int, failure error))
}

// SetElsewhere says which other servers have objects in the namespaces.
func (e *Engine) SetElsewhere(to Elsewhere) { e.elsewhere.Store(&to) }

// Elsewhere returns the other servers that have objects in the namespaces, nil if there are none.
func (e *Engine) Elsewhere() Elsewhere {
	if to := e.elsewhere.Load(); to != nil {
		return *to
	}
	return nil
}
