package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// oneByOne is how many objects of a collection are deleted one after the other.
const oneByOne = 100

// DeleteCollection deletes every object that the request selects, as if each were deleted alone. It
// skips objects that are already gone. The first object that cannot be deleted ends the call with
// its error (DEL-15), without Retry-After if something may have been deleted before: a client that
// repeats the request would also delete what was created since. DeleteCollection returns the number
// of objects deleted or marked for deletion.
//
// The objects are processed in their order. In large collections several are deleted at the same
// time, so a few objects after one that fails may also be gone.
func (at *Resolved) DeleteCollection(ctx context.Context, lr registry.ListRequest, o registry.DeleteOptions) (int, error) {
	return at.deleteCollection(ctx, lr, o, false)
}

// DeleteUnasked is DeleteCollection for the server itself: plugins are not asked about the objects, and take nothing
// from them. The rules of the kind and finalizers hold them as always.
func (e *Engine) DeleteUnasked(ctx context.Context, t registry.Target) (int, error) {
	at, err := e.Resolve(request.VerbDeleteCollection, t)
	if err != nil {
		return 0, err
	}
	return at.deleteCollection(ctx, registry.ListRequest{}, registry.DeleteOptions{MetadataOnly: true}, true)
}

func (at *Resolved) deleteCollection(ctx context.Context, lr registry.ListRequest, o registry.DeleteOptions, unasked bool) (int, error) {
	if err := checkPolicy(o.Propagation); err != nil {
		return 0, err
	}
	warnOfPolicy(ctx, at.Served.Kind, o)
	lr.MetadataOnly = true
	c := &collectionDelete{Resolved: at, request: lr, options: o, unasked: unasked}
	if err := run(ctx, collectionSteps, c); err != nil {
		return c.done, err
	}
	return c.done, c.answer()
}

// collectionDelete is the state of one DeleteCollection.
type collectionDelete struct {
	*Resolved
	request registry.ListRequest
	options registry.DeleteOptions
	found   *Listed
	unasked bool // see DeleteUnasked

	mu   sync.Mutex
	done int
	open bool  // it is unknown whether some object was deleted
	err  error // the first error
}

func (c *collectionDelete) ended() bool { return false }

func listDeleted(ctx context.Context, c *collectionDelete) (err error) {
	c.found, err = c.list(ctx, request.VerbDeleteCollection, c.request)
	return err
}

func deleteEach(ctx context.Context, c *collectionDelete) error {
	err := Each(c.found.Stored, oneByOne, func(entry *watch.Entry) bool {
		c.one(ctx, entry)
		return !c.failed()
	})
	if known, ok := errors.AsType[*status.Error](err); ok && c.err == nil {
		return known
	}
	if c.err == nil && err != nil {
		return c.engine.readError(c.found.Served.Kind, "deletecollection", err)
	}
	return nil
}

func (c *collectionDelete) failed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err != nil
}

// one deletes one object, unless deleting another has failed. It may run in a goroutine where
// nothing else recovers from a panic (ERR-25).
func (c *collectionDelete) one(ctx context.Context, entry *watch.Entry) {
	if c.failed() {
		return
	}
	err := c.delete(ctx, entry)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.done++
	case status.IsNotFound(err):
	case c.err == nil:
		c.err = err
	}
	if status.ReasonOf(err) == meta.ReasonTimeout {
		c.open = true
	}
}

// answer returns the error for the client.
func (c *collectionDelete) answer() error {
	if c.err == nil || c.done == 0 && !c.open || status.From(c.err).RetryAfterSeconds() == 0 {
		return c.err
	}
	const text = "%d of the %s were deleted, and then one could not be; list them before trying again"
	return status.Timeout(fmt.Sprintf(text, c.done, c.Served.Kind.GroupResource()), 0).WithCause(c.err)
}

func (c *collectionDelete) delete(ctx context.Context, entry *watch.Entry) (err error) {
	defer guard.RecoverAs(&err, "deleting an object of a collection", status.Internal)
	facts := entry.Facts()
	if err := c.requested(ctx, request.VerbDeleteCollection, c.Served.Kind, facts.Namespace, facts.Name); err != nil {
		return err
	}
	_, err = c.engine.deleteFrom(ctx, c.Served, registry.Target{Resource: c.Target.Resource, Namespace: facts.Namespace, Name: facts.Name}, c.options, asked{facts.UID, !c.options.MetadataOnly, true, c.unasked}) // the request did not select a successor of the same name
	return err
}
