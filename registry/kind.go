package registry

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/typed"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/openapi"
)

// Kind describes a kind of object by a Go struct. T is the stored form: a struct whose JSON has
// apiVersion, kind and metadata, usually by embedding meta.TypeMeta and meta.ObjectMeta. Its schema
// comes from T's fields and tags (see openapi.FromType for all of them), so a bad tag is found when the
// server is made.
//
// Group, Version and Plural are required; the zero value of every other field is the documented
// default. Each of the others has one subject, so a kind that only needs the usual things stays short:
//
//	registry.Kind[Widget]{Group: "shop.example.com", Version: "v1", Plural: "widgets"}
type Kind[T any] struct {
	Group   string // "" is the core group
	Version string // such as "v1"
	Plural  string // the name in URLs
	Doc     string // what an object of the kind is, for kubectl explain

	Names  Names    // the other words for the kind; default of Names.Kind: the name of T
	Scope  Scope    // default: objects live in namespaces
	Status Status   // default: a T with a field `status` has the status subresource
	Table  Table    // what kubectl get prints
	Rules  Rules[T] // what the kind decides about its objects

	// Selectable are fields that field selectors can name, beside those with a selectable tag. A nil
	// function stands for the field of that path, such as "spec.nodeName".
	Selectable map[string]func(obj *T) string

	Deletion Deletion
	Writes   WriteRules
	Serving  Serving

	StorageName string // see Resource.StorageName; changing it abandons what is stored

	// Subresources are those in addition to status: ScaleSubresource, View, Query, Action, Stream,
	// connect.Endpoint and Subresource.
	Subresources []Endpoint

	// Also are further forms in which the same objects are served; see As.
	Also []Form
}

// Scope is where the objects of a kind live.
type Scope int

// The scopes.
const (
	Namespaced    Scope = iota // in namespaces
	ClusterScoped              // outside of all namespaces
)

// Status says how a kind serves the field `status`. By default it is a subresource: a write to the
// object leaves the status as it is, and a write to the subresource changes nothing else.
type Status struct {
	None bool // status is a field like any other

	// Metadata are fields of metadata that may change along with the status, as they may in most
	// kinds of Kubernetes: labels, annotations, finalizers, ownerReferences. By default none may.
	// Source: UPDATE-11.
	Metadata []string

	// Undeclared serves the status of a kind whose schema does not name the field, as where a schema
	// document preserves unknown fields.
	Undeclared bool

	// AtCreation stores the status that a new object is sent with. By default it is dropped.
	AtCreation bool
}

// Table says what tables of objects show.
type Table struct {
	// Columns are by default Name, the fields with a column tag, and Age; or Name and Created At where
	// no field has the tag.
	Columns []openapi.Column

	// Hidden leaves tables out of what clients can ask for.
	// Source: TABLE-06.
	Hidden bool
}

// Serving says how a version of a kind is offered.
type Serving struct {
	// Deprecated, when set, warns the clients of this version.
	// Source: VER-17.
	Deprecated *Deprecation

	// Optional leaves this version out unless the configuration of the server enables it, as is
	// usual for alpha versions.
	// Source: VER-08.
	Optional bool

	// NoCompression never compresses answers with objects of this version. Set it for kinds with
	// secrets: in a compressed answer, whoever can write a part of it and sees its length can guess the
	// rest (BREACH).
	NoCompression bool
}

// Resource returns the untyped description of the kind. The error names the Go type, field and tag that cannot be
// served.
func (k Kind[T]) Resource() (*Resource, error) {
	return k.resource(Env{}.shared())
}

func (k Kind[T]) resource(env Env) (*Resource, error) {
	r, err := k.describe(env)
	if err != nil {
		return nil, err
	}
	return r, r.complete()
}

func (k Kind[T]) describe(env Env) (*Resource, error) {
	typ := reflect.TypeFor[T]()
	fail := func(err error) (*Resource, error) { return nil, fmt.Errorf("kind of Go type %s: %w", typ, err) }
	if k.Scope != Namespaced && k.Scope != ClusterScoped {
		return fail(fmt.Errorf("the field Scope: unknown scope %d", k.Scope))
	}
	schema, err := env.schema(typ)
	if err != nil {
		return fail(err)
	}
	if err := checkObjectType(typ, schema); err != nil {
		return nil, err
	}
	r := &Resource{
		Group: k.Group, Version: k.Version, Plural: k.Plural,
		Names:         k.Names.of(typ),
		ClusterScoped: k.Scope == ClusterScoped,
		Description:   cmp.Or(k.Doc, schema.Description),
		StorageName:   k.StorageName,
		Schema:        k.Rules.ruled(schema),
		Columns:       k.Table.Columns,
		NoTable:       k.Table.Hidden,
		NameRule:      k.Rules.Name,
		Writes:        k.Writes,
		Deletion:      k.Deletion,
		Hooks:         k.Rules.hooks(),

		Deprecated:     k.Serving.Deprecated,
		Optional:       k.Serving.Optional,
		NoCompression:  k.Serving.NoCompression,
		StrategicMerge: true,
		Type:           typ,
	}
	if err := k.selectable(r); err != nil {
		return fail(err)
	}
	if r.Subresources, err = describeEndpoints(r, k.Subresources, env); err != nil {
		return fail(err)
	}
	if tagged := schema.Columns(); len(r.Columns) == 0 && len(tagged) > 0 {
		r.Columns = framed(tagged)
	}
	if err := k.Status.AddTo(r); err != nil {
		return fail(err)
	}
	r.Reset = k.Rules.keep(r.Reset)
	return r, nil
}

