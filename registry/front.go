package registry

import (
	"context"
	"fmt"
	"iter"
	"reflect"

	"github.com/kindwright/kindwright/internal/typed"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Front reads and writes the objects of one kind as *T, inside the server's process. For and From make
// one. T is the Go type of a kind, in its stored or in another version; errors name a T that no kind
// or more than one kind has.
//
// Requests are not authorized: whoever holds a Front may do everything. The user of the context is who
// admission plugins see; AsSystem makes it the server itself. Objects that are returned are copies and
// belong to the caller. Errors are *status.Error, as over HTTP. A Front is a value: its methods do not
// change it, and all are safe for concurrent use.
type Front[T any] struct {
	objects     Objects
	resource    meta.GroupVersionResource
	subresource string
	options     WriteOptions
	system      bool
	wrong       error // what every call returns
}

// For returns the objects of the kind of T in the server that ctx belongs to. ctx is one that the
// server has given to a rule, a subresource or an admission plugin:
//
//	room, err := registry.For[Room](ctx).Get(ctx, booking.Namespace, booking.Spec.Room)
func For[T any](ctx context.Context) Front[T] {
	o, ok := hookcontext.Objects(ctx).(Objects)
	if !ok {
		return Front[T]{wrong: errNoObjects}
	}
	return From[T](o)
}

// From returns the objects of the kind of T in a server, for code that is not called by it:
//
//	rooms := registry.From[Room](srv.Engine())
//
// It may be made before the server has started, and used afterwards.
func From[T any](o Objects) Front[T] {
	if o == nil {
		return Front[T]{wrong: errNilObjects}
	}
	f := Front[T]{objects: o}
	f.resource, f.wrong = resourceOf(o, reflect.TypeFor[T]())
	return f
}

// AsSystem returns a Front whose writes are the server's own and not those of the user in the context.
func (f Front[T]) AsSystem() Front[T] { f.system = true; return f }

// Sub returns a Front that updates and patches objects through a subresource such as "status".
func (f Front[T]) Sub(name string) Front[T] { f.subresource = name; return f }

// With returns a Front that writes with options.
func (f Front[T]) With(o WriteOptions) Front[T] { f.options = o; return f }

// begin prepares a call.
func (f *Front[T]) begin(ctx context.Context, namespace, name string) (context.Context, Target, error) {
	if ctx == nil {
		return ctx, Target{}, errNilContext
	}
	if f.wrong != nil && f.objects != nil {
		f.resource, f.wrong = resourceOf(f.objects, reflect.TypeFor[T]()) // the kind may have come since
	}
	if f.system {
		ctx = authn.WithUser(ctx, serverUser)
	}
	return ctx, Target{Resource: f.resource, Subresource: f.subresource, Namespace: namespace, Name: name}, f.wrong
}

// Get reads the newest state of an object. The namespace of a cluster-scoped kind is "". An absent
// object is status.IsNotFound.
func (f Front[T]) Get(ctx context.Context, namespace, name string) (*T, error) {
	ctx, t, err := f.begin(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	t.Subresource = ""
	entry, err := f.objects.Get(ctx, t, ListRequest{})
	if err != nil {
		return nil, err
	}
	return decodeEntry[T](entry)
}

// List walks over the objects of a namespace, or of all namespaces for "", in the order of their names.
// It shows one moment, whatever is written during the walk. An error ends the walk.
func (f Front[T]) List(ctx context.Context, namespace string, lr ListRequest) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		ctx, t, err := f.begin(ctx, namespace, "")
		if err != nil {
			yield(nil, err)
			return
		}
		list, err := f.objects.List(ctx, t, lr)
		if err != nil {
			yield(nil, err)
			return
		}
		for entry, err := range list.Items {
			var obj *T
			if err == nil {
				obj, err = decodeEntry[T](entry)
			}
			if !yield(obj, err) || err != nil {
				return
			}
		}
	}
}

// Event is one event of Front.Watch.
type Event[T any] struct {
	// Type is meta.Added, meta.Modified or meta.Deleted; or meta.Bookmark, once, when the objects that
	// existed at the start have all been shown.
	Type meta.EventType

	// Object is the object after the change, the last state of a deleted one, and nil in a bookmark.
	Object *T
}

// Watch follows the objects of a namespace, or of all namespaces for "". It begins with those that
// exist, as additions, unless the request says otherwise. It goes on until the caller breaks, or ends
// with an error: that of the context, or one of which watch.Expired is true for a caller that is too slow.
func (f Front[T]) Watch(ctx context.Context, namespace string, wr WatchRequest) iter.Seq2[Event[T], error] {
	return func(yield func(Event[T], error) bool) {
		ctx, t, err := f.begin(ctx, namespace, "")
		if err != nil {
			yield(Event[T]{}, err)
			return
		}
		for event, err := range f.objects.Watch(ctx, t, wr) {
			out := Event[T]{Type: event.Type}
			if err == nil && event.Entry != nil {
				out.Object, err = decodeEntry[T](event.Entry)
			}
			if !yield(out, err) || err != nil {
				return
			}
		}
	}
}

// Create stores a new object, in the namespace that its metadata name, and returns it as it was stored.
func (f Front[T]) Create(ctx context.Context, obj *T) (*T, error) {
	return f.send(ctx, obj, func(ctx context.Context, t Target, body []byte) (*Result, error) {
		t.Name = ""
		return f.objects.Create(ctx, t, body, f.options)
	})
}

