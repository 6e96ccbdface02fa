package admission

import (
	"context"

	"github.com/kindwright/kindwright/internal/typed"
)

// TypedMutator makes a Mutator of a function on Go structs. The Rules of the plugin must select only T's
// kind. f is not called for a deletion, which has no object.
//
// The object is given in the version of the request, r.Kind. If the kind is served in several versions,
// f is called for each of them, and a field that only T has is empty in the others: compare
// r.Kind.Version, or convert with [Request.Convert]. A rule that must hold in whatever version an object
// is written belongs to Rules of package registry, which are asked about the stored form.
//
// What f changes in obj is changed in the object. Everything else stays as it was sent, unknown
// fields included.
func TypedMutator[T any](f func(ctx context.Context, r *Request, obj *T) error) Mutator {
	if f == nil {
		return nil // which is reported when the plugin is given to a server
	}
	return MutatorFunc(func(ctx context.Context, r *Request) (map[string]any, error) {
		if r.Object == nil {
			return nil, nil
		}
		return typed.Change(r.Object, func(obj *T) error { return f(ctx, r, obj) })
	})
}

// TypedValidator makes a Validator of a function on Go structs, as TypedMutator makes a Mutator. obj is nil
// when an object is deleted, old is nil when one is created.
func TypedValidator[T any](f func(ctx context.Context, r *Request, obj, old *T) error) Validator {
	if f == nil {
		return nil
	}
	return ValidatorFunc(func(ctx context.Context, r *Request) error {
		obj, err := typed.Optional[T](r.Object)
		if err != nil {
			return err
		}
		old, err := typed.Optional[T](r.OldObject)
		if err != nil {
			return err
		}
		return f(ctx, r, obj, old)
	})
}
