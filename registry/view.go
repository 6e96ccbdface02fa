package registry

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/internal/typed"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
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
func (v View[T, D]) Describe(of *Resource, env Env) (Subresource, error) {
	fail := func(err error) (Subresource, error) {
		return Subresource{}, fmt.Errorf("subresource %q: %w", v.Name, err)
	}
	if err := checkObject[T](v.Name, of); err != nil {
		return Subresource{}, err
	}
	if v.Get == nil {
		return fail(errNoFunction("Get"))
	}
	document, err := describeDocument[D](v.Kind, of, env)
	if err != nil {
		return fail(err)
	}
	if _, ok := document.Schema.Lookup("metadata", "uid"); !ok {
		return fail(fmt.Errorf("the documents of a view need metadata: embed meta.ObjectMeta in Go type %s", document.Type))
	}
	document.Hooks = Rules[D]{Default: v.Default, Validate: v.Validate}.hooks()
	out := Subresource{Name: v.Name, Verbs: []string{"get"}, Fields: v.Fields, View: &Part{Document: document, Get: viewer(v.Get)}}
	if v.Merge != nil {
		out.Verbs, out.View.Merge = []string{"get", "patch", "update"}, merger(v.Merge)
	}
	return out, nil
}

func errNoFunction(name string) error { return fmt.Errorf("it has no function %s", name) }

func viewer[T, D any](get func(context.Context, *T) (*D, error)) func(context.Context, Tree) (Tree, error) {
	return func(ctx context.Context, object Tree) (Tree, error) {
		obj, err := typed.Decode[T](object)
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
		return typed.Encode(doc)
	}
}

func merger[T, D any](merge func(context.Context, *T, *D) error) func(context.Context, Tree, Tree) (Tree, error) {
	return func(ctx context.Context, object, document Tree) (Tree, error) {
		doc, err := typed.Decode[D](document)
		if err != nil {
			return nil, err
		}
		return typed.Change(object, func(obj *T) error { return merge(ctx, obj, doc) })
	}
}
