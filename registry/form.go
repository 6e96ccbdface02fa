package registry

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"

	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/status"
)

// Conversion makes a resource another served form of objects that are stored in the form of Resource: another version, or
// the same objects under another group (VER-15, EVT-36). Reads convert from the stored form; writes walk all steps in the
// form they came in and are converted when they are encoded.
//
// The functions must not change the trees they are given. Metadata are the same in every form: whatever the functions make of
// them is replaced by the original. A *status.Error of To is sent to the client whose object cannot be stored; any other error,
// a panic, and every failure of From is a 500 whose cause only the log has.
//
// Going there and back should lose nothing, which apitest.RoundTrip proves. Where it does, nothing that is stored is lost all the same:
// a write through a form changes in the stored object what it changes in the form, and leaves what the form cannot say. What
// the stored form cannot say is refused with 422 and its path, and a value that comes back as another is warned of.
type Conversion struct {
	Resource *Resource

	// To and From convert to and from the stored form: as many objects as they are given, in the same order. The context ends
	// with the request, or with the work, that needs them.
	To, From func(ctx context.Context, objects []Tree) ([]Tree, error)

	// Fields names, for each selectable field of this form, the field of the stored form that it is.
	Fields map[string]string
}

// A Form is a further served form of a Kind; see As.
type Form interface {
	resource(types *Types, stored *Resource) (*Resource, error)
}

// As serves the objects of a Kind[T] in the form of k as well. to and from convert; fields names for each selectable field
// of V the one of T that it is, where they are not called the same. Storage and deletion are those of the stored kind; names,
// schema and columns are k's, subresources k's and those of the stored kind that k has none of the same name for, and rules k's:
// where k has no Validate, ValidateUpdate or BeforeDelete, that of the stored kind is asked about the stored form instead. Where
// it has no Writes, the stored kind's count.
//
// Metadata need no conversion. What a client has sent and to cannot convert is refused with a *status.Error, such as
// status.BadRequest(…); any other error of to is a 500, and so is every error of from. Conversion says more, and
// apitest.RoundTrip proves that nothing is lost on the way there and back.
func As[V, T any](k Kind[V], to func(*V) (*T, error), from func(*T) (*V, error), fields map[string]string) Form {
	return typedForm[V, T]{k, to, from, fields}
}

type typedForm[V, T any] struct {
	kind   Kind[V]
	to     func(*V) (*T, error)
	from   func(*T) (*V, error)
	fields map[string]string
}

func (f typedForm[V, T]) resource(types *Types, stored *Resource) (*Resource, error) {
	k := f.kind
	if t := reflect.TypeFor[T](); t != stored.Type {
		return nil, fmt.Errorf("kind of Go type %s: As converts to and from %s, but what is stored is %s", reflect.TypeFor[V](), t, stored.Type)
	}
	if f.to == nil || f.from == nil {
		return nil, fmt.Errorf("kind of Go type %s: As needs a function for each direction", reflect.TypeFor[V]())
	}
	k.StorageName, k.Rules.Name, k.Deletion, k.Scope = stored.StorageName, stored.NameRule, stored.Deletion, Namespaced
	if stored.ClusterScoped {
		k.Scope = ClusterScoped
	}
	if reflect.ValueOf(k.Writes).IsZero() {
		k.Writes = stored.Writes
	}
	r, err := k.describe(types)
	if err != nil {
		return nil, err
	}
	r.Hooks.Grace, r.Hooks.Mark, r.Hooks.Held = stored.Hooks.Grace, stored.Hooks.Mark, stored.Hooks.Held
	r.Stored = &Conversion{Resource: stored, To: convertTyped(f.to), From: convertTyped(f.from), Fields: f.fields}
	if why := unknownFields(r, stored, f.fields); why != "" {
		return nil, fmt.Errorf("kind %s (%s): As: %s", r.Names.Kind, r.APIVersion(), why)
	}
	return r, r.complete()
}

// FormOf describes a further form of a resource that is served already, to be given to Engine.Install: a version that is added
// while the server runs. stored is the resource as Set.Lookup or Set.Stored finds it, or as Kind.Resource has made it, and the form is
// made by As for its Go type.
func FormOf(stored *Resource, f Form) (*Resource, error) {
	switch {
	case stored == nil || f == nil:
		return nil, errors.New("FormOf needs a resource and a form of it")
	case stored.Type == nil:
		return nil, fmt.Errorf("kind %s (%s): it was not made of a Go struct; describe the other form as a Resource with a Conversion", stored.Names.Kind, stored.APIVersion())
	}
	return f.resource(&Types{}, stored)
}

// unknownFields finds a selectable field of a form that is none of the stored form.
func unknownFields(r, stored *Resource, fields map[string]string) string {
	for _, name := range r.Selectable {
		of, mapped := fields[name]
		if !mapped {
			of = name
		}
		if !slices.Contains(stored.Selectable, of) && of != "metadata.name" && of != "metadata.namespace" {
			return fmt.Sprintf("the selectable field %q is %q in what is stored, which is not selectable", name, of)
		}
	}
	return ""
}

