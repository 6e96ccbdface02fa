package registry

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/kindwright/kindwright/internal/typed"
)

// Conversion makes a resource another served form of objects that are stored in the form of
// Resource: another version, or the same objects under another group. Reads convert from the stored
// form; writes walk all steps in the form they came in and are converted when they are encoded.
//
// The functions must not change the trees they are given. Metadata are the same in every form: whatever the functions make of
// them is replaced by the original. A *status.Error of To is sent to the client whose object cannot be stored; any other error,
// a panic, and every failure of From is a 500 whose cause only the log has.
//
// Going there and back should lose nothing, which apitest.RoundTrip proves. Where it does, nothing that is stored is lost all the same:
// a write through a form changes in the stored object what it changes in the form, and leaves what the form cannot say. What
// the stored form cannot say is refused with 422 and its path, and a value that comes back as another is warned of.
//
// Where Resource has a [Converter], that converts, and the rules of Converter hold. To, From and Fields are not used then.
// Source: VER-15, EVT-36.
type Conversion struct {
	Resource *Resource

	// To and From convert to and from the stored form: as many objects as they are given, in the same order. The context ends
	// with the request, or with the work, that needs them.
	To, From func(ctx context.Context, objects []Tree) ([]Tree, error)

	// Fields names, for each selectable field of this form, the field of the stored form that it is.
	Fields map[string]string
}

// Converter converts objects of all forms of a kind to the form with the API version to, straight from the version that each is
// in. It returns as many objects as it is given, in the same order, and does not change the trees. The context ends with the
// request, or with the work, that needs them.
//
// A kind whose stored form has a Converter follows the rules of Kubernetes' custom resources instead of those of Conversion:
//
//   - A version loses silently what it cannot say. Objects are pruned, converted and pruned again. No write is refused for it,
//     and none keeps what its version does not show.
//   - A record stays in the version that it was written in until somebody writes to the object, even if that changes nothing.
//     Nothing is migrated.
//   - A read fills in the defaults of the version that a record is in, and no others.
//   - The rules, the subresources and the selectable fields of each form are its own.
//   - The Converter decides about metadata.labels and metadata.annotations. The rest of metadata stays as it was.
//   - Clients see the text of its errors. An error of type *status.Error is the answer.
//   - A replacement of the kind may store another version.
//   - A form that is not served and not stored is read, if a record is in it, and never made.
//
// Source: VER-15.
type Converter func(ctx context.Context, to string, objects []Tree) ([]Tree, error)

// A Form is a further served form of a Kind; see As.
type Form interface {
	resource(env Env, stored *Resource) (*Resource, error)
}

// As serves the objects of a Kind[T] in a further version, which k describes. to converts to the
// stored form, and from converts back. fields maps a selectable field of V to the field of T with
// another name that it stands for; nil if all have the same names.
//
// Names, schema and columns are those of k. Storage and deletion are those of the stored kind. k
// inherits the subresources of the stored kind, except those that it defines itself. Where k has no
// Validate, ValidateUpdate or BeforeDelete, the stored kind's is asked about the stored form instead;
// where k has no Writes, the stored kind's apply. Admission plugins are given the version that the
// client has written.
//
// Metadata need no conversion. If to cannot convert what a client has sent, it returns a
// *status.Error, such as status.BadRequest(…). Any other error of to, and every error of from, is a
// 500. See [Conversion] for more. apitest.RoundTrip proves that nothing is lost on the way there and
// back.
func As[V, T any](k Kind[V], to func(*V) (*T, error), from func(*T) (*V, error), fields map[string]string) Form {
	return typedForm[V, T]{k, to, from, fields}
}

type typedForm[V, T any] struct {
	kind   Kind[V]
	to     func(*V) (*T, error)
	from   func(*T) (*V, error)
	fields map[string]string
}

func (f typedForm[V, T]) resource(env Env, stored *Resource) (*Resource, error) {
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
	r, err := k.describe(env)
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
		a, err := typed.Decode[A](t)
		if err != nil {
			return nil, err
		}
		b, err := convert(a)
		if err != nil || b == nil { // nil is reported as for every conversion
			return nil, err
		}
		return typed.Encode(b)
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
