package registry

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// Conversion makes a resource another served form of objects that are stored in the form of Resource: another version, or
// the same objects under another group (VER-15, EVT-36). Reads convert from the stored form; writes walk all steps in the
// form they came in and are converted when they are encoded.
//
// The functions are given trees without resourceVersion and must not change them. Going there and back must lose nothing.
// Metadata are the same in every form: whatever the functions make of them is replaced by the original.
type Conversion struct {
	Resource *Resource
	To, From func(Tree) (Tree, error) // to and from the stored form

	// Fields names, for each selectable field of this form, the field of the stored form that it is.
	Fields map[string]string
}

// A Form is a further served form of a Kind; see As.
type Form interface {
	resource(stored *Resource, structure reflect.Type) (*Resource, error)
}

// As serves the objects of a Kind[T] in the form of k as well. to and from convert; fields names for each selectable field
// of V the one of T that it is, where they are not called the same. Storage, deletion and subresources are those of the stored kind; names, schema, columns and
// rules are k's.
func As[V, T any](k Kind[V], to func(*V) (*T, error), from func(*T) (*V, error), fields map[string]string) Form {
	return typedForm[V, T]{k, to, from, fields}
}

type typedForm[V, T any] struct {
	kind   Kind[V]
	to     func(*V) (*T, error)
	from   func(*T) (*V, error)
	fields map[string]string
}

func (f typedForm[V, T]) resource(stored *Resource, structure reflect.Type) (*Resource, error) {
	k := f.kind
	if t := reflect.TypeFor[T](); t != structure {
		return nil, fmt.Errorf("kind of Go type %s: As converts to and from %s, but what is stored is %s", reflect.TypeFor[V](), t, structure)
	}
	if f.to == nil || f.from == nil {
		return nil, fmt.Errorf("kind of Go type %s: As needs a function for each direction", reflect.TypeFor[V]())
	}
	k.StorageName, k.ClusterScoped, k.NameRule, k.Deletion = stored.StorageName, stored.ClusterScoped, stored.NameRule, stored.Deletion
	r, err := k.describe()
	if err != nil {
		return nil, err
	}
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

// convertTyped makes a function on trees of one on structs. A panic in it is an error.
func convertTyped[A, B any](convert func(*A) (*B, error)) func(Tree) (Tree, error) {
	return func(t Tree) (out Tree, err error) {
		defer func() {
			if v := recover(); v != nil {
				out, err = nil, fmt.Errorf("the conversion from %T panicked: %v", *new(A), v)
			}
		}()
		a, err := decodeTyped[A](t)
		if err != nil {
			return nil, err
		}
		b, err := convert(a)
		if err != nil {
			return nil, err
		}
		return encodeTyped(b)
	}
}

// convertTo converts one object and gives it the kind of its new form.
func convertTo(convert func(Tree) (Tree, error), to *Resource, t Tree) (Tree, error) {
	out, err := convert(t)
	if err != nil {
		return nil, err
	}
	out = with(with(out, to.APIVersion(), "apiVersion"), to.Names.Kind, "kind")
	out = with(out, t["metadata"], "metadata")
	canonical, problems := to.Schema.Canonical(out)
	if len(problems) > 0 {
		return nil, fmt.Errorf("the conversion to %s made an object its schema refuses: %s", to.GroupResource(), problems[0].Message())
	}
	return canonical, nil
}

// fromStored returns a stored object in the form of r.
func (r *Resource) fromStored(t Tree) (Tree, error) {
	if r.Stored == nil || t == nil {
		return t, nil
	}
	out, err := convertTo(r.Stored.From, r, t)
	if err != nil {
		return nil, status.Internal(fmt.Errorf("convert %s from the stored form: %w", r.GroupResource(), err))
	}
	return out, nil
}

// toStored returns an object in the form of r as it is stored.
func (r *Resource) toStored(t Tree) (Tree, error) {
	if r.Stored == nil {
		return t, nil
	}
	out, err := convertTo(r.Stored.To, r.Stored.Resource, t)
	if err != nil {
		return nil, status.Internal(fmt.Errorf("convert %s to the stored form: %w", r.GroupResource(), err))
	}
	return out, nil
}

// base returns the stored form of a resource: itself, unless it is another form.
func (r *Resource) base() *Resource {
	if r.Stored != nil {
		return r.Stored.Resource
	}
	return r
}

// Show returns an object of the live view or of its log in the form of s: the entry itself, unless s is another form of what
// is stored. Converted entries are shared by all readers, within the budget of all shapes.
func (s *Served) Show(e *watch.Entry) (*watch.Entry, error) {
	if s.Resource.Stored == nil {
		return e, nil
	}
	v, err := s.shelf.get(e, converted, func() (shapeValue, error) {
		out, err := s.convert(e)
		return shapeValue{entry: out}, err
	})
	return v.entry, err
}

func (s *Served) convert(e *watch.Entry) (*watch.Entry, error) {
	body := e.Body()
	t, err := decodeObject(append(append([]byte(nil), body.Prefix...), body.Suffix...))
	if err != nil {
		return nil, status.Internal(fmt.Errorf("decode %s: %w", e.Key(), err))
	}
	if t, err = s.Resource.fromStored(t); err != nil {
		return nil, err
	}
	object, err := json.AppendTree(nil, t)
	if err != nil {
		return nil, status.Internal(err)
	}
	m, err := json.ScanMetadata(object)
	if err != nil {
		return nil, status.Internal(err)
	}
	return watch.NewEntry(e.Key(), e.Revision(), bodyOf(object, &m), e.Facts()), nil
}

// storedFields rewrites a field selector in terms of the stored form.
func (s *Served) storedFields(f meta.FieldSelector) (meta.FieldSelector, error) {
	if s.Resource.Stored == nil || f.Empty() {
		return f, nil
	}
	requirements := f.Requirements()
	for i := range requirements {
		if name, ok := s.Resource.Stored.Fields[requirements[i].Field]; ok {
			requirements[i].Field = name
		}
	}
	out, err := meta.NewFieldSelector(requirements...)
	if err != nil {
		return out, status.Internal(err)
	}
	return out, nil
}

// shown makes the result of a write one in the form the write came in.
func (s *Served) shown(r *Result, err error) (*Result, error) {
	if err != nil || r.Entry == nil || s.Resource.Stored == nil {
		return r, err
	}
	out := *r
	out.Entry, err = s.convert(r.Entry)
	return &out, err
}
