package registry

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/kindwright/kindwright/internal/table"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// Call is one request to a subresource, as its handler sees it. It has been authorized as its verb on resource/subresource, and
// admitted. authn.UserFrom(ctx) says who is asking, and Warn(ctx, …) adds a warning to the answer.
type Call[T any] struct {
	Engine *Engine // for what is to be read, changed or deleted
	Target Target  // the object, with the subresource
	Object *T      // the object as it is stored now; the handler's own copy
	DryRun bool    // nothing may be changed
	Path   string  // what the URL has below the subresource, where that is declared: "", or a path that begins with "/"
}

// subresourceKey is where the context of a rule has the subresource that is written through.
type subresourceKey struct{}

// SubresourceFrom returns the subresource through which an object is written, for the rules that are asked about the write
// (Validate and ValidateUpdate): "" is the object itself. Pods, for example, take other resources for their containers through
// `resize` alone.
func SubresourceFrom(ctx context.Context) string {
	name, _ := ctx.Value(subresourceKey{}).(string)
	return name
}

// invocation is a Call before its object has a Go type.
type invocation struct {
	engine *Engine
	target Target
	object Tree
	dryRun bool
	path   string
}

func callOf[T any](in *invocation) (*Call[T], error) {
	object, err := decodeTyped[T](in.object)
	if err != nil {
		return nil, status.Internal(fmt.Errorf("read %s as its Go type: %w", in.target.Resource.GroupResource(), err))
	}
	return &Call[T]{Engine: in.engine, Target: in.target, Object: object, DryRun: in.dryRun, Path: in.path}, nil
}

// invoke prepares a call: it reads the object, as new as any write that was acknowledged.
func (e *Engine) invoke(ctx context.Context, served *Served, t Target) (*invocation, error) {
	entry, err := e.current(ctx, served, storage.ObjectKey(served.Resource.StorageName, t.Namespace, t.Name))
	if err != nil {
		return nil, err
	}
	if entry == nil {
		return nil, status.NotFound(served.Resource.GroupResource(), t.Name)
	}
	object, err := treeOf(entry)
	if err != nil {
		return nil, err
	}
	if object, err = served.Resource.fromStored(object); err != nil {
		return nil, err
	}
	return &invocation{engine: e, target: t, object: object}, nil
}

// offers finds the subresource of a target and checks that it has the verb.
func (e *Engine) offers(t Target, verb string) (*Served, *Subresource, error) {
	served, sub, err := e.lookup(t)
	if err != nil {
		return nil, nil, err
	}
	if sub == nil || !slices.Contains(sub.Verbs, verb) {
		return nil, nil, status.MethodNotAllowed(served.Resource.GroupResource(), verb)
	}
	return served, sub, nil
}

// checkObject refuses an endpoint for objects of another Go type than its handlers take.
func checkObject[T any](name string, of *Resource) error {
	if t := reflect.TypeFor[T](); of.structure != nil && of.structure != t {
		return fmt.Errorf("subresource %q is for objects of Go type %s, and the kind has %s", name, t, of.structure)
	}
	return nil
}

// reading is how the schemas of Go types are read: those of the documents of a subresource as that of its kind.
type reading struct {
	types   *Types
	overlay *openapi.Overlay
}

// namedAfter fills in what the kind of a subresource's document leaves empty: the name is that of the Go type, group and version
// are those of the resource.
func namedAfter(kind meta.GroupVersionKind, typ reflect.Type, of *Resource) meta.GroupVersionKind {
	if kind.Version == "" {
		kind.Group, kind.Version = of.Group, of.Version
	}
	if kind.Kind == "" {
		kind.Kind = typ.Name()
	}
	return kind
}

// describeDocument describes a document that a subresource takes or answers.
func describeDocument[D any](kind meta.GroupVersionKind, of *Resource) (*Resource, error) {
	typ := reflect.TypeFor[D]()
	if typ.Kind() != reflect.Struct {
		return nil, fmt.Errorf("its document has Go type %s, which is no struct", typ)
	}
	if typ == reflect.TypeFor[meta.Status]() && kind == (meta.GroupVersionKind{}) {
		kind = meta.GroupVersionKind{Version: "v1", Kind: "Status"}
	}
	kind = namedAfter(kind, typ, of)
	if why := checkKindName(kind.Kind); why != "" {
		return nil, fmt.Errorf("kind %q of Go type %s %s", kind.Kind, typ, why)
	}
	read := of.reading
	if read == nil {
		read = &reading{types: &Types{}}
	}
	schema, err := read.types.schema(typ, read.overlay)
	if err != nil {
		return nil, err
	}
	r := &Resource{
		Group: kind.Group, Version: kind.Version,
		Names:         Names{Plural: of.Names.Plural, Kind: kind.Kind, ListKind: kind.Kind + "List"},
		ClusterScoped: of.ClusterScoped, Description: schema.Description, Schema: schema, NameRule: of.NameRule,
		Columns: framedIfAny(schema.Columns()), StrategicMerge: true, structure: typ,
	}
	if r.Protobuf, _, err = read.types.messages.Describe(typ); err != nil {
		return nil, err
	}
	if r.layout, err = table.New(r.Columns); err != nil {
		return nil, err
	}
	return r, nil
}

func framedIfAny(columns []openapi.Column) []openapi.Column {
	if len(columns) == 0 {
		return nil
	}
	return framed(columns)
}

// hasMetadata tells whether documents have the metadata of objects.
func (r *Resource) hasMetadata() bool {
	_, ok := r.Schema.Lookup("metadata", "uid")
	return ok
}
