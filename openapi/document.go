package openapi

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// Document describes the kinds of one group version for publication as OpenAPI v3.
//
// Source: OAPI-02 to OAPI-04.
type Document struct {
	Group, Version string
	Title          string // of the whole API; defaults to "kindwright"
	CBOR           bool   // documents can also be CBOR
	BasePath       string // what all paths are below, such as "/shop"; empty at the root
	WatchPaths     bool   // kinds are also watched below /watch/, without the parameter watch
	BearerToken    bool   // clients may send a bearer token
	Kinds          []KindDoc
}

// KindDoc describes one kind.
type KindDoc struct {
	Kind, ListKind, Plural string // ListKind defaults to Kind + "List"
	Namespaced             bool
	// Verbs are those of discovery: get, list, watch, create, update, patch, delete,
	// deletecollection.
	Verbs       []string
	Schema      *Schema
	Description string // defaults to the description of the schema
	// Selectable are the paths of the fields that field selectors can use. They are published for kinds
	// whose schemas come from documents.
	Selectable []string
	Protobuf   bool // objects can also be read and written as protobuf
	// Patches are the media types of patches. It defaults to apply, JSON patch and merge patch.
	Patches      []string
	Subresources []SubresourceDoc

	// AnswersDeleted means that a deletion answers with the object that it removed, not with a Status.
	AnswersDeleted bool
}

// SubresourceDoc describes one subresource. If Kind is empty, requests and responses carry the
// parent kind itself, as for status.
type SubresourceDoc struct {
	Name     string
	Verbs    []string // get, create, update, patch; connect subresources also use delete
	Kind     meta.GroupVersionKind
	Schema   *Schema
	Protobuf bool     // documents of Kind can also be read and written as protobuf
	Patches  []string // media types of patches; defaults to those of the parent kind

	// Details holds the verbs whose documents or parameters differ from the above, keyed by verb.
	Details map[string]VerbDoc
}

// VerbDoc describes how one verb of a subresource differs from the others.
type VerbDoc struct {
	Body, Answer *DocumentDoc // request and response documents; nil means Kind
	// MediaType is that of a response that is not a document, such as text/plain; "*/*" for any.
	MediaType  string
	Parameters []Property // additional query parameters
	Connect    bool       // the verb opens a connection, as exec and port-forward do
}

// DocumentDoc describes a request or response body.
type DocumentDoc struct {
	Kind     meta.GroupVersionKind
	Schema   *Schema
	Protobuf bool
}

// JSON returns the document. It is deterministic: equal documents give equal bytes.
//
// Every operation carries the extension x-kubernetes-group-version-kind. kubectl uses it to find
// the schema of a resource (explain) and the parameters of a patch (field validation). Schemas that
// are used in several places are published once. Schemas that Kubernetes also publishes have its
// names; others are named after the reversed group, such as dev.example.v1.Widget.
func (d Document) JSON() ([]byte, error) {
	if d.Version == "" {
		return nil, errors.New("openapi: Document.Version must be set")
	}
	p := documentPublisher()
	p.deleteOptions(d)
	if err := p.publish(d); err != nil {
		return nil, err
	}
	var out []byte
	out = append(out, `{"components":{"schemas":{`...)
	out = withoutComma(p.appendDefinitions(out))
	out = append(out, '}')
	if d.BearerToken {
		out = append(out, `,"securitySchemes":`+bearerTokenScheme...)
	}
	out = append(out, `},"info":{"title":`...)
	out = json.AppendString(out, cmp.Or(d.Title, "kindwright"))
	out = json.AppendString(append(out, `,"version":`...), d.groupVersion().String())
	out = append(out, `},"openapi":"3.0.0","paths":{`...)
	out = append(withoutComma(p.appendPaths(out)), '}')
	if d.BasePath != "" {
		out = append(json.AppendString(append(out, `,"servers":[{"url":`...), d.BasePath), "}]"...)
	}
	out = append(out, '}')
	return bytes.Clone(out), p.failed // documents are kept: no space at the end of them
}

// newPublisher returns a publisher that already contains the schemas shared by all kinds.
func newPublisher(f form, s *shared) *publisher {
	p := &publisher{
		form: f, definitions: map[string]*definition{}, paths: map[string]*pathItem{}, kinds: map[string]meta.GroupVersionKind{},
		names: map[meta.GroupVersionKind]string{}, shared: s, parameters: map[string][]byte{},
	}
	for _, shared := range s.schemas {
		p.component(shared.name, shared.schema, shared.kinds...)
	}
	return p
}

