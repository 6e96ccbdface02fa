package registry

import (
	"context"
	"fmt"
	"reflect"

	"github.com/kindwright/kindwright/internal/typed"

	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/status"
)

// Call is one request to a subresource, as its handler sees it. It has been authorized as its verb on resource/subresource, and
// admitted, and nothing else has: Objects acts with the power of the server, so a handler that does more for the caller than that asks
// Require(ctx, …) first. authn.UserFrom(ctx) says who is asking, and Warn(ctx, …) adds a warning to the answer.
type Call[T any] struct {
	Objects Objects // for what is to be read, changed or deleted
	Target  Target  // the object, with the subresource
	Object  *T      // the object as it is stored now; the handler's own copy
	DryRun  bool    // nothing may be changed
	Path    string  // what the URL has below the subresource, where that is declared: "", or a path that begins with "/"
}

// SubresourceFrom returns the subresource through which an object is written, for the rules that are asked about the write
// (Complete, Validate and ValidateUpdate): "" is the object itself. Pods, for example, take other resources for their containers through
// `resize` alone.
func SubresourceFrom(ctx context.Context) string {
	return hookcontext.Subresource(ctx)
}

// IsDryRun reports whether nothing may be changed for the request that the Run of a VirtualKind serves.
// Source: DRY-01.
func IsDryRun(ctx context.Context) bool { return hookcontext.IsDryRun(ctx) }

func callOf[T any](in *Call[Tree]) (*Call[T], error) {
	object, err := typed.Decode[T](*in.Object)
	if err != nil {
		return nil, status.Internal(fmt.Errorf("read %s as its Go type: %w", in.Target.Resource.GroupResource(), err))
	}
	return &Call[T]{Objects: in.Objects, Target: in.Target, Object: object, DryRun: in.DryRun, Path: in.Path}, nil
}

// checkObject refuses an endpoint for objects of another Go type than its handlers take.
func checkObject[T any](name string, of *Resource) error {
	if t := reflect.TypeFor[T](); of.Type != nil && of.Type != t {
		return fmt.Errorf("subresource %q is for objects of Go type %s, and the kind has %s", name, t, of.Type)
	}
	return nil
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
func describeDocument[D any](kind meta.GroupVersionKind, of *Resource, env Env) (*Resource, error) {
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
	schema, err := env.schema(typ)
	if err != nil {
		return nil, err
	}
	return &Resource{
		Group: kind.Group, Version: kind.Version,
		Plural: of.Plural, Names: Names{Kind: kind.Kind, ListKind: kind.Kind + "List"},
		ClusterScoped: of.ClusterScoped, Description: schema.Description, Schema: schema, NameRule: of.NameRule,
		Columns: framedIfAny(schema.Columns()), StrategicMerge: true, Type: typ,
	}, nil
}

func framedIfAny(columns []openapi.Column) []openapi.Column {
	if len(columns) == 0 {
		return nil
	}
	return framed(columns)
}
