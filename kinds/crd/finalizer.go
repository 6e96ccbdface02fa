package crd

import (
	"context"
	"fmt"
	"slices"

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
			c.engine.Logger().Error(err, "the objects of a definition are not deleted yet; retrying", "name", d.Name)
			_ = pause.For(ctx, 20*firstRetry)
		}
	})
}

// endOnce deletes the objects of a definition, waits until they are gone, and takes the finalizer away.
func (c *controller) endOnce(ctx context.Context, d *definition, of *meta.GroupVersionResource) error {
	note := CustomResourceDefinitionCondition{
		Type: Terminating, Status: "True", Reason: "InstanceDeletionInProgress", Message: "CustomResource deletion is in progress",
	}
	if err := c.noteEnding(ctx, d, note); err != nil {
		return err
	}
	if of != nil {
		if err := c.deleteAll(ctx, *of); err != nil {
			return err
		}
	}
	note.Status, note.Reason, note.Message = "False", "InstanceDeletionCompleted", "removed all instances"
	if err := c.noteEnding(ctx, d, note); err != nil {
		return err
	}
	_, err := c.front.Modify(ctx, "", d.Name, func(now *CustomResourceDefinition) error {
		if now.UID != d.UID {
			return status.NotFound(c.of.GroupResource(), d.Name)
		}
		now.Finalizers = slices.DeleteFunc(slices.Clone(now.Finalizers), func(f string) bool { return f == c.finalizer })
		return nil
	})
	if status.IsNotFound(err) {
		return nil
	}
	return err
}

func (c *controller) noteEnding(ctx context.Context, d *definition, condition CustomResourceDefinitionCondition) error {
	_, err := c.front.Sub("status").Modify(ctx, "", d.Name, func(now *CustomResourceDefinition) error {
		if now.UID != d.UID {
			return status.NotFound(c.of.GroupResource(), d.Name)
		}
		now.setCondition(c.engine.Now(), condition)
		return nil
	})
	if status.IsNotFound(err) {
		return nil
	}
	return err
}

// deleteAll deletes the objects of a kind through admission, and waits until those with finalizers are
// gone. It needs metadata alone, so a conversion webhook that is gone does not hold it up.
func (c *controller) deleteAll(ctx context.Context, of meta.GroupVersionResource) error {
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
		namespaces[e.Facts().Namespace] = true
	}
	for namespace := range namespaces {
		if _, err := c.engine.DeleteCollection(ctx, registry.Target{Resource: of, Namespace: namespace}, registry.ListRequest{}, registry.DeleteOptions{MetadataOnly: true}); err != nil {
			return fmt.Errorf("delete the objects in namespace %q: %w", namespace, err)
		}
	}
	return c.awaitNone(ctx, of)
}

// awaitNone returns when no object of a kind is left.
func (c *controller) awaitNone(ctx context.Context, of meta.GroupVersionResource) error {
	cursor, err := c.engine.Follow(ctx, registry.Target{Resource: of}, registry.WatchRequest{})
	if status.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer cursor.Close()
	left := map[meta.UID]bool{}
	synced := false
	var events []watch.Event
	for !synced || len(left) > 0 {
		if events, err = cursor.Next(ctx, events[:0]); err != nil {
			return err
		}
		for _, event := range events {
			switch event.Type {
			case meta.Bookmark:
				synced = true
			case meta.Added, meta.Modified:
				left[event.Entry.UID()] = true
			case meta.Deleted:
				delete(left, event.Entry.UID())
			}
		}
	}
	return nil
}
