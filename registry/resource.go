package registry

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/table"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// Names are the words by which a resource is known.
// Source: MODEL-16, MODEL-17, MODEL-24.
type Names struct {
	Singular   string   // default: the kind in lower case
	Kind       string   // the kind of one object
	ListKind   string   // default: Kind + "List" (COLL-01)
	ShortNames []string // what kubectl accepts instead of the plural
	Categories []string // groups of resources such as "all"
}

// Hooks are the rules of one kind, in untyped form. Each may be nil. They are called concurrently for different
// requests and must not change the trees they are given.
type Hooks struct {
	// Default returns the object with values filled in that the schema cannot express. It runs on every write, and
	// again after mutating admission, so it must be idempotent.
	Default func(ctx context.Context, t Tree) (Tree, error)

	// Complete returns the object with what the server itself decides about it, such as an address from a pool, or a selector
	// made of the uid. It runs after mutating admission, once for each try of a write; nobody becomes the manager of what it
	// adds. old is nil for a new object, which has its uid. An error ends the write, as those of admission do.
	Complete func(ctx context.Context, t, old Tree) (Tree, error)

	// Validate reports what is wrong with an object that is about to be stored, however it came about. The object is
	// defaulted and pruned.
	Validate func(ctx context.Context, t Tree, f *status.Fields)

	// ValidateCreate reports what is wrong with a new object, in addition to Validate.
	ValidateCreate func(ctx context.Context, t Tree, f *status.Fields)

	// ValidateUntyped is Validate for a function that takes values of any type: it is also asked about an object
	// that violates its schema.
	ValidateUntyped func(ctx context.Context, t Tree, f *status.Fields)

	// ValidateUpdate reports what is wrong with replacing old by t, in addition to Validate.
	ValidateUpdate func(ctx context.Context, t, old Tree, f *status.Fields)

	// BeforeDelete may refuse a deletion by returning an error.
	BeforeDelete func(ctx context.Context, old Tree) error

	// Grace gives objects time to end; see Rules.Grace.
	Grace func(t Tree, asked *int64) int64

	// Mark returns the object as it is stored once deletion has been asked for and must wait; metadata is already set.
	Mark func(t Tree) Tree

	// Held tells whether something other than metadata.finalizers still keeps the object.
	Held func(t Tree) bool

	// Companions returns operations on keys outside /r/ that are committed together with a change of
	// an object, such as the phase record of a namespace. old is nil for a creation, next for a
	// removal. It must not do anything else.
	Companions func(old, next Tree) ([]storage.Op, error)

	// Objects returns objects of other kinds that are created or deleted together with a change of an object, such as the
	// IPAddress of a service with an address. Everything is one commit. old is nil for a creation, next for a removal. The
	// writes are the server's own, and take every step but authorization. If an object to create exists, the whole write starts
	// again from its read, so Complete has to look for such objects, and choose others or refuse the write. An object to delete
	// may be absent. What is not served is left out. It must not do anything else.
	Objects func(old, next Tree) ([]Companion, error)
}

// Companion is an object that is created or deleted together with an object of another kind; see Hooks.Objects.
type Companion struct {
	Target       Target // the resource, the namespace and the name
	Body         []byte // the object to create, as JSON; nil deletes
	FieldManager string // who owns the fields of the new object; see WriteOptions.FieldManager
}

