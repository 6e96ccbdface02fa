package engine

import (
	"context"
	"time"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
)

// maxForceWait is how long a writer waits for what it wrote to be in force. It is stored, and takes
// effect anyway.
const maxForceWait = time.Second

// inForce waits until a version of an object is in force.
type inForce func(ctx context.Context, version storage.Revision)

// AnswerAfter has the writers of objects of a resource wait until what they wrote is in force. wait
// gets the version of the object. What removes an object, and writes of subresources, are answered at once.
func (e *Engine) AnswerAfter(of meta.GroupVersionResource, wait func(ctx context.Context, version storage.Revision)) {
	f := inForce(wait)
	if served, ok := e.Set().Lookup(of); ok {
		served.inForce.Store(&f)
	}
}

// AwaitForce waits until a version of an object of a resource is in force, see AnswerAfter, or ctx ends.
func (e *Engine) AwaitForce(ctx context.Context, of meta.GroupVersionResource, version storage.Revision) {
	if served, ok := e.Set().Lookup(of); ok {
		if wait := served.inForce.Load(); wait != nil {
			(*wait)(ctx, version)
		}
	}
}

// awaitForce waits as AnswerAfter asks for.
func (w *write) awaitForce(ctx context.Context) {
	if w.sub == nil && !w.opts.DryRun && !w.remove && w.result.Entry != nil {
		w.served.awaitForce(ctx, w.result.Entry.Revision())
	}
}

// awaitForce waits until a version of an object is in force, if somebody asked for that.
func (s *Served) awaitForce(ctx context.Context, version storage.Revision) {
	if wait := s.inForce.Load(); wait != nil {
		ctx, cancel := context.WithTimeout(ctx, maxForceWait)
		defer cancel()
		(*wait)(ctx, version)
	}
}
