package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

const (
	oneByOne = 100 // how many objects of a collection are deleted one after the other
	deleters = 8   // how many of the others are deleted concurrently: writes that overlap share a sync of the store
)

// DeleteCollection deletes every object that the request selects, as if each were deleted alone. It
// skips objects that are already gone. The first object that cannot be deleted ends the call with
// its error (DEL-15). DeleteCollection returns the number of objects deleted or marked for
// deletion.
//
// The objects are processed in their order. In large collections several are deleted at the same
// time, so a few objects after one that fails may also be gone.
func (at *Resolved) DeleteCollection(ctx context.Context, lr registry.ListRequest, o registry.DeleteOptions) (int, error) {
	lr.MetadataOnly = true
	c := &collectionDelete{Resolved: at, request: lr, options: o}
	if err := run(ctx, collectionSteps, c); err != nil {
		return c.done, err
	}
	return c.done, c.err
}

// collectionDelete is the state of one DeleteCollection.
type collectionDelete struct {
	*Resolved
	request registry.ListRequest
	options registry.DeleteOptions
	found   *Listed

	mu   sync.Mutex
	done int
	err  error // the first error
}

func (c *collectionDelete) ended() bool { return false }

func listDeleted(ctx context.Context, c *collectionDelete) (err error) {
	c.found, err = c.List(ctx, c.request)
	return err
}

func deleteEach(ctx context.Context, c *collectionDelete) error {
	var running sync.WaitGroup
	entries := make(chan *watch.Entry)
	n := 0
	var walk error
	for entry, err := range c.found.Stored {
		if err != nil {
			walk = err
			break
		}
		if n++; n <= oneByOne {
			c.one(ctx, entry)
		} else {
			if n <= oneByOne+deleters {
				running.Go(func() {
					for entry := range entries {
						c.one(ctx, entry)
					}
				})
			}
			entries <- entry
		}
		if c.failed() {
			break
		}
	}
	close(entries)
	running.Wait()
	if c.err == nil && walk != nil {
		return c.engine.readError(c.found.Served.Kind, "deletecollection", walk)
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
}

func (c *collectionDelete) delete(ctx context.Context, entry *watch.Entry) (err error) {
	defer func() {
		if v := recover(); v != nil {
			c.engine.cfg.Logger.Error(fmt.Errorf("panic: %v", v), "deleting an object of a collection failed", "key", entry.Key(), "stack", string(debug.Stack()))
			err = status.Internal(errors.New("deleting an object of a collection panicked"))
		}
	}()
	facts := entry.Facts()
	_, err = c.engine.deleteFrom(ctx, c.Served, registry.Target{Resource: c.Target.Resource, Namespace: facts.Namespace, Name: facts.Name}, c.options, facts.UID) // the request did not select a successor of the same name
	return err
}