// WriteRules say how writes to a kind deviate from the usual. The zero value is the usual.
type WriteRules struct {
	// RequireVersion refuses a PUT without metadata.resourceVersion (422). By default such a PUT
	// replaces whatever is there.
	// Source: UPDATE-08, READ-28.
	RequireVersion bool

	// CreateOnUpdate lets PUT create an object that is absent.
	// Source: UPDATE-05.
	CreateOnUpdate bool

	// NoGeneration leaves metadata.generation unset, for kinds without a desired state that controllers compare with.
	NoGeneration bool

	// FixedGeneration leaves metadata.generation at 1 when an object changes.
	FixedGeneration bool

	// CountAnnotations counts changes of metadata.annotations in metadata.generation as well,
	// unless they come through a subresource: controllers of such kinds read there what is wanted,
	// as those of Kubernetes' Deployments do.
	// Source: META-12.
	CountAnnotations bool

	// NoRatcheting judges an update as a new object. By default, what the object broke before does not
	// count while it stays as it is.
	// Source: KEP-4008.
	NoRatcheting bool

	// TTL removes objects that nobody has written to for so long. 0 keeps them. It counts from the
	// last write, across restarts, with a precision of seconds.
	// Source: EVT-02.
	TTL time.Duration
}

// Deletion says how a kind's objects end when finalizers in their metadata are not the whole story.
type Deletion struct {
	// Policy is what becomes of the dependents of a deleted object where neither the request nor a
	// finalizer of the object says it: Background, which "" means, Foreground or Orphan.
	// Source: DEL-10.
	Policy meta.DeletionPropagation

	// Warning is told to a client that deletes objects and leaves Policy to decide, "" for nothing.
	Warning string

	// NoCollections leaves out the verb deletecollection: objects are deleted one by one.
	NoCollections bool

	// NoDependents says that nothing can be owned by objects of the kind: policies are ignored.
	NoDependents bool

	// Expire has the server remove objects whose time to end is over. Without it somebody else does that, who stops what the
	// object stands for and then deletes it with a grace period of 0, as a kubelet does with pods.
	Expire bool

	// AnswerObject answers a DELETE that removed the object with the object, as Kubernetes does for
	// pods. By default the answer is a Status.
	// Source: DEL-05.
	AnswerObject bool

	// Turn is when the objects go that are in a namespace which is being deleted: those of a kind with a lower turn first, and
	// the next only when none of them is left. Workloads have a turn below 0, so that the policies and the configuration
	// that they run under last longer than they do (KEP-5080).
	Turn int
}

