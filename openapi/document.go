package openapi

import (
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

// Document describes the kinds of one group version, to be published as OpenAPI v3 (OAPI-02 to OAPI-04).
type Document struct {
	Group, Version string
	Title          string // of the whole API; empty means "kindwright"
	Kinds          []KindDoc
}

// KindDoc describes one kind.
type KindDoc struct {
	Kind, ListKind, Plural string // ListKind may be empty: Kind + "List"
	Namespaced             bool
	Verbs                  []string // of discovery: get, list, watch, create, update, patch, delete, deletecollection
	Schema                 *Schema
	Description            string   // empty means the schema's
	Protobuf               bool     // the objects are read and written as protobuf too
	Patches                []string // media types of patches; empty means apply, JSON patch and merge patch
	Subresources           []SubresourceDoc
}

// SubresourceDoc describes one subresource. Without a Kind of its own it exchanges the kind itself, as status does.
type SubresourceDoc struct {
	Name     string
	Verbs    []string // get, create, update, patch; delete too, of a connection
	Kind     meta.GroupVersionKind
	Schema   *Schema
	Protobuf bool     // documents of Kind are read and written as protobuf too
	Patches  []string // media types of patches; empty means those of the kind

	Details map[string]VerbDoc // of verbs that differ from that, by verb
}

// VerbDoc says what is different about one verb of a subresource.
type VerbDoc struct {
	Body, Answer *DocumentDoc // what is sent and answered instead of Kind; nil means that
	MediaType    string       // of an answer that is no document, such as text/plain; "*/*" for any
	Parameters   []Property   // of the query, in addition to the usual ones
	Connect      bool         // the verb connects the client to something
}

// DocumentDoc describes a document that is exchanged.
type DocumentDoc struct {
	Kind     meta.GroupVersionKind
	Schema   *Schema
	Protobuf bool
}

// JSON returns the document. The same document gives the same bytes.
//
// Every operation carries the extension x-kubernetes-group-version-kind, by which kubectl finds the schema of a resource
// (explain) and the parameters of its patch (field validation). Schemas that several places share are published once,
// under the names that Kubernetes gives them; others under the group in reverse, such as dev.example.v1.Widget.
func (d Document) JSON() ([]byte, error) {
	if d.Version == "" {
		return nil, errors.New("openapi: a document needs a version")
	}
	p := newPublisher(d)
	if err := p.publish(d); err != nil {
		return nil, err
	}
	return json.AppendTree(nil, map[string]any{
		"openapi":    "3.0.0",
		"info":       map[string]any{"title": cmp.Or(d.Title, "kindwright"), "version": d.groupVersion().String()},
		"paths":      p.paths,
		"components": map[string]any{"schemas": p.schemas},
	})
}

// newPublisher returns one that has published what all kinds of some documents share.
func newPublisher(docs ...Document) *publisher {
	p := &publisher{schemas: map[string]any{}, paths: map[string]any{}, kinds: map[string]meta.GroupVersionKind{}}
	for _, shared := range sharedSchemas() {
		p.component(shared.name, shared.schema, shared.kinds...)
	}
	// Each kind once: clients refuse a schema that two claim to be of one kind.
	kinds := []meta.GroupVersionKind{{Version: "v1", Kind: "DeleteOptions"}}
	for _, d := range docs {
		if gvk := d.groupVersion().WithKind("DeleteOptions"); !slices.Contains(kinds, gvk) {
			kinds = append(kinds, gvk)
		}
	}
	p.component(metaPackage+"DeleteOptions", deleteOptions(), kinds...)
	return p
}

// publish adds the kinds of a document.
func (p *publisher) publish(d Document) error {
	p.doc = d
	p.discovery()
	for _, k := range d.Kinds {
		if err := p.kind(k); err != nil {
			return fmt.Errorf("openapi: kind %q of %s: %w", k.Kind, d.groupVersion(), err)
		}
	}
	return nil
}

func (d Document) groupVersion() meta.GroupVersion {
	return meta.GroupVersion{Group: d.Group, Version: d.Version}
}

// Hash names the content of a document, for URLs that may be cached for ever.
func Hash(document []byte) string {
	sum := sha256.Sum256(document)
	return strings.ToUpper(hex.EncodeToString(sum[:]))
}

// IndexEntry is one document of the index.
type IndexEntry struct {
	Group, Version string
	Hash           string // of the document, see Hash
}

// Index returns what /openapi/v3 answers: where each document is, below the path prefix of the server.
func Index(prefix string, entries []IndexEntry) ([]byte, error) {
	paths := map[string]any{}
	for _, e := range entries {
		path := groupVersionPath(e.Group, e.Version)
		paths[path] = map[string]any{"serverRelativeURL": strings.TrimSuffix(prefix, "/") + "/openapi/v3/" + path + "?hash=" + e.Hash}
	}
	return json.AppendTree(nil, map[string]any{"paths": paths})
}

func groupVersionPath(group, version string) string {
	if group == "" {
		return "api/" + version
	}
	return "apis/" + group + "/" + version
}

// componentName is the group in reverse, the version and the kind. Groups without a domain are those of Kubernetes.
func componentName(gvk meta.GroupVersionKind) string {
	if !strings.Contains(gvk.Group, ".") {
		return "io.k8s.api." + cmp.Or(gvk.Group, "core") + "." + gvk.Version + "." + gvk.Kind
	}
	labels := strings.Split(gvk.Group, ".")
	slices.Reverse(labels)
	return strings.Join(append(labels, gvk.Version, gvk.Kind), ".")
}

// kindName is the name of a kind's schema: the one that its Go type gives itself, unless another kind has taken that.
func (p *publisher) kindName(gvk meta.GroupVersionKind, s *Schema) string {
	name := cmp.Or(s.Component, componentName(gvk))
	if of, taken := p.kinds[name]; taken && of != gvk {
		return componentName(gvk)
	}
	p.kinds[name] = gvk
	return name
}

func gvkExtension(gvk meta.GroupVersionKind) map[string]any {
	return map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}
}