// documentPublisher returns a publisher for a document. It takes what all documents share from one
// that is made once.
func documentPublisher() *publisher {
	p := *sharedOnce().documents()
	p.definitions, p.parameters = maps.Clone(p.definitions), maps.Clone(p.parameters)
	p.paths, p.kinds, p.names = map[string]*pathItem{}, map[string]meta.GroupVersionKind{}, map[meta.GroupVersionKind]string{}
	return &p
}

// deleteOptions publishes the options of deletions for the group versions of documents. It names
// each once: clients reject a document in which two schemas claim the same kind.
func (p *publisher) deleteOptions(docs ...Document) {
	kinds := []meta.GroupVersionKind{{Version: "v1", Kind: "DeleteOptions"}}
	seen := map[meta.GroupVersionKind]bool{kinds[0]: true}
	for _, d := range docs {
		if gvk := d.groupVersion().WithKind("DeleteOptions"); !seen[gvk] {
			seen[gvk] = true
			kinds = append(kinds, gvk)
		}
	}
	p.component(metaPackage+"DeleteOptions", p.shared.deleteOptions, kinds...)
}

// publish adds the schemas and the paths of the kinds of a document. The paths replace those of the
// document before.
func (p *publisher) publish(d Document) error {
	p.doc, p.path, p.camel = d, d.path(), d.camel()
	p.tag = strings.ReplaceAll(cmp.Or(d.Group, "core"), ".", "_") + "_" + d.Version
	clear(p.paths)
	p.discovery()
	for _, h := range p.heads[p.path] {
		p.add(h.path, nil, h.operation)
	}
	for _, defined := range []bool{false, true} { // the program's own kinds name theirs first
		for _, k := range d.Kinds {
			if isDefined(k) != defined {
				continue
			}
			if err := p.kind(k); err != nil {
				return fmt.Errorf("openapi: kind %q of %s: %w", k.Kind, d.groupVersion(), err)
			}
		}
	}
	return nil
}

// isDefined reports whether a client has defined the kind.
func isDefined(k KindDoc) bool { return k.Schema != nil && k.Schema.fromDocument }

func (d Document) groupVersion() meta.GroupVersion {
	return meta.GroupVersion{Group: d.Group, Version: d.Version}
}

// Hash returns a hash of a document. A URL that contains it can be cached forever.
func Hash(document []byte) string {
	sum := sha256.Sum256(document)
	return strings.ToUpper(hex.EncodeToString(sum[:]))
}

// IndexEntry is one document of the index.
type IndexEntry struct {
	Group, Version string
	Hash           string // of the document, as returned by Hash
}

// Index returns the body of /openapi/v3: the URL of each document. prefix is the path prefix under
// which the server is mounted.
func Index(prefix string, entries []IndexEntry) ([]byte, error) {
	paths := map[string]any{}
	for _, e := range entries {
		path := groupVersionPath(e.Group, e.Version)
		paths[path] = map[string]any{"serverRelativeURL": strings.TrimSuffix(prefix, "/") + "/openapi/v3/" + path + "?hash=" + e.Hash}
	}
	return json.AppendTree(nil, map[string]any{"paths": paths})
}

// path returns what the paths of the document begin with.
func (d Document) path() string { return "/" + groupVersionPath(d.Group, d.Version) + "/" }

func groupVersionPath(group, version string) string {
	if group == "" {
		return "api/" + version
	}
	return "apis/" + group + "/" + version
}

// componentName returns the reversed group, the version and the kind, joined by dots. A group
// without a dot belongs to Kubernetes itself.
func componentName(gvk meta.GroupVersionKind) string {
	if !strings.Contains(gvk.Group, ".") {
		return "io.k8s.api." + cmp.Or(gvk.Group, "core") + "." + gvk.Version + "." + gvk.Kind
	}
	labels := strings.Split(gvk.Group, ".")
	slices.Reverse(labels)
	return strings.Join(append(labels, gvk.Version, gvk.Kind), ".")
}

