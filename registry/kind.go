package registry

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/status"
)

// Kind describes a kind of object by a Go struct. T is the stored form: a struct whose JSON has apiVersion, kind and
// metadata, usually by embedding meta.TypeMeta and meta.ObjectMeta. Its schema comes from T's fields and tags (see
// openapi.FromType for all of them), so a bad tag is found when the server is made.
//
// The zero value of every field but Group, Version and Plural means the documented default.
type Kind[T any] struct {
	Group   string // "" is the core group
	Version string // such as "v1"
	Plural  string // the name in URLs

	Name       string   // the kind; default: the name of T
	Doc        string   // what an object of the kind is, for kubectl explain
	Singular   string   // default: the kind in lower case
	ListKind   string   // default: the kind followed by List
	ShortNames []string // what kubectl accepts instead of the plural
	Categories []string // such as "all"

	// Overlay says what T's tags do not, where T cannot be edited, as the types of k8s.io/api: how lists merge, defaults, what is
	// required. One Overlay serves all kinds of a server.
	Overlay *openapi.Overlay

	ClusterScoped bool   // default: objects live in namespaces
	StorageName   string // see Resource.StorageName; changing it abandons what is stored

	// NoStatus serves status as an ordinary field. By default a T with a field `status` gets the status subresource.
	NoStatus bool

	// StatusMetadata are fields of metadata that may change along with the status through its subresource, as they may in most kinds
	// of Kubernetes: labels, annotations, finalizers, ownerReferences. By default none may (UPDATE-11).
	StatusMetadata []string

	Subresources []Endpoint               // in addition to status: ScaleSubresource, View, Query, Action, Stream, rest.Connect, Subresource
	Columns      []openapi.Column         // default: Name, the fields with a column tag, Age; without such fields Name and Created At
	NoTable      bool                     // see Resource.NoTable
	NameRule     func(name string) string // see Resource.NameRule
	Writes       WriteRules
	Deletion     Deletion

	// Deprecated, when set, warns the clients of this version (VER-17).
	Deprecated *Deprecation

	// Optional leaves this version out unless the configuration of the server enables it (VER-08), as is usual for alpha
	// versions.
	Optional bool

	// Also are further forms in which the same objects are served; see As.
	Also []Form

	// Default fills in values that tags cannot express. It runs on every write, more than once, so it must be
	// idempotent. What it changes in the struct is changed in the object; everything else stays as it was sent
	// (design rule 7).
	Default func(ctx context.Context, obj *T)

	// Validate reports what is wrong with an object that is about to be stored: defaulted, pruned, and valid by its
	// schema in structure. All errors are reported together. authn.UserFrom(ctx) says who is asking, and Warn(ctx, …) adds a
	// warning to the answer.
	Validate func(ctx context.Context, obj *T, f *status.Fields)

	// ValidateUpdate does so for the replacement of old by obj, in addition to Validate.
	ValidateUpdate func(ctx context.Context, obj, old *T, f *status.Fields)

	// Grace is Deletion.Grace for the Go type: the seconds that obj is given to end, where asked is what the request says, nil if
	// nothing.
	Grace func(obj *T, asked *int64) int64

	// BeforeDelete may refuse a deletion: a *status.Error, such as status.Conflict(…), is sent as it is; anything else is an
	// internal error.
	BeforeDelete func(ctx context.Context, obj *T) error
}

// Resource returns the untyped description of the kind. The error names the Go type, field and tag that cannot be
// served.
func (k Kind[T]) Resource() (*Resource, error) {
	var types Types
	r, err := k.resource(&types)
	if err != nil {
		return nil, err
	}
	return r, types.Unused()
}

func (k Kind[T]) resource(types *Types) (*Resource, error) {
	r, err := k.describe(types)
	if err != nil {
		return nil, err
	}
	return r, r.complete()
}