// of fills in the name of the kind.
func (n Names) of(typ reflect.Type) Names {
	n.Kind = cmp.Or(n.Kind, typ.Name())
	return n
}

// selectable adds the fields that selectors can name.
func (k Kind[T]) selectable(r *Resource) error {
	r.Selectable = r.Schema.SelectableFields()
	for _, name := range slices.Sorted(maps.Keys(k.Selectable)) {
		if !slices.Contains(r.Selectable, name) {
			r.Selectable = append(r.Selectable, name)
		}
		compute := k.Selectable[name]
		if compute == nil {
			if _, has := r.Schema.Lookup(strings.Split(name, ".")...); !has {
				return fmt.Errorf("the field Selectable: the type has no field %q", name)
			}
			continue
		}
		if r.Computed == nil {
			r.Computed = map[string]func(Tree) string{}
		}
		r.Computed[name] = func(t Tree) string {
			obj, err := typed.Decode[T](t)
			if err != nil {
				return "" // as for a field that is absent
			}
			return compute(obj)
		}
	}
	return nil
}

// AddTo gives a resource with a field `status` the subresource `status`. It owns that field, beside
// those of metadata that s names, and nothing else. It does nothing for a resource without the
// field, or if None is set. Kinds do this themselves.
// Source: UPDATE-11, security vector Z4.
func (s Status) AddTo(r *Resource) error {
	for _, field := range s.Metadata {
		if !slices.Contains(statusMetadata[:], field) {
			return fmt.Errorf("Status.Metadata: %q is none of %s", field, strings.Join(statusMetadata[:], ", "))
		}
	}
	field, has := r.Schema.Lookup("status")
	if !has && !s.Undeclared || s.None {
		return nil
	}
	schema, initial := r.Schema, has && field.DefaultValue != nil // a new object has it, whatever its creator sent
	r.Subresources = append([]Subresource{s.subresource()}, r.Subresources...)
	r.ResetFields = [][]string{{"status"}}
	r.Reset = func(old, sent Tree) Tree {
		if old == nil && s.AtCreation {
			return sent
		}
		sent = tree.Keep(sent, old, "status")
		if old == nil && initial {
			return schema.Default(sent)
		}
		return sent
	}
	return nil
}

func (s Status) subresource() Subresource {
	out := Subresource{Name: "status", Verbs: []string{"get", "patch", "update"}, Fields: [][]string{{"status"}}}
	for _, field := range s.Metadata {
		out.Fields = append(out.Fields, []string{"metadata", field})
	}
	out.Merge = func(old, sent Tree) Tree {
		for _, path := range out.Fields {
			old = tree.Keep(old, sent, path...)
		}
		return old
	}
	return out
}

// statusMetadata lists the fields of metadata that may change along with the status.
var statusMetadata = [...]string{"annotations", "finalizers", "labels", "ownerReferences"}

// checkObjectType refuses a T whose objects could not be stored, with the usual mistake in mind.
func checkObjectType(typ reflect.Type, schema *openapi.Schema) error {
	if typ.Kind() != reflect.Struct {
		return fmt.Errorf("kind of Go type %s: T is the struct itself, neither a pointer to it nor anything else", typ)
	}
	if _, ok := schema.Lookup("metadata", "uid"); !ok {
		return fmt.Errorf("kind of Go type %s: no field has the JSON name metadata; embed meta.ObjectMeta with the tag `json:\"metadata,omitzero\"`", typ)
	}
	if err := json.Unmarshal([]byte(fullMetadata), reflect.New(typ).Interface()); err != nil {
		return fmt.Errorf("kind of Go type %s: its field metadata cannot hold the metadata of objects: "+
			"embed meta.ObjectMeta with the tag `json:\"metadata,omitzero\"`: %w", typ, err)
	}
	return nil
}

// fullMetadata is an object with every kind of metadata that a server sets.
const fullMetadata = `{"metadata":{"name":"a","namespace":"b","uid":"c","resourceVersion":"1","generation":1,
	"creationTimestamp":"2006-01-02T15:04:05Z","deletionTimestamp":"2006-01-02T15:04:05Z","deletionGracePeriodSeconds":1,
	"labels":{"d":"e"},"annotations":{"f":"g"},"finalizers":["h"],
	"ownerReferences":[{"apiVersion":"v1","kind":"I","name":"j","uid":"k","controller":true}],
	"managedFields":[{"manager":"l","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:m":{}}}]}}`