// kindName returns the name under which the schema of a kind, or of its lists, is published: wanted,
// or the one from its group, unless another kind has taken it. A client that defines a kind chooses
// its group, and with that a name: it does not get one that anything else is published under, but a
// new one, such as Pod_v2.
func (p *publisher) kindName(gvk meta.GroupVersionKind, wanted string, defined bool) string {
	if name, known := p.names[gvk]; known {
		return name
	}
	taken := func(name string) bool {
		if of, taken := p.kinds[name]; taken {
			return of != gvk
		}
		return defined && p.definitions[name] != nil
	}
	name := cmp.Or(wanted, componentName(gvk))
	if taken(name) {
		name = componentName(gvk)
	}
	for n := 2; taken(name); n++ {
		name = fmt.Sprintf("%s_v%d", componentName(gvk), n)
	}
	p.kinds[name], p.names[gvk] = gvk, name
	return name
}

// publisher collects the paths and schemas of a document. It is not safe for concurrent use.
type publisher struct {
	form        form
	doc         Document
	definitions map[string]*definition
	paths       map[string]*pathItem // of doc
	path        string               // of doc
	camel, tag  string               // doc's group version in operation ids, and its tag
	heads       map[string][]heading // more operations, by the path of the document that has them
	// kinds maps the names of schemas of whole objects to their kinds, and names is its inverse.
	kinds map[string]meta.GroupVersionKind
	names map[meta.GroupVersionKind]string

	shared     *shared
	parameters map[string][]byte // encoded, by name

	// noFieldValidation omits the parameter fieldValidation from patches.
	noFieldValidation bool
	failed            error // the first schema that cannot be encoded
}

// definition is a schema that is published under a name.
type definition struct {
	schema  *Schema
	kinds   []meta.GroupVersionKind // that it describes; empty for a part of an object
	encoded []byte
}

const gvkKey = "x-kubernetes-group-version-kind"

// component publishes a schema under a name unless that name is already published, and returns the
// name. Only the encoded form is kept, because the trees of all schemas together would be large.
func (p *publisher) component(name string, s *Schema, kinds ...meta.GroupVersionKind) string {
	d := p.definitions[name]
	switch {
	case d == nil:
		d = &definition{schema: s, kinds: kinds}
	case len(kinds) > 0 && len(d.kinds) == 0:
		d = &definition{schema: d.schema, kinds: kinds} // other documents may share the one there is
	default:
		return name
	}
	p.definitions[name] = d // register before descending: the schema may refer to itself
	d.encoded = p.form.schema(p, usage{schema: d.schema, kinds: d.kinds})
	return name
}

// kind publishes the schemas and the paths of a kind.
func (p *publisher) kind(k KindDoc) error {
	switch {
	case k.Kind == "" || k.Plural == "":
		return errors.New("the fields Kind and Plural must be set")
	case k.Schema == nil || k.Schema.ready == nil:
		return errors.New("needs a schema that passed New")
	}
	gvk := p.doc.groupVersion().WithKind(k.Kind)
	schema := *k.Schema
	schema.Component = ""
	schema.Description = cmp.Or(k.Description, schema.Description)
	if schema.fromDocument && len(k.Selectable) > 0 {
		w := schema.notes()
		w.selectable = k.Selectable
		schema.written = &w
	}
	name := p.kindName(gvk, k.Schema.Component, k.Schema.fromDocument)
	r := resource{publisher: p, gvk: gvk, kind: k, object: p.component(name, &schema, gvk)}
	if slices.Contains(k.Verbs, "list") {
		list := p.doc.groupVersion().WithKind(cmp.Or(k.ListKind, k.Kind+"List"))
		listName := ""
		if prefix, ok := strings.CutSuffix(name, gvk.Kind); ok {
			listName = prefix + list.Kind
		}
		listName = p.kindName(list, listName, k.Schema.fromDocument)
		listSchema := p.listSchema(k.Kind, r.object)
		if w := schema.notes(); len(w.selectable) > 0 {
			listSchema.written = &written{selectable: w.selectable}
		}
		r.list = p.component(listName, listSchema, list)
	}
	r.collection()
	r.item()
	if p.doc.WatchPaths && r.has("watch") && !k.Schema.fromDocument { // as in kube-apiserver
		r.watches()
	}
	for _, sub := range k.Subresources {
		if err := r.subresource(sub); err != nil {
			return err
		}
	}
	return p.failed
}

// listSchema returns the schema of a list whose items are published under a name.
func (p *publisher) listSchema(kind, items string) *Schema {
	return &Schema{
		Type:        Object,
		Description: "A list of " + kind + ".",
		Required:    []string{"items"},
		Properties: slices.Concat(typeMeta(), []Property{
			{"metadata", p.shared.listMeta},
			{"items", &Schema{Type: Array, Description: "The objects.", Items: &Schema{Component: items}}},
		}),
	}
}
