package gc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// manager is the field manager of the collector's writes.
const manager = "garbage-collector"

// errUnreadable means that an object exists and nobody knows its owners, finalizers and uid.
var errUnreadable = errors.New("the object cannot be read")

// object is an object as it was read, with the metadata that the collector needs.
type object struct {
	served     *engine.Served
	entry      *watch.Entry
	owners     []meta.OwnerReference
	finalizers []string
}

// metadata is the part of an object that the collector decodes.
type metadata struct {
	Metadata struct {
		OwnerReferences []meta.OwnerReference `json:"ownerReferences"`
		Finalizers      []string              `json:"finalizers"`
	} `json:"metadata"`
}

// deleting reports whether the object is being deleted and has a finalizer.
func (o *object) deleting(finalizer string) bool {
	return o.entry.Deleting() && slices.Contains(o.finalizers, finalizer)
}

func (o *object) uid() meta.UID { return o.entry.UID() }

func (o *object) target() registry.Target {
	facts := o.entry.Facts()
	return registry.Target{Resource: o.served.Resource.GroupVersionResource(), Namespace: facts.Namespace, Name: facts.Name}
}

// read returns the current object of a storage key, or nil if it does not exist.
func (s *session) read(ctx context.Context, key string) (*object, error) {
	name, _, _, ok := storage.SplitObjectKey(key)
	if !ok {
		return nil, fmt.Errorf("%q is not an object key", key)
	}
	served, ok := s.present().stored[name]
	if !ok {
		return nil, fmt.Errorf("%w: %s", errUnserved, name)
	}
	return s.readFrom(ctx, served, key)
}

// readFrom reads an object from a live view that shows every stored write. It does not look the
// kind up in the current set: an owner must not count as deleted because its kind has just been
// removed.
func (s *session) readFrom(ctx context.Context, served *engine.Served, key string) (*object, error) {
	s.reads.Add(1)
	if err := served.Cache.Fresh(ctx); err != nil {
		return nil, err
	}
	entry, ok := served.Cache.Get(key)
	if !ok {
		if one, exists := served.Cache.Unreadable(key); exists {
			return nil, fmt.Errorf("%w: %w", errUnreadable, one.Err)
		}
		return nil, nil
	}
	o := &object{served: served, entry: entry}
	if len(entry.Owners()) == 0 && !entry.Deleting() {
		return o, nil
	}
	var m metadata
	if err := json.Unmarshal(entry.AppendJSON(make([]byte, 0, entry.Length())), &m); err != nil {
		return nil, fmt.Errorf("read the metadata of %s: %w", key, err)
	}
	o.owners, o.finalizers = m.Metadata.OwnerReferences, m.Metadata.Finalizers
	return o, nil
}

// remove deletes an object if it has not changed since it was read.
func (s *session) remove(ctx context.Context, o *object, policy meta.DeletionPropagation) error {
	_, err := s.engine.Delete(ctx, o.target(), registry.DeleteOptions{
		UID: o.uid(), ResourceVersion: o.entry.Revision(), Propagation: policy, MetadataOnly: true,
	})
	if err == nil {
		s.deletes.Add(1)
	}
	return s.outcome(o, err)
}

// change patches one metadata field of an object if the object has not changed since it was read.
func (s *session) change(ctx context.Context, o *object, what string, value any) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": o.uid(), "resourceVersion": o.entry.Revision().String(), what: value,
	}})
	if err != nil {
		return err
	}
	if done, err := s.engine.Amend(ctx, o.served, o.entry, body); done {
		return s.outcome(o, err)
	}
	_, err = s.engine.Patch(ctx, o.target(), registry.PatchRequest{Type: meta.MergePatch, Body: body},
		registry.WriteOptions{FieldManager: manager, FieldValidation: meta.FieldValidationIgnore})
	return s.outcome(o, err)
}

// outcome interprets the result of a write: it succeeded, the object has changed since it was read,
// or the write was rejected.
func (s *session) outcome(o *object, err error) error {
	switch {
	case err == nil, engine.IsGone(err):
		return nil
	case status.IsConflict(err):
		if now, ok := o.served.Cache.Get(o.entry.Key()); !ok || now.Revision() != o.entry.Revision() {
			return errRace
		}
	}
	return fmt.Errorf("%s %s: %w", o.served.Resource.GroupResource(), o.entry.Name(), err)
}

// setOwners replaces the owner references of an object.
func (s *session) setOwners(ctx context.Context, o *object, owners []meta.OwnerReference) error {
	var value any
	if len(owners) > 0 {
		value = owners
	}
	err := s.change(ctx, o, "ownerReferences", value)
	if err == nil {
		s.stripped.Add(1)
	}
	return err
}

// release removes a finalizer. The object is removed with its last one.
func (s *session) release(ctx context.Context, o *object, finalizer string) error {
	rest := slices.DeleteFunc(slices.Clone(o.finalizers), func(f string) bool { return f == finalizer })
	var value any
	if len(rest) > 0 {
		value = rest
	}
	err := s.change(ctx, o, "finalizers", value)
	if err == nil {
		s.released.Add(1)
	}
	return err
}