// Resource describes one kind. It is plain data, made by Kind.Resource or by hand. A server makes of it what it needs and never
// writes to it; nor may anybody else once a server has it.
type Resource struct {
	Group, Version string
	Plural         string // the name in URLs: lower-case, a DNS label
	Names          Names
	ClusterScoped  bool
	Description    string

	// StorageName says where the objects are kept and is fixed for the life of the data: changing it abandons what is
	// stored. Default: the group and the plural name with a slash between them, or the plural name alone in the core group.
	StorageName string

	Schema     *openapi.Schema
	Columns    []openapi.Column // of tables; none means Name and Created At (TABLE-05)
	Selectable []string         // field paths usable in field selectors besides metadata.name and, if objects have one, metadata.namespace

	// NoTable leaves tables out of what clients can ask for: who accepts nothing else is answered
	// 406, and who names a second form gets that.
	// Source: TABLE-06.
	NoTable bool

	// Computed gives selectable fields that are no single field of the object their values, by their names in Selectable.
	// The functions are given the stored form, also where a read asks for another one.
	Computed map[string]func(Tree) string

	// NameRule says what is wrong with a name, "" if nothing. Default: a DNS subdomain.
	// Source: NAME-11.
	NameRule func(name string) string

	Hooks        Hooks
	Writes       WriteRules
	Deletion     Deletion
	Subresources []Subresource

	// Reset returns what is stored when the client sends sent on the main path: it takes back what only subresources
	// may change. old is nil on create. Nil keeps what was sent.
	Reset func(old, sent Tree) Tree

	// ResetFields are the paths of what Reset takes back, such as {"status"}: nobody becomes their
	// manager on the main path.
	// Source: SSA-31.
	ResetFields [][]string

	// Unowned are the paths of what clients write on the main path and nobody becomes the manager of. An apply has
	// no conflict about them.
	// Source: SSA-31.
	Unowned [][]string

	// Blank is what every object holds without anybody's doing, such as the empty structs that the encoding of a Go
	// type always writes; without metadata. Nobody becomes the manager of what a new object shares with it, except by an
	// apply. The kinds of kube-apiserver have it.
	// Source: SSA-12.
	Blank Tree

	// Deprecated, when set, is what clients are warned of in every answer.
	// Source: VER-17.
	Deprecated *Deprecation

	// Unserved keeps the objects without answering requests for this form of them: other forms may be served, records that
	// were written in this one are understood, and the Go API works. Giving the same description to Engine.Install once more
	// serves it after all. A form that Engine.Change puts in place of itself stays as it is described.
	Unserved bool

	// Optional leaves the form out unless the configuration of the server enables its version or
	// the resource.
	// Source: VER-08.
	Optional bool

	// NoCompression never compresses answers with objects in this form; see Serving.
	NoCompression bool

	// Stored, when set, makes the resource another served form of objects that are stored in the form of another resource.
	Stored *Conversion

	// Converter, when set on the stored form of a kind, converts between all its forms under the rules of Kubernetes' custom
	// resources. A kind with one form may have it, too: forms, and another stored one, may come later.
	Converter Converter

	// SelectByRecord says that the Converter changes no selectable field. Field selectors then look at the record of an object,
	// which is cheaper. By default they look at what the object is converted to.
	SelectByRecord bool

	// Virtual, if not nil, makes the kind virtual: POST runs the function and answers with its
	// result, or with a Status if that is nil. Nothing is ever stored. All fields about stored objects are unused then.
	// Source: MODEL-21.
	Virtual func(ctx context.Context, t Tree) (Tree, error)

	// StrategicMerge serves strategic merge patches, for kinds whose schema says how lists merge.
	// Kinds made from Go structs have it; kinds known by a document alone do not.
	// Source: PATCH-09, PATCH-10.
	StrategicMerge bool

	// Type is the Go struct that the objects are made of; nil for kinds known by a document alone. Objects are written as protobuf
	// messages too where every field of the struct has a protobuf tag.
	Type reflect.Type
}

// GroupVersionKind returns the kind of one object.
func (r *Resource) GroupVersionKind() meta.GroupVersionKind {
	return meta.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Names.Kind}
}

// GroupVersionResource returns the resource as URLs name it.
func (r *Resource) GroupVersionResource() meta.GroupVersionResource {
	return meta.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Plural}
}

// GroupResource returns the resource without its version, as error messages name it.
func (r *Resource) GroupResource() meta.GroupResource {
	return meta.GroupResource{Group: r.Group, Resource: r.Plural}
}

// GroupKind returns the kind without its version, as validation errors name it.
func (r *Resource) GroupKind() meta.GroupKind {
	return meta.GroupKind{Group: r.Group, Kind: r.Names.Kind}
}

// APIVersion returns the apiVersion of the kind's objects: "v1" or "group/v1".
// Source: VER-01, VER-02.
func (r *Resource) APIVersion() string {
	return meta.GroupVersion{Group: r.Group, Version: r.Version}.String()
}

// Completed returns a copy with every default filled in, or says what cannot be served, naming the resource and the field. Later
// changes of r do not reach the copy, but for those of what both point to, such as the schema.
func (r *Resource) Completed() (*Resource, error) {
	own := *r
	own.Names.ShortNames, own.Names.Categories = slices.Clone(r.Names.ShortNames), slices.Clone(r.Names.Categories)
	own.Columns, own.Selectable, own.Subresources = slices.Clone(r.Columns), slices.Clone(r.Selectable), slices.Clone(r.Subresources)
	own.ResetFields, own.Unowned, own.Computed = slices.Clone(r.ResetFields), slices.Clone(r.Unowned), maps.Clone(r.Computed)
	return &own, own.complete()
}