// convertTyped makes a function on trees of one on structs.
func convertTyped[A, B any](convert func(*A) (*B, error)) func(context.Context, []Tree) ([]Tree, error) {
	one := func(t Tree) (Tree, error) {
		a, err := decodeTyped[A](t)
		if err != nil {
			return nil, err
		}
		b, err := convert(a)
		if err != nil || b == nil { // nil is reported as for every conversion
			return nil, err
		}
		return encodeTyped(b)
	}
	return func(ctx context.Context, objects []Tree) ([]Tree, error) {
		out := make([]Tree, len(objects))
		for i, t := range objects {
			var err error
			if i > 0 {
				err = ctx.Err() // nobody may want the rest any more
			}
			if err == nil {
				out[i], err = one(t)
			}
			if err != nil {
				return nil, err
			}
		}
		return out, nil
	}
}

// conversion is one direction of a Conversion.
type conversion func(ctx context.Context, objects []Tree) ([]Tree, error)

// guarded runs a conversion once. A panic in it is an error that tells where.
func (convert conversion) guarded(ctx context.Context, objects []Tree) (out []Tree, err error) {
	defer func() {
		if v := recover(); v != nil {
			out, err = nil, fmt.Errorf("the conversion panicked: %v\n%s", v, debug.Stack())
		}
	}()
	out, err = convert(ctx, objects)
	switch {
	case err != nil:
		return nil, err
	case len(out) != len(objects):
		return nil, fmt.Errorf("the conversion of %d objects returned %d", len(objects), len(out))
	case slices.ContainsFunc(out, func(t Tree) bool { return t == nil }):
		return nil, errors.New("the conversion returned nothing")
	}
	return out, nil
}

// to converts objects in one call. It gives each the kind of its new form, the metadata it had, and the
// shape that its schema asks for.
func (convert conversion) to(ctx context.Context, to *Resource, objects []Tree) ([]Tree, error) {
	made, err := convert.guarded(ctx, objects)
	if err != nil {
		return nil, err
	}
	out := make([]Tree, len(made))
	for i := range made {
		if out[i], err = to.adopt(made[i], objects[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// adopt makes what a conversion returned for an object an object of this form.
func (r *Resource) adopt(out, t Tree) (Tree, error) {
	out = tree.With(tree.With(out, r.APIVersion(), "apiVersion"), r.Names.Kind, "kind")
	out = tree.With(out, t["metadata"], "metadata")
	out, _ = r.Schema.Prune(out)
	canonical, problems := r.Schema.Canonical(out)
	if len(problems) > 0 {
		return nil, fmt.Errorf("the conversion to %s made an object its schema refuses: %s", r.GroupVersionKind(), problems[0].Message())
	}
	return canonical, nil
}

// FromStored returns an object that is in the stored form in the form of r: the object itself where that is the stored form. It
// changes nothing and checks no rules. An error is as a client would get it, and unwraps to its cause.
func (r *Resource) FromStored(ctx context.Context, t Tree) (Tree, error) {
	if r.Stored == nil || t == nil {
		return t, nil
	}
	out, err := r.AllFromStored(ctx, []Tree{t})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// AllFromStored is FromStored for many objects, in one call of the conversion. The error names the first
// of them, whichever it is about.
func (r *Resource) AllFromStored(ctx context.Context, objects []Tree) ([]Tree, error) {
	out, err := conversion(r.Stored.From).to(ctx, r, objects)
	if err != nil {
		return nil, r.unconverted(objects[0], "cannot be shown as "+r.APIVersion(), err)
	}
	return out, nil
}

// ToStored returns an object that is in the form of r in the stored form. It is the other direction of FromStored. Where the
// object is a client's, so may the error be.
func (r *Resource) ToStored(ctx context.Context, t Tree) (Tree, error) {
	if r.Stored == nil {
		return t, nil
	}
	out, err := conversion(r.Stored.To).to(ctx, r.Stored.Resource, []Tree{t})
	if err == nil {
		return out[0], nil
	}
	if known, ok := errors.AsType[*status.Error](err); ok {
		return nil, known
	}
	return nil, r.unconverted(t, "cannot be stored as "+r.base().APIVersion(), err)
}

// RecordsToStored brings records that were written in the form of r to the stored form, in one call of
// the conversion. An error is the server's own: what is wrong was stored, and no client has sent it.
func (r *Resource) RecordsToStored(ctx context.Context, objects []Tree) ([]Tree, error) {
	stored := r.Stored.Resource
	out, err := conversion(r.Stored.To).to(ctx, stored, objects)
	if err != nil {
		return nil, r.unconverted(objects[0], "cannot be shown as "+stored.APIVersion(), err)
	}
	for i := range out {
		out[i] = stored.Schema.Default(out[i])
	}
	return out, nil
}

// unconverted says which object a conversion failed for. Why, only the log tells.
func (r *Resource) unconverted(t Tree, what string, cause error) error {
	name := tree.NameOf(t)
	return status.Internal(fmt.Errorf("%s %q %s: %w", r.GroupResource(), name, what, cause)).
		WithMessage(fmt.Sprintf("Internal error occurred: %s %q %s; the server's log has the cause", r.GroupResource(), tree.Cut(name), what))
}

// base returns the stored form of a resource: itself, unless it is another form.
func (r *Resource) base() *Resource {
	if r.Stored != nil {
		return r.Stored.Resource
	}
	return r
}
