package registry

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/apply"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// View is a subresource that shows a part of an object T as a document D of its own, and writes it back: GET, PUT and PATCH of
// `widgets/config`. D has metadata, of which the server fills in name, namespace, uid, resourceVersion and
// creationTimestamp; writes go through the same steps as writes to the object, from the check of the resourceVersion to the
// rules of the kind, and start again after a lost race. A document is patched as a JSON, merge or strategic merge patch. It
// cannot be applied to, as the owners of an object's fields say nothing about those of the document.
type View[T, D any] struct {
	Name string                // the path segment
	Kind meta.GroupVersionKind // of D; default: the Go type's name, in the group and version of the kind

	// Get returns what the document shows of an object.
	Get func(ctx context.Context, obj *T) (*D, error)

	// Merge puts the document into the object; nil makes the view read-only. What it changes in the struct is changed in the
	// object, but for metadata; everything else stays as it was. It may be called more than once for one request.
	Merge func(ctx context.Context, obj *T, doc *D) error

	// Fields are the paths of what Merge changes, such as {"spec", "notes"}, for the owners of fields. None means all.
	Fields [][]string

	// Default and Validate are to documents what those of Kind are to objects.
	Default  func(ctx context.Context, doc *D)
	Validate func(ctx context.Context, doc *D, f *status.Fields)
}

// Describe makes the view a Subresource.
func (v View[T, D]) Describe(of *Resource, types *Types) (Subresource, error) {
	fail := func(err error) (Subresource, error) {
		return Subresource{}, fmt.Errorf("subresource %q: %w", v.Name, err)
	}
	if err := checkObject[T](v.Name, of); err != nil {
		return Subresource{}, err
	}
	if v.Get == nil {
		return fail(errNoFunction("Get"))
	}
	document, err := describeDocument[D](v.Kind, of, types)
	if err != nil {
		return fail(err)
	}
	if !document.hasMetadata() {
		return fail(fmt.Errorf("the documents of a view need metadata: embed meta.ObjectMeta in Go type %s", document.Type))
	}
	document.Hooks = Kind[D]{Default: v.Default, Validate: v.Validate}.hooks()
	out := Subresource{Name: v.Name, Verbs: []string{"get"}, Fields: v.Fields, View: &Part{Document: document, Get: viewer(v.Get)}}
	if v.Merge != nil {
		out.Verbs, out.View.Merge = []string{"get", "patch", "update"}, merger(v.Merge)
	}
	return out, nil
}

func errNoFunction(name string) error { return fmt.Errorf("it has no function %s", name) }

func viewer[T, D any](get func(context.Context, *T) (*D, error)) func(context.Context, Tree) (Tree, error) {
	return func(ctx context.Context, object Tree) (Tree, error) {
		obj, err := decodeTyped[T](object)
		if err != nil {
			return nil, err
		}
		doc, err := get(ctx, obj)
		if err != nil {
			return nil, err
		}
		if doc == nil {
			doc = new(D)
		}
		return encodeTyped(doc)
	}
}

func merger[T, D any](merge func(context.Context, *T, *D) error) func(context.Context, Tree, Tree) (Tree, error) {
	return func(ctx context.Context, object, document Tree) (Tree, error) {
		doc, err := decodeTyped[D](document)
		if err != nil {
			return nil, err
		}
		var refused error
		out, err := mutateTyped(ctx, object, func(ctx context.Context, obj *T) { refused = merge(ctx, obj, doc) })
		if refused != nil {
			return nil, refused
		}
		return out, err
	}
}

// view is a Part as the engine works with it.
type view struct {
	*Part
	document *Compiled
	owners   *apply.Fields // of the fields of a Scale; nil for other documents
}

// patches are the kinds of patches that the document takes.
func (v *view) patches() []PatchType {
	types := v.document.Patches()
	if v.owners == nil {
		types = types[1:] // all but apply, which is the first
	}
	return types
}

// viewMetadata are the members of an object's metadata that its views have too.
var viewMetadata = [...]string{"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}

// look returns the document that a view shows of an object, both in the form of s.
func (e *Engine) look(ctx context.Context, s *Served, v *view, object Tree) (Tree, error) {
	doc, err := v.Get(ctx, object)
	if err != nil {
		return nil, err
	}
	if v.owners != nil {
		owners, err := apply.ToScale(tree.List(object, "metadata", "managedFields"), s.ownership.rules.Load().replicas)
		if err != nil {
			owners = nil // they cannot be read, which is no reason to hide the rest
		}
		doc = withOwners(doc, owners)
	}
	from := object["metadata"]
	metadata, _ := from.(map[string]any)
	doc = tree.WithMetadata(doc, metadata, viewMetadata[:]...)
	doc = tree.With(tree.With(doc, v.document.APIVersion(), "apiVersion"), v.document.Names.Kind, "kind")
	canonical, problems := v.document.Schema.Canonical(doc)
	if len(problems) > 0 {
		return nil, status.Internal(fmt.Errorf("the document made of %s is none of its kind: %s", s.Kind.GroupResource(), problems[0].Message()))
	}
	return canonical, nil
}

// viewed returns the document that a view shows of a stored object, as an entry. It is of the moment: nobody keeps it.
func (e *Engine) viewed(ctx context.Context, s *Served, v *view, entry *watch.Entry) (*watch.Entry, error) {
	object, err := treeOf(entry)
	if err != nil {
		return nil, err
	}
	if object, err = s.Kind.FromStored(ctx, object); err != nil {
		return nil, err
	}
	doc, err := e.look(ctx, s, v, object)
	if err != nil {
		return nil, err
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

// view returns the view that the write goes through, nil on the main path.
func (in *intent) view() *view {
	if in.sub == nil {
		return nil
	}
	return in.sub.view
}

// manageView notes who owns what after the write. It counts from what the requester sent (design rule 20), so the document is
// merged as it is now, before admission has seen it.
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

// mergeView begins the second half of a write through a view: the object, with the document in it. The rules of the kind
// are the same on every path. What is wrong with the document itself is said first.
func mergeView(ctx context.Context, w *write) error {
	v := w.view()
	if v == nil {
		return nil
	}
	f := &status.Fields{}
	w.sent.kind.rules().check(ctx, f, w.sent.new, w.sent.old)
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

// mergedObject is the object with the document in it, in canonical form and with its defaults.
func (w *write) mergedObject(ctx context.Context, v *view) (Tree, error) {
	old := w.object.old
	object, err := v.Merge(ctx, tree.Without(old, "metadata", "resourceVersion"), w.sent.new)
	if err != nil {
		return nil, err
	}
	object = tree.With(object, old["metadata"], "metadata")
	object = tree.With(tree.With(object, old["apiVersion"], "apiVersion"), old["kind"], "kind")
	return w.settled(ctx, &part{kind: w.object.kind, old: old, new: object})
}

// withOwners returns an object with managedFields, or without where there are none.
func withOwners(t Tree, owners []any) Tree {
	if len(owners) == 0 {
		return tree.Without(t, "metadata", "managedFields")
	}
	return tree.With(t, owners, "metadata", "managedFields")
}

// shownAs makes the result of a write through a view the document that it shows.
func (e *Engine) shownAs(ctx context.Context, s *Served, v *view, r *Result) (*Result, error) {
	out := *r
	var err error
	out.Entry, err = e.viewed(ctx, s, v, r.Entry)
	return &out, err
}

// patches are the kinds of patches that can be sent to what is written to.
func (in *intent) patches() []PatchType {
	if v := in.view(); v != nil {
		return v.patches()
	}
	return in.resource().Patches()
}