// complete fills the defaults in, in a value that nobody else has yet, and refuses what cannot be served, naming the resource and the field.
func (r *Resource) complete() error {
	n := &r.Names
	if n.Singular == "" {
		n.Singular = strings.ToLower(n.Kind)
	}
	if n.ListKind == "" {
		n.ListKind = n.Kind + "List"
	}
	if r.Stored != nil {
		r.StorageName = r.Stored.Resource.StorageName
	}
	if r.StorageName == "" {
		r.StorageName = strings.TrimPrefix(r.Group+"/"+r.Plural, "/")
	}
	if r.NameRule == nil {
		r.NameRule = meta.CheckDNSSubdomain
	}
	if why := r.problem(); why != "" {
		return fmt.Errorf("kind %s (%s): %s", n.Kind, r.APIVersion(), why)
	}
	if _, err := table.New(r.Columns); err != nil {
		return fmt.Errorf("kind %s (%s): %w", n.Kind, r.APIVersion(), err)
	}
	return nil
}

// problem says what is wrong with the description: every word of it, before what only a sound one can have.
func (r *Resource) problem() string {
	if problems := r.wordProblems(); len(problems) > 0 {
		return strings.Join(problems, "; ")
	}
	if why := checkStorageName(r.StorageName); why != "" {
		return fmt.Sprintf("storage name %q: %s", r.StorageName, why)
	}
	if r.Schema == nil {
		return "it has no schema"
	}
	if c := r.Stored; c != nil && c.Resource.Converter == nil && (c.To == nil || c.From == nil) {
		return "Stored needs a function for each direction, or a Converter of the stored form"
	}
	if r.Stored != nil && r.Converter != nil {
		return "Converter belongs to the stored form"
	}
	if r.Deletion.Expire && r.Hooks.Grace == nil {
		return "Deletion.Expire is for kinds with a Grace"
	}
	if why := r.Deletion.problem(); why != "" {
		return why
	}
	return r.subresourceProblem()
}

// wordProblems finds the words that a resource cannot be called by.
func (r *Resource) wordProblems() []string {
	var problems []string
	check := func(what, word, why string) {
		if why != "" {
			problems = append(problems, fmt.Sprintf("%s %q: %s", what, word, why))
		}
	}
	if r.Group != "" {
		check("group", r.Group, meta.CheckDNSSubdomain(r.Group))
	}
	check("version", r.Version, meta.CheckDNS1035Label(r.Version))
	check("plural", r.Plural, meta.CheckDNS1035Label(r.Plural))
	check("singular", r.Names.Singular, meta.CheckDNS1035Label(r.Names.Singular))
	for _, s := range r.Names.ShortNames {
		check("short name", s, meta.CheckDNS1035Label(s))
	}
	for _, s := range r.Names.Categories {
		check("category", s, meta.CheckDNS1035Label(s))
	}
	if reserved[r.Plural] {
		check("plural", r.Plural, "means something else in the paths of requests")
	}
	if r.Type == nil { // a client may have chosen it, who need not write Go
		check("kind name", r.Names.Kind, meta.CheckDNS1035Label(strings.ToLower(r.Names.Kind)))
	} else {
		check("kind name", r.Names.Kind, checkKindName(r.Names.Kind))
	}
	return problems
}

// reserved are the words that package request gives a meaning of their own where a plural stands (P11).
var reserved = map[string]bool{"watch": true, "status": true, "finalize": true}

// checkStorageName accepts one or more DNS subdomains with slashes between them.
func checkStorageName(s string) string {
	for part := range strings.SplitSeq(s, "/") {
		if why := meta.CheckDNSSubdomain(part); why != "" {
			return why
		}
	}
	return ""
}

func checkKindName(s string) string {
	if s == "" || len(s) > 63 || s[0] < 'A' || s[0] > 'Z' {
		return "must be a Go-like name of 1 to 63 characters that starts with a capital letter"
	}
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return "must consist of letters and digits"
		}
	}
	return ""
}
