package crd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// end deletes the objects of a definition that is being deleted, in the background, and then lets the
// definition go.
//
// Source: CRD-21.
func (c *controller) end(ctx context.Context, d *definition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending[d.UID] {
		return
	}
	c.ending[d.UID] = true
	var of *meta.GroupVersionResource
	if one := c.served[d.Name]; one != nil && one.uid == d.UID {
		of = &one.versions[0]
	}
	c.workers.Go(func() {
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.ending, d.UID)
		}()
		for ctx.Err() == nil {
			err := c.endOnce(ctx, d, of)
			if err == nil {
				return
			}
			if ctx.Err() == nil {
				c.engine.Logger().Error(err, "the objects of a definition are not deleted yet; retrying", "name", d.Name)
			}
			_ = pause.For(ctx, 20*firstRetry)
		}
	})
}

// endOnce deletes the objects of a definition, waits until they are gone, and takes the finalizer away.
func (c *controller) endOnce(ctx context.Context, d *definition, of *meta.GroupVersionResource) error {
	note := CustomResourceDefinitionCondition{
		Type: Terminating, Status: "True", Reason: "InstanceDeletionInProgress", Message: "CustomResource deletion is in progress",
	}
	if err := c.noteEnding(ctx, d, note, nil); err != nil {
		return err
	}
	done := CustomResourceDefinitionCondition{
		Type: Terminating, Status: "False", Reason: "InstanceDeletionCompleted", Message: "removed all instances",
	}
	if of == nil {
		done.Reason, done.Message = "NeverEstablished", "resource was never established"
	} else if err := c.deleteAll(ctx, *of); err != nil {
		if ctx.Err() != nil {
			return err
		}
		note.Reason, note.Message = "InstanceDeletionFailed", fmt.Sprintf("could not issue all deletes: %v", err)
		return errors.Join(err, c.noteEnding(ctx, d, note, nil))
	}
	return c.noteEnding(ctx, d, done, func(now *CustomResourceDefinition) {
		now.Finalizers = slices.DeleteFunc(slices.Clone(now.Finalizers), func(f string) bool { return f == c.finalizer })
	})
}

// noteEnding stores how far the deletion is.
func (c *controller) noteEnding(ctx context.Context, d *definition, condition CustomResourceDefinitionCondition, more func(*CustomResourceDefinition)) error {
	_, err := c.front.Sub("status").Modify(withSpecAsStored(ctx), "", d.Name, func(now *CustomResourceDefinition) error {
		if now.UID != d.UID {
			return status.NotFound(c.of.GroupResource(), d.Name)
		}
		if more != nil {
			more(now)
		}
		if len(now.Finalizers) > 0 {
			condition.Status = "True" // new objects are refused as long as others hold the definition
		}
		now.setCondition(c.engine.Now(), condition)
		return nil
	})
	return ignoreNotFound(err)
}

// deleteAll deletes the objects of a kind, and waits until those with finalizers are gone. As in
// kube-apiserver, no policy and no webhook is asked about that: those of an operator that is gone
// would hold its definitions for good. It needs metadata alone, so a conversion webhook that is gone
// does not hold it up either. A create that began before the definition was deleted may still
// succeed, so it looks again.
func (c *controller) deleteAll(ctx context.Context, of meta.GroupVersionResource) error {
	for wait := firstLook; ; wait = min(2*wait, maxLook) {
		namespaces := map[string]bool{}
		list, err := c.engine.List(ctx, registry.Target{Resource: of}, registry.ListRequest{MetadataOnly: true})
		if status.IsNotFound(err) {
			return nil
		} else if err != nil {
			return err
		}
		for e, err := range list.Items {
			if err != nil {
				return err
			}
			namespaces[e.Namespace()] = true
		}
		for namespace := range namespaces {
			if _, err := c.engine.DeleteUnasked(ctx, registry.Target{Resource: of, Namespace: namespace}); err != nil {
				return fmt.Errorf("delete the objects in namespace %q: %w", namespace, err)
			}
		}
		if more, err := c.awaitNone(ctx, of); err != nil || !more {
			return err
		}
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
	}
}

// The waits between two rounds of deletions.
const (
	firstLook = 5 * time.Millisecond
	maxLook   = 5 * time.Second
)

// awaitNone waits until no object of a kind is left. more reports that one is left which nobody has
// deleted.
func (c *controller) awaitNone(ctx context.Context, of meta.GroupVersionResource) (more bool, err error) {
	cursor, err := c.engine.Follow(ctx, registry.Target{Resource: of}, registry.WatchRequest{})
	if status.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer cursor.Close()
	left := map[meta.UID]bool{}
	synced := false
	var events []watch.Event
	for !synced || len(left) > 0 {
		if events, err = cursor.Next(ctx, events[:0]); err != nil {
			return false, err
		}
		for _, event := range events {
			switch event.Type {
			case meta.Bookmark:
				synced = true
			case meta.Added, meta.Modified:
				if !event.Entry.Deleting() {
					return true, nil
				}
				left[event.Entry.UID()] = true
			case meta.Deleted:
				delete(left, event.Entry.UID())
			}
		}
	}
	return false, nil
}