func (k Kind[T]) describe(types *Types) (*Resource, error) {
	typ := reflect.TypeFor[T]()
	schema, err := types.over(k.Overlay).schema(typ)
	if err != nil {
		return nil, fmt.Errorf("kind of Go type %s: %w", typ, err)
	}
	if err := checkObjectType(typ, schema); err != nil {
		return nil, err
	}
	if k.Grace != nil && k.Deletion.Grace != nil {
		return nil, fmt.Errorf("kind of Go type %s: Grace and Deletion.Grace exclude each other", typ)
	}
	name := k.Name
	if name == "" {
		name = typ.Name()
	}
	r := &Resource{
		Group: k.Group, Version: k.Version,
		Names: Names{
			Plural: k.Plural, Singular: k.Singular, Kind: name, ListKind: k.ListKind,
			ShortNames: k.ShortNames, Categories: k.Categories,
		},
		ClusterScoped: k.ClusterScoped,
		Description:   cmp.Or(k.Doc, schema.Description),
		StorageName:   k.StorageName,
		Schema:        schema,
		Columns:       k.Columns,
		NoTable:       k.NoTable,
		Selectable:    schema.SelectableFields(),
		NameRule:      k.NameRule,
		Writes:        k.Writes,
		Deletion:      k.deletion(),
		Hooks:         k.hooks(),

		Deprecated:     k.Deprecated,
		Optional:       k.Optional,
		StrategicMerge: true,
		Type:           typ,
	}
	if r.Subresources, err = describeEndpoints(r, k.Subresources, types.over(k.Overlay)); err != nil {
		return nil, fmt.Errorf("kind of Go type %s: %w", typ, err)
	}
	if tagged := schema.Columns(); len(r.Columns) == 0 && len(tagged) > 0 {
		r.Columns = framed(tagged)
	}
	for _, field := range k.StatusMetadata {
		if !slices.Contains(statusMetadata[:], field) {
			return nil, fmt.Errorf("kind of Go type %s: StatusMetadata: %q is none of %s", typ, field, strings.Join(statusMetadata[:], ", "))
		}
	}
	if _, has := schema.Lookup("status"); has && !k.NoStatus {
		r.Subresources = append([]Subresource{StatusSubresource(k.StatusMetadata...)}, r.Subresources...)
		r.Reset, r.ResetFields = ResetStatus, [][]string{{"status"}}
	}
	return r, nil
}

// checkObjectType refuses a T whose objects could not be stored, with the usual mistake in mind.
func checkObjectType(typ reflect.Type, schema *openapi.Schema) error {
	if typ.Kind() != reflect.Struct {
		return fmt.Errorf("kind of Go type %s: T is the struct itself, neither a pointer to it nor anything else", typ)
	}
	if _, ok := schema.Lookup("metadata", "uid"); !ok {
		return fmt.Errorf("kind of Go type %s: no field has the JSON name metadata; embed meta.ObjectMeta with the tag `json:\"metadata,omitzero\"`", typ)
	}
	return nil
}

// framed puts the columns that people look for first and last around those of a kind.
func framed(columns []openapi.Column) []openapi.Column {
	out := []openapi.Column{{Name: "Name", Type: "string", Format: "name", Description: "The name of the object.", Path: []string{"metadata", "name"}}}
	out = append(out, columns...)
	return append(out, openapi.Column{Name: "Age", Type: "date", Description: "How long the object has existed.", Path: []string{"metadata", "creationTimestamp"}})
}

// Define makes a Kind a Definition.
func (k Kind[T]) Define(env Env) (Bundle, error) {
	types := env.types()
	r, err := k.resource(types)
	if err != nil {
		return Bundle{}, err
	}
	out := Bundle{Resources: []*Resource{r}}
	for i, form := range k.Also {
		if form == nil {
			return Bundle{}, fmt.Errorf("kind %s (%s): Also: form %d is nil", r.Names.Kind, r.APIVersion(), i)
		}
		also, err := form.resource(types, r)
		if err != nil {
			return Bundle{}, err
		}
		out.Resources = append(out.Resources, also)
	}
	return out, nil
}

func (k Kind[T]) deletion() Deletion {
	d := k.Deletion
	if k.Grace != nil {
		d.Grace = func(t Tree, asked *int64) int64 {
			obj, err := decodeTyped[T](t)
			if err != nil { // an object that its type cannot hold has nothing to say
				return GraceSeconds(0)(t, asked)
			}
			return k.Grace(obj, asked)
		}
	}
	return d
}

func (k Kind[T]) hooks() Hooks {
	var h Hooks
	if k.Default != nil {
		h.Default = func(ctx context.Context, t Tree) (Tree, error) { return mutateTyped(ctx, t, k.Default) }
	}
	if k.Validate != nil {
		h.Validate = func(ctx context.Context, t Tree, f *status.Fields) {
			if obj := typed[T](t, f); obj != nil {
				k.Validate(ctx, obj, f)
			}
		}
	}
	if k.ValidateUpdate != nil {
		h.ValidateUpdate = func(ctx context.Context, t, old Tree, f *status.Fields) {
			obj, before := typed[T](t, f), typed[T](old, f)
			if obj != nil && before != nil {
				k.ValidateUpdate(ctx, obj, before, f)
			}
		}
	}
	if k.BeforeDelete != nil {
		h.BeforeDelete = func(ctx context.Context, old Tree) error {
			obj, err := decodeTyped[T](old)
			if err != nil {
				return err
			}
			return k.BeforeDelete(ctx, obj)
		}
	}
	return h
}