// Update replaces an object and returns it as it is stored then. If the object has changed since obj
// was read, the error is status.IsConflict. What T does not know of the object is lost; Modify keeps
// it.
func (f Front[T]) Update(ctx context.Context, obj *T) (*T, error) {
	return f.send(ctx, obj, func(ctx context.Context, t Target, body []byte) (*Result, error) {
		return f.objects.Update(ctx, t, body, f.options)
	})
}

// Apply is a server-side apply of obj, for the field manager that With must name. A T for it leaves
// out what it does not want to own: its fields have omitempty or omitzero.
func (f Front[T]) Apply(ctx context.Context, obj *T) (*T, error) {
	return f.send(ctx, obj, func(ctx context.Context, t Target, body []byte) (*Result, error) {
		return f.objects.Patch(ctx, t, PatchRequest{Type: meta.ApplyPatch, Body: body}, f.options)
	})
}

// send writes an object to the place that its metadata name.
func (f *Front[T]) send(ctx context.Context, obj *T, write func(context.Context, Target, []byte) (*Result, error)) (*T, error) {
	if obj == nil {
		return nil, fmt.Errorf("registry: the %T to write is nil", obj)
	}
	object, err := typed.Encode(obj)
	if err != nil {
		return nil, err
	}
	ctx, t, err := f.begin(ctx, tree.Text(object, "metadata", "namespace"), tree.Text(object, "metadata", "name"))
	if err != nil {
		return nil, err
	}
	return f.written(ctx, t, object, write)
}

// written writes a tree and returns what is stored then.
func (f *Front[T]) written(ctx context.Context, t Target, object Tree, write func(context.Context, Target, []byte) (*Result, error)) (*T, error) {
	body, err := json.AppendTree(nil, object)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", new(T), err)
	}
	result, err := write(ctx, t, body)
	if err != nil {
		return nil, err
	}
	return decodeResult[T](result)
}

// Patch changes an object without reading it first and returns it as it is stored then. The patch is
// applied to the newest state.
func (f Front[T]) Patch(ctx context.Context, namespace, name string, p PatchRequest) (*T, error) {
	ctx, t, err := f.begin(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	result, err := f.objects.Patch(ctx, t, p, f.options)
	if err != nil {
		return nil, err
	}
	return decodeResult[T](result)
}

// Modify reads an object, lets change change it, and writes it. If the object has changed meanwhile,
// it starts again with the new state, so change may be called several times and should decide by what
// it is given. Modify repeats until it succeeds or ctx ends: each repetition means that another write
// succeeded.
//
// An error of change ends it and is returned as it is. If change changes nothing, nothing is written.
// Fields that T does not know stay as they are. It returns the object as it is stored then.
func (f Front[T]) Modify(ctx context.Context, namespace, name string, change func(obj *T) error) (*T, error) {
	ctx, t, err := f.begin(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	if change == nil {
		return nil, errNilChange
	}
	read := t
	read.Subresource = ""
	var refused error
	for tried := storage.Revision(0); ; {
		entry, err := f.objects.Get(ctx, read, ListRequest{})
		if err != nil {
			return nil, err
		}
		if entry.Revision() == tried {
			return nil, refused // the conflict is not with another write: a rule or a plugin says it
		}
		obj, err := f.modify(ctx, t, entry, change)
		if !status.IsConflict(err) {
			return obj, err
		}
		tried, refused = entry.Revision(), err
	}
}

// modify is one try of Modify.
func (f *Front[T]) modify(ctx context.Context, t Target, entry *watch.Entry, change func(obj *T) error) (*T, error) {
	v, err := json.DecodeTree(entry.AppendJSON(make([]byte, 0, entry.Length())), json.TreeOptions{})
	if err != nil {
		return nil, err
	}
	object, _ := v.(map[string]any)
	var obj *T
	next, changed, err := typed.Changed(object, func(o *T) error { obj = o; return change(o) })
	switch {
	case err != nil:
		return nil, err
	case !changed:
		return obj, nil
	}
	return f.written(ctx, t, next, func(ctx context.Context, t Target, body []byte) (*Result, error) {
		return f.objects.Update(ctx, t, body, f.options)
	})
}

// Delete deletes an object. It returns when the deletion is accepted: an object with finalizers, or
// with a grace period, still exists then.
func (f Front[T]) Delete(ctx context.Context, namespace, name string, o DeleteOptions) error {
	ctx, t, err := f.begin(ctx, namespace, name)
	if err != nil {
		return err
	}
	_, err = f.objects.Delete(ctx, t, o)
	return err
}

// DeleteCollection deletes the objects of a namespace that a request selects. The namespace of a
// cluster-scoped kind is "". It returns how many were deleted or marked for deletion.
func (f Front[T]) DeleteCollection(ctx context.Context, namespace string, lr ListRequest, o DeleteOptions) (int, error) {
	ctx, t, err := f.begin(ctx, namespace, "")
	if err != nil {
		return 0, err
	}
	return f.objects.DeleteCollection(ctx, t, lr, o)
}

// decodeEntry reads an object of the live view into its Go type.
func decodeEntry[T any](entry *watch.Entry) (*T, error) {
	return decodeJSON[T](entry.AppendJSON(make([]byte, 0, entry.Length())))
}

// decodeResult reads what a write came to.
func decodeResult[T any](r *Result) (*T, error) {
	if r.Entry == nil {
		return decodeJSON[T](r.Document)
	}
	return decodeEntry[T](r.Entry)
}

func decodeJSON[T any](data []byte) (*T, error) {
	obj := new(T)
	if err := json.Unmarshal(data, obj); err != nil {
		return nil, fmt.Errorf("decode into %T: %w", obj, err)
	}
	return obj, nil
}
