package registry

import (
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
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
	To, From func(Tree) (Tree, error) // to and from the stored form

	// Fields names, for each selectable field of this form, the field of the stored form that it is.
	Fields map[string]string
}

// A Form is a further served form of a Kind; see As.
type Form interface {
	resource(types *Types, stored *Resource, structure reflect.Type) (*Resource, error)
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

func (f typedForm[V, T]) resource(types *Types, stored *Resource, structure reflect.Type) (*Resource, error) {
	k := f.kind
	if t := reflect.TypeFor[T](); t != structure {
		return nil, fmt.Errorf("kind of Go type %s: As converts to and from %s, but what is stored is %s", reflect.TypeFor[V](), t, structure)
	}
	if f.to == nil || f.from == nil {
		return nil, fmt.Errorf("kind of Go type %s: As needs a function for each direction", reflect.TypeFor[V]())
	}
	k.StorageName, k.ClusterScoped, k.NameRule, k.Deletion = stored.StorageName, stored.ClusterScoped, stored.NameRule, stored.Deletion
	if reflect.ValueOf(k.Writes).IsZero() {
		k.Writes = stored.Writes
	}
	r, err := k.describe(types)
	if err != nil {
		return nil, err
	}
	r.Stored = &Conversion{Resource: stored, To: convertTyped(f.to), From: convertTyped(f.from), Fields: f.fields}
	r.inherit(stored)
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
	case stored.structure == nil:
		return nil, fmt.Errorf("kind %s (%s): it was not made of a Go struct; describe the other form as a Resource with a Conversion", stored.Names.Kind, stored.APIVersion())
	}
	return f.resource(&Types{}, stored, stored.structure)
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
func convertTyped[A, B any](convert func(*A) (*B, error)) func(Tree) (Tree, error) {
	return func(t Tree) (Tree, error) {
		a, err := decodeTyped[A](t)
		if err != nil {
			return nil, err
		}
		b, err := convert(a)
		if err != nil {
			return nil, err
		}
		if b == nil {
			return nil, nil // which is reported as for every conversion
		}
		return encodeTyped(b)
	}
}

// guarded runs a conversion. A panic in it is an error that tells where.
func guarded(convert func(Tree) (Tree, error), t Tree) (out Tree, err error) {
	defer func() {
		if v := recover(); v != nil {
			out, err = nil, fmt.Errorf("the conversion panicked: %v\n%s", v, debug.Stack())
		}
	}()
	return convert(t)
}

// convertTo converts one object and gives it the kind of its new form, the metadata it had, and the shape that its schema asks
// for.
func convertTo(convert func(Tree) (Tree, error), to *Resource, t Tree) (Tree, error) {
	out, err := guarded(convert, t)
	if err != nil {
		return nil, err
	}
	if out == nil {
		return nil, errors.New("the conversion returned nothing")
	}
	out = tree.With(tree.With(out, to.APIVersion(), "apiVersion"), to.Names.Kind, "kind")
	out = tree.With(out, t["metadata"], "metadata")
	out, _ = to.Schema.Prune(out)
	canonical, problems := to.Schema.Canonical(out)
	if len(problems) > 0 {
		return nil, fmt.Errorf("the conversion to %s made an object its schema refuses: %s", to.GroupVersionKind(), problems[0].Message())
	}
	return canonical, nil
}

// Convert returns an object of r in another form of the same objects, such as that of another version, as a request for that one
// would show it. It changes nothing and checks no rules; an error is as a client would get it, and unwraps to its cause.
func (r *Resource) Convert(t Tree, to *Resource) (Tree, error) {
	if r.base() != to.base() {
		return nil, status.Internal(fmt.Errorf("%s and %s are not forms of the same objects", r.GroupVersionKind(), to.GroupVersionKind()))
	}
	if r == to {
		return t, nil
	}
	stored, err := r.toStored(t)
	if err != nil {
		return nil, err
	}
	return to.fromStored(to.base().Schema.Default(stored))
}

// fromStored returns a stored object in the form of r.
func (r *Resource) fromStored(t Tree) (Tree, error) {
	if r.Stored == nil || t == nil {
		return t, nil
	}
	out, err := convertTo(r.Stored.From, r, t)
	if err != nil {
		return nil, r.unconverted(t, "cannot be shown as "+r.APIVersion(), err)
	}
	return out, nil
}

// toStored returns an object in the form of r as it is stored. Where the object is a client's, so may the error be.
func (r *Resource) toStored(t Tree) (Tree, error) {
	if r.Stored == nil {
		return t, nil
	}
	out, err := convertTo(r.Stored.To, r.Stored.Resource, t)
	if err == nil {
		return out, nil
	}
	if known, ok := errors.AsType[*status.Error](err); ok {
		return nil, known
	}
	return nil, r.unconverted(t, "cannot be stored as "+r.base().APIVersion(), err)
}

// unconverted says which object a conversion failed for. Why, only the log tells.
func (r *Resource) unconverted(t Tree, what string, cause error) error {
	name := nameOf(t)
	return status.Internal(fmt.Errorf("%s %q %s: %w", r.GroupResource(), name, what, cause)).
		WithMessage(fmt.Sprintf("Internal error occurred: %s %q %s; the server's log has the cause", r.GroupResource(), cut(name), what))
}

// nameOf is what people call an object: its namespace, if it has one, and its name.
func nameOf(t Tree) string {
	return strings.TrimPrefix(tree.Text(t, "metadata", "namespace")+"/"+tree.Text(t, "metadata", "name"), "/")
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

// ShowOnce is Show for who keeps what is made of the entry, and not the entry.
func (s *Served) ShowOnce(e *watch.Entry) (*watch.Entry, error) {
	if s.Resource.Stored == nil {
		return e, nil
	}
	return s.convert(e)
}

func (s *Served) convert(e *watch.Entry) (*watch.Entry, error) {
	body := e.Body()
	t, err := decodeObject(append(append(make([]byte, 0, e.Length()), body.Prefix...), body.Suffix...))
	if err != nil {
		return nil, status.Internal(fmt.Errorf("decode %s: %w", e.Key(), err))
	}
	if t, err = s.Resource.fromStored(t); err != nil {
		s.broken.note(e, err)
		return nil, err
	}
	object, err := json.AppendTree(make([]byte, 0, e.Length()), t)
	if err != nil {
		return nil, status.Internal(err)
	}
	m, err := json.ScanMetadata(object)
	if err != nil {
		return nil, status.Internal(err)
	}
	return watch.NewEntry(e.Key(), e.Revision(), bodyOf(object, &m), e.Facts()), nil
}

// broken remembers objects that could not be converted, so that the next list which would come to one says so before it sends
// anything.
type broken struct {
	mu    sync.Mutex
	known map[string]brokenObject
}

type brokenObject struct {
	rev storage.Revision
	err error
}

// maxBroken bounds how many are remembered; any of them ends a list.
const maxBroken = 64

func (b *broken) note(e *watch.Entry, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil {
		b.known = map[string]brokenObject{}
	}
	if _, ok := b.known[e.Key()]; ok || len(b.known) < maxBroken {
		b.known[e.Key()] = brokenObject{e.Revision(), err}
	}
}

// among returns why an object cannot be converted that a list is about to come to, nil if there is none. The list is of what
// comes after one key, up to another, or to its end if that is "".
func (b *broken) among(found selection, after, last string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, o := range b.known {
		if !strings.HasPrefix(key, found.filter.KeyPrefix(found.storageName)) || key <= after || last != "" && key > last {
			continue
		}
		known := false
		for e := range found.snap.Ascend(key, "") {
			known = e.Revision() <= o.rev
			if e.Revision() == o.rev && found.filter.Matches(e) {
				return o.err
			}
		}
		if !known {
			delete(b.known, key)
		}
	}
	return nil
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
