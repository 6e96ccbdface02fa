package engine

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/apply"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// view is a compiled Part.
type view struct {
	*registry.Part
	document *Kind
	owners   *apply.Fields // owners of the fields of a Scale; nil for other documents
}

// viewMetadata lists the members of an object's metadata that its views share.
var viewMetadata = [...]string{"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}

// look returns the document that a view shows of an object. Both have the form of s.
func (e *Engine) look(ctx context.Context, s *Served, v *view, object registry.Tree) (registry.Tree, error) {
	doc, err := v.Get(ctx, object)
	if err != nil {
		return nil, err
	}
	if v.owners != nil {
		owners, err := apply.ToScale(tree.List(object, "metadata", "managedFields"), s.ownership.rules.Load().replicas)
		if err != nil {
			owners = nil // unreadable managed fields do not hide the rest
		}
		doc = withOwners(doc, owners)
	}
	from := object["metadata"]
	metadata, _ := from.(map[string]any)
	doc = tree.WithMetadata(doc, metadata, viewMetadata[:]...)
	doc = tree.With(tree.With(doc, v.document.APIVersion(), "apiVersion"), v.document.Names.Kind, "kind")
	canonical, problems := v.document.Schema.Canonical(doc)
	if len(problems) > 0 {
		return nil, status.Internal(fmt.Errorf("the document made of %s does not conform to its schema: %s", s.Kind.GroupResource(), problems[0].Message()))
	}
	return canonical, nil
}

// viewed returns the document that a view shows of a stored object, as an entry. It computes the
// entry anew on each call; nothing caches it.
func (e *Engine) viewed(ctx context.Context, s *Served, v *view, entry *watch.Entry) (*watch.Entry, error) {
	object, err := s.treeOf(ctx, entry)
	if err != nil {
		return nil, err
	}
	doc, err := e.look(ctx, s, v, object)
	if err != nil {
		return nil, err
	}
	if v.Replicas != nil && tree.At(doc, "spec", "replicas") == nil {
		return nil, unstated(v)
	}
	if v.owners != nil { // kube-apiserver does not show them in a Scale; they are for merging
		doc = withOwners(doc, nil)
	}
	encoded, err := encode(doc, someObject)
	if err != nil {
		return nil, err
	}
	out, err := v.document.newEntry(entry.Key(), entry.Revision(), encoded)
	if err != nil {
		return nil, status.Internal(err)
	}
	return out, nil
}

// manageView records who owns which fields after the write. Only what the requester sent counts
// (design rule 20), so it merges the document now, before admission has seen it.
func (w *write) manageView(ctx context.Context, v *view) error {
	if v.owners != nil {
		return w.manageScale(v)
	}
	object, err := w.mergedObject(ctx, v)
	if err != nil {
		return err
	}
	owned, err := w.served.ownership.rules.Load().fields.Update(w.ownershipRequest(w.object.old, object))
	if owned == nil {
		return err
	}
	w.unowned = err
	w.owners = tree.List(owned, "metadata", "managedFields")
	return nil
}

// mergeView begins the second half of a write through a view: it puts the document into the object.
// The object is then subject to the same rules on every path. Problems of the document itself are
// reported first.
func mergeView(ctx context.Context, w *write) error {
	v := w.view
	if v == nil {
		return nil
	}
	f := &status.Fields{}
	w.sent.kind.rules.check(ctx, f, w.sent.new, w.sent.old)
	if errs := f.Errors(); len(errs) > 0 {
		return status.Invalid(w.sent.kind.GroupKind(), w.name(), errs)
	}
	if v.owners != nil {
		w.scaleOwners()
	}
	object, err := w.mergedObject(ctx, v)
	if err != nil {
		return err
	}
	w.object.new = withOwners(object, w.owners)
	return nil
}

// mergedObject returns the object with the document merged in, in canonical form and with its
// defaults.
func (w *write) mergedObject(ctx context.Context, v *view) (registry.Tree, error) {
	old := w.object.old
	object, err := v.Merge(ctx, tree.Without(old, "metadata", "resourceVersion"), w.sent.new)
	if err != nil {
		return nil, err
	}
	object = tree.With(object, old["metadata"], "metadata")
	object = tree.With(tree.With(object, old["apiVersion"], "apiVersion"), old["kind"], "kind")
	merged := &part{kind: w.object.kind, old: old, new: object}
	err = w.settle(ctx, merged)
	return merged.new, err
}

// withOwners returns an object with these managedFields, or without the field if there are none.
func withOwners(t registry.Tree, owners []any) registry.Tree {
	if len(owners) == 0 {
		return tree.Without(t, "metadata", "managedFields")
	}
	return tree.With(t, owners, "metadata", "managedFields")
}

// shownAs replaces the result of a write through a view by the document that the view shows.
func (e *Engine) shownAs(ctx context.Context, s *Served, v *view, r *registry.Result) (*registry.Result, error) {
	out := *r
	var err error
	out.Entry, err = e.viewed(ctx, s, v, r.Entry)
	return &out, err
}
