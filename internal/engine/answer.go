package engine

import (
	"context"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
)

// inForce waits until a version of an object is in force.
type inForce func(ctx context.Context, version storage.Revision)

// AnswerAfter has the writers of objects of a resource wait until what they wrote is in force. wait
// gets the version of the object. Deletions and writes of subresources are answered at once.
func (e *Engine) AnswerAfter(of meta.GroupVersionResource, wait func(ctx context.Context, version storage.Revision)) {
	f := inForce(wait)
	if served, ok := e.Set().Lookup(of); ok {
		served.inForce.Store(&f)
	}
}

// awaitForce waits as AnswerAfter asks for.
func (w *write) awaitForce(ctx context.Context) {
	wait := w.served.inForce.Load()
	if wait != nil && w.sub == nil && !w.opts.DryRun && !w.remove && w.result.Entry != nil {
		(*wait)(ctx, w.result.Entry.Revision())
	}
}