// Operation describes a virtual kind: a document that is POSTed, acted upon and answered, and never stored, such as a
// SelfSubjectAccessReview (MODEL-21). T is the document.
type Operation[T any] struct {
	Group   string
	Version string
	Plural  string
	Name    string // the kind; default: the name of T

	Singular   string
	ShortNames []string
	Categories []string
	Namespaced bool

	Overlay *openapi.Overlay // as for a Kind

	// Run acts on the document and fills in the answer, in place.
	Run func(ctx context.Context, doc *T) error
}

// Define makes an Operation a Definition.
func (o Operation[T]) Define(env Env) (Bundle, error) {
	if o.Run == nil {
		return Bundle{}, fmt.Errorf("operation %s: it has no Run", o.Plural)
	}
	typ := reflect.TypeFor[T]()
	schema, err := env.types().over(o.Overlay).schema(typ)
	if err != nil {
		return Bundle{}, fmt.Errorf("operation of Go type %s: %w", typ, err)
	}
	name := o.Name
	if name == "" {
		name = typ.Name()
	}
	r := &Resource{
		Group: o.Group, Version: o.Version,
		Names: Names{
			Plural: o.Plural, Singular: o.Singular, Kind: name, ListKind: name + "List",
			ShortNames: o.ShortNames, Categories: o.Categories,
		},
		ClusterScoped: !o.Namespaced,
		Description:   schema.Description,
		Schema:        schema,
		Type:          typ,
		Virtual: func(ctx context.Context, t Tree) (Tree, error) {
			doc, err := decodeTyped[T](t)
			if err != nil {
				return nil, err
			}
			if err := o.Run(ctx, doc); err != nil {
				return nil, err
			}
			return encodeTyped(doc)
		},
	}
	if err := r.complete(); err != nil {
		return Bundle{}, err
	}
	return Bundle{Resources: []*Resource{r}}, nil
}

// Env is what a Definition may need to know of the server it becomes part of.
type Env struct {
	GroupDomain string // the domain of the system's own groups, such as "k8s.io" (MODEL-03)

	// What the server's requests are checked with, for kinds that answer questions about it.
	Authenticator authn.Authenticator
	Authorizer    authz.Authorizer

	// Types is what the definitions of a server share of their Go types. Nil means that this one shares nothing.
	Types *Types
}

func (e Env) types() *Types {
	if e.Types == nil {
		return &Types{}
	}
	return e.Types
}

// Types holds what was made of the Go types of kinds, so that a type which occurs in many of them is read once. The zero
// value is ready for use. It is safe for concurrent use.
type Types struct {
	schemas openapi.Types
	overlay *openapi.Overlay
	shared  *Types // what this is a view of, with an overlay
}

// over returns a view of the types that reads them with an overlay.
func (t *Types) over(overlay *openapi.Overlay) *Types { return &Types{overlay: overlay, shared: t} }

func (t *Types) schema(typ reflect.Type) (*openapi.Schema, error) {
	all := t
	if t.shared != nil {
		all = t.shared
	}
	return all.schemas.Schema(typ, openapi.WithOverlay(t.overlay))
}

// Unused reports the types that an overlay of a kind speaks of and that no kind has, so that nothing is lost to a typo.
func (t *Types) Unused() error { return t.schemas.Unused() }

// A Definition is something a server can serve: a Kind, an Operation, or a bundle of them with what belongs to it.
type Definition interface {
	Define(env Env) (Bundle, error)
}

// Bundle is what a Definition adds to a server.
type Bundle struct {
	Resources []*Resource

	// Gate, if not nil, decides about namespaces; at most one Definition of a server may bring one.
	Gate NamespaceGate

	Hooks []Hook

	// Fork makes the gate and the hooks of another server that begins with a copy of this one's state. Nil means that those
	// here can serve several servers at once.
	Fork func() (NamespaceGate, []Hook)
}

// Hook is work that goes with a Definition. Start is run once after the kinds are loaded and before the server is
// ready; it appears as the health check poststarthook/<Name> (HEALTH-16). Run, if not nil, works in the background until
// its context ends; it is started after Start has succeeded and is joined when the server stops.
type Hook struct {
	Name  string
	Start func(ctx context.Context, o Objects) error
	Run   func(ctx context.Context, o Objects)
}

var (
	_ Definition = Kind[struct{}]{}
	_ Definition = Operation[struct{}]{}
)