// publisher collects the paths and schemas of one document.
type publisher struct {
	doc     Document
	schemas map[string]any
	paths   map[string]any
	kinds   map[string]meta.GroupVersionKind // of schemas that are whole objects, by their names
}

const gvkKey = "x-kubernetes-group-version-kind"

// component publishes a schema under a name, once, and returns a reference to it.
func (p *publisher) component(name string, s *Schema, kinds ...meta.GroupVersionKind) map[string]any {
	if _, done := p.schemas[name]; !done {
		body := map[string]any{}
		p.schemas[name] = body // stops a schema that refers to itself
		maps.Copy(body, p.body(s))
	}
	if body := object(p.schemas[name]); len(kinds) > 0 && body[gvkKey] == nil {
		extensions := make([]any, len(kinds))
		for i, gvk := range kinds {
			extensions[i] = gvkExtension(gvk)
		}
		body[gvkKey] = extensions
	}
	return reference(name)
}

func reference(name string) map[string]any {
	return map[string]any{"$ref": "#/components/schemas/" + name}
}

// kind publishes the schemas and the paths of a kind.
func (p *publisher) kind(k KindDoc) error {
	switch {
	case k.Kind == "" || k.Plural == "":
		return errors.New("a kind needs Kind and Plural")
	case k.Schema == nil || k.Schema.ready == nil:
		return errors.New("a kind needs a schema that passed New")
	}
	gvk := p.doc.groupVersion().WithKind(k.Kind)
	schema := *k.Schema
	schema.Component = ""
	schema.Description = cmp.Or(k.Description, schema.Description)
	name := p.kindName(gvk, k.Schema)
	r := resource{publisher: p, gvk: gvk, kind: k, object: p.component(name, &schema, gvk)}
	if slices.Contains(k.Verbs, "list") {
		list := p.doc.groupVersion().WithKind(cmp.Or(k.ListKind, k.Kind+"List"))
		listName := componentName(list)
		if prefix, ok := strings.CutSuffix(name, gvk.Kind); ok {
			listName = prefix + list.Kind
		}
		r.list = p.component(listName, listSchema(k.Kind, r.object), list)
	}
	r.collection()
	r.item()
	for _, sub := range k.Subresources {
		if err := r.subresource(sub); err != nil {
			return err
		}
	}
	return nil
}

// listSchema is the schema of a list of objects published under a reference.
func listSchema(kind string, object map[string]any) *Schema {
	name, _ := object["$ref"].(string)
	return &Schema{
		Type:        Object,
		Description: "A list of " + kind + ".",
		Required:    []string{"items"},
		Properties: append(typeMeta(),
			Property{"metadata", listMeta()},
			Property{"items", &Schema{Type: Array, Description: "The objects.", Items: &Schema{Component: strings.TrimPrefix(name, "#/components/schemas/")}}}),
	}
}