// framed puts the columns that people look for first and last around those of a kind.
func framed(columns []openapi.Column) []openapi.Column {
	out := []openapi.Column{{Name: "Name", Type: "string", Format: "name", Description: "The name of the object.", Path: []string{"metadata", "name"}}}
	out = append(out, columns...)
	return append(out, openapi.Column{Name: "Age", Type: "date", Description: "How long the object has existed.", Path: []string{"metadata", "creationTimestamp"}})
}

// Define makes a Kind a Definition.
func (k Kind[T]) Define(env Env) (Bundle, error) {
	env = env.shared()
	r, err := k.resource(env)
	if err != nil {
		return Bundle{}, err
	}
	out := Bundle{Resources: []*Resource{r}}
	for i, form := range k.Also {
		if form == nil {
			return Bundle{}, fmt.Errorf("kind %s (%s): Also: form %d is nil", r.Names.Kind, r.APIVersion(), i)
		}
		also, err := form.resource(env, r)
		if err != nil {
			return Bundle{}, err
		}
		out.Resources = append(out.Resources, also)
	}
	return out, nil
}

// VirtualKind describes a kind whose objects are never stored: a document is POSTed, acted upon and
// sent back, such as a SelfSubjectAccessReview. T is the document.
// Source: MODEL-21.
type VirtualKind[T any] struct {
	Group   string
	Version string
	Plural  string
	Names   Names // default of Names.Kind: the name of T

	Namespaced bool

	// Run acts on the document and fills in the answer, in place. It must not change anything where IsDryRun(ctx) is
	// true.
	Run func(ctx context.Context, doc *T) error

	// Acknowledges answers with a Status that says that it was done, and not with the document.
	Acknowledges bool
}

// Define makes a VirtualKind a Definition.
func (k VirtualKind[T]) Define(env Env) (Bundle, error) {
	if k.Run == nil {
		return Bundle{}, fmt.Errorf("virtual kind %s: it has no Run", k.Plural)
	}
	typ := reflect.TypeFor[T]()
	schema, err := env.schema(typ)
	if err != nil {
		return Bundle{}, fmt.Errorf("virtual kind of Go type %s: %w", typ, err)
	}
	r := &Resource{
		Group: k.Group, Version: k.Version, Plural: k.Plural,
		Names:         k.Names.of(typ),
		ClusterScoped: !k.Namespaced,
		Description:   schema.Description,
		Schema:        schema,
		Type:          typ,
		Virtual: func(ctx context.Context, t Tree) (Tree, error) {
			doc, err := typed.Decode[T](t)
			if err != nil {
				return nil, err
			}
			if err := k.Run(ctx, doc); err != nil || k.Acknowledges {
				return nil, err
			}
			return typed.Encode(doc)
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
	Audiences     []string // of the server, for which tokens are meant that have none

	// Egress says how the server connects to other servers; nil: directly.
	Egress *egress.Selector

	// Overlay says what the tags of Go types do not, where the types cannot be edited, as those of
	// k8s.io/api: how lists merge, defaults, what is required.
	Overlay *openapi.Overlay

	// Expressions says how rules in schemas are compiled: for which release, and at which prices.
	Expressions cel.RuleOptions

	// Types holds what was made of the Go types of kinds, so a type that occurs in many of them is read
	// once. Nil means that this definition shares nothing.
	Types *openapi.Types
}

// schema reads a Go type. Endpoints and forms come here with the Env of their kind, which has Types.
func (e Env) schema(typ reflect.Type) (*openapi.Schema, error) {
	return e.shared().Types.Schema(typ, openapi.WithOverlay(e.Overlay))
}

// shared returns an Env with Types.
func (e Env) shared() Env {
	if e.Types == nil {
		e.Types = &openapi.Types{}
	}
	return e
}

// A Definition is something that a server can serve: a Kind, a VirtualKind, or several of them with what
// belongs to them.
type Definition interface {
	Define(env Env) (Bundle, error)
}

// Bundle is what a Definition adds to a server.
type Bundle struct {
	Resources []*Resource

	// Gate, if not nil, decides about namespaces; at most one Definition of a server may bring one.
	Gate admission.NamespaceGate

	Hooks []Hook

	// Plugins are asked about writes after those of the program.
	Plugins []admission.Plugin

	// Fork makes the gate and the hooks of another server that begins with a copy of this one's state. Nil means that those
	// here can serve several servers at once.
	Fork func() (admission.NamespaceGate, []Hook)
}

// Hook is work that goes with a Definition. Start is run once after the kinds are loaded and before
// the server is ready; it appears as the health check poststarthook/<Name>. Run, if not nil, works
// in the background until its context ends; it is started after Start has succeeded and is joined
// when the server stops.
//
// Leader is for work that one process does for all that share a store. Run is then called each time
// that this process becomes the leader, and its context ends when another one has taken over. What
// Run still writes with that context is refused by the store. Where no other process can have the
// store open, as with memory and bbolt, Leader changes nothing.
// Source: HEALTH-16.
type Hook struct {
	Name   string
	Start  func(ctx context.Context, o Objects) error
	Run    func(ctx context.Context, o Objects)
	Leader bool
}

var (
	_ Definition = Kind[struct{}]{}
	_ Definition = VirtualKind[struct{}]{}
)
