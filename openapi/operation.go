package openapi

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/meta"
)

// resource publishes the paths of one kind. It holds the references that its operations share.
type resource struct {
	*publisher
	kind         KindDoc
	gvk          meta.GroupVersionKind
	object, list string // names of the published schemas
}

// operation is one method on one path.
type operation struct {
	method, action, id, description string
	gvk                             *meta.GroupVersionKind
	parameters                      []string
	body, answer                    string // names of schemas; without a body, empty
	optionalBody                    bool
	codes                           []string // of success, in ascending order
	stream                          bool
	protobuf                        bool     // the kind can be encoded as protobuf
	cbor                            bool     // the server reads and writes CBOR
	patches                         []string // sorted media types

	// answersProtobuf is set if the response has another kind than the body and that kind supports
	// protobuf.
	answersProtobuf bool
	mediaType       string     // of a response that is not a document
	more            []Property // query parameters specific to this operation

	tag     string
	encoded [][]byte // all parameters
}

const protobufType = "application/vnd.kubernetes.protobuf"

// The media types of documents and of lists, of which some can be watched, in ascending order.
var (
	plainTypes     = []string{"application/json", "application/yaml"}
	protobufTypes  = []string{"application/json", protobufType, "application/yaml"}
	watchTypes     = []string{"application/json", "application/json;stream=watch", "application/yaml"}
	watchableTypes = []string{"application/json", "application/json;stream=watch", protobufType, protobufType + ";stream=watch", "application/yaml"}
)

// types returns the media types of documents.
func (o *operation) types(protobuf bool) []string {
	if protobuf {
		return o.alsoCBOR(protobufTypes, cborType)
	}
	return o.alsoCBOR(plainTypes, cborType)
}

// The media types of CBOR.
const (
	cborType       = "application/cbor"
	cborStreamType = "application/cbor-seq"
	cborPatchType  = "application/apply-patch+cbor"
)

// alsoCBOR adds some types of CBOR, if the server has it, in ascending order.
func (o *operation) alsoCBOR(types []string, more ...string) []string {
	if !o.cbor {
		return types
	}
	return slices.Sorted(slices.Values(append(more, types...)))
}

// answerTypes returns the sorted media types of the response, including those of watch streams.
func (o *operation) answerTypes() []string {
	if o.mediaType != "" {
		return []string{o.mediaType}
	}
	switch {
	case o.stream && o.protobuf:
		return o.alsoCBOR(watchableTypes, cborType, cborStreamType)
	case o.stream:
		return o.alsoCBOR(watchTypes, cborType, cborStreamType)
	}
	return o.types(o.protobuf || o.answersProtobuf)
}

// patchTypes returns the sorted media types of patches, of which the first list that is not empty
// counts.
func patchTypes(lists ...[]string) []string {
	for _, types := range lists {
		if len(types) > 0 {
			return slices.Compact(slices.Sorted(slices.Values(types)))
		}
	}
	return usualPatches
}

// usualPatches are for a KindDoc that names none. A server always names those of the kind.
var usualPatches = []string{"application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"}

func (p *publisher) discovery() {
	p.add(p.groupVersion(""), nil, operation{
		method: "get", id: "get" + p.camel + "APIResources", description: "get available resources",
		answer: metaPackage + "APIResourceList", codes: []string{"200"},
	})
}

// groupVersion returns the path of something below the group version.
func (p *publisher) groupVersion(below string) string {
	return p.path + below
}

// camel returns the group version as it appears in operation ids, such as ExampleDevV1.
func (d Document) camel() string {
	if d.Group == "" {
		return "Core" + camelCase(d.Version)
	}
	return camelCase(d.Group + "." + d.Version)
}

func camelCase(name string) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(name, func(r rune) bool { return r == '.' || r == '-' }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// path returns the path of the collection, or of something below it, with its path parameters. For
// namespaced kinds it is the path within a namespace.
func (r *resource) path(below ...string) (path string, parameters []string) {
	parts := []string{r.kind.Plural}
	if r.kind.Namespaced {
		parts, parameters = []string{"namespaces", "{namespace}", r.kind.Plural}, []string{"namespace"}
	}
	if len(below) > 0 {
		parameters = append([]string{"name"}, parameters...)
	}
	return r.groupVersion(strings.Join(append(parts, below...), "/")), append(parameters, "pretty")
}

func (r *resource) has(verb string) bool { return slices.Contains(r.kind.Verbs, verb) }

// id returns an operation id such as readExampleDevV1NamespacedWidgetStatus. The scheme follows
// Kubernetes, because generators derive method names from it.
func (r *resource) id(verb, before, after string) string {
	if r.kind.Namespaced && !strings.HasSuffix(after, "ForAllNamespaces") {
		before += "Namespaced"
	}
	return verb + r.camel + before + r.kind.Kind + after
}

// collection publishes the operations on the collection. Listing across namespaces is a separate
// path for namespaced kinds.
func (r *resource) collection() {
	path, parameters := r.path()
	list := operation{
		method: "get", action: "list", id: r.id("list", "", ""), description: "list objects of kind " + r.kind.Kind, gvk: &r.gvk,
		parameters: listParameters, answer: r.list, codes: []string{"200"}, stream: r.has("watch"),
	}
	if r.has("watch") {
		list.description = "list or watch objects of kind " + r.kind.Kind
		list.parameters = watchParameters
	}
	if r.has("list") {
		r.add(path, parameters, list)
		if r.kind.Namespaced {
			list.id = r.id("list", "", "ForAllNamespaces")
			r.add(r.groupVersion(r.kind.Plural), []string{"pretty"}, list)
		}
	}
	if r.has("create") {
		r.add(path, parameters, operation{
			method: "post", action: "post", id: r.id("create", "", ""), description: "create an object of kind " + r.kind.Kind, gvk: &r.gvk,
			parameters: writeParameters, body: r.object, answer: r.object, codes: []string{"200", "201", "202"},
		})
	}
	if r.has("deletecollection") {
		r.add(path, parameters, operation{
			method: "delete", action: "deletecollection", id: r.id("delete", "Collection", ""), gvk: &r.gvk,
			description: "delete a collection of objects of kind " + r.kind.Kind, parameters: deleteCollectionParameters,
			body: metaPackage + "DeleteOptions", optionalBody: true, answer: metaPackage + "Status", codes: []string{"200"},
		})
	}
}

// watches publishes the paths of watches that have no parameter for that. Clients that are generated from
// the document have methods for them.
func (r *resource) watches() {
	add := func(path string, parameters []string, action, after, what string) {
		r.add(r.groupVersion("watch/"+strings.TrimPrefix(path, r.groupVersion(""))), parameters, operation{
			method: "get", action: action, id: r.id("watch", "", after), gvk: &r.gvk,
			description: "watch " + what + " of kind " + r.kind.Kind + "; deprecated: use the parameter watch of a list instead",
			parameters:  watchParameters, answer: metaPackage + "WatchEvent", codes: []string{"200"}, stream: true,
		})
	}
	path, parameters := r.path()
	add(path, parameters, "watchlist", "List", "objects")
	if r.kind.Namespaced {
		add(r.groupVersion(r.kind.Plural), []string{"pretty"}, "watchlist", "ListForAllNamespaces", "objects")
	}
	path, parameters = r.path("{name}")
	add(path, parameters, "watch", "", "one object")
}

func (r *resource) item() {
	path, parameters := r.path("{name}")
	r.instance(path, parameters)
	if r.has("delete") {
		answer := metaPackage + "Status"
		if r.kind.AnswersDeleted {
			answer = r.object
		}
		r.add(path, parameters, operation{
			method: "delete", action: "delete", id: r.id("delete", "", ""), description: "delete an object of kind " + r.kind.Kind, gvk: &r.gvk,
			parameters: deleteParameters, body: metaPackage + "DeleteOptions", optionalBody: true,
			answer: answer, codes: []string{"200", "202"},
		})
	}
}

// subresource publishes the operations of a subresource. Each verb may exchange documents other
// than those of the subresource, so body and answer are resolved per verb.
func (r *resource) subresource(sub SubresourceDoc) error {
	if sub.Name == "" {
		return errors.New("the Name of a subresource must be set")
	}
	usual := exchanged{gvk: r.gvk, schema: r.object, protobuf: r.kind.Protobuf}
	if sub.Kind != (meta.GroupVersionKind{}) {
		usual.gvk = sub.Kind
	}
	var err error
	if sub.Schema != nil {
		if usual, err = r.exchanged(DocumentDoc{usual.gvk, sub.Schema, sub.Protobuf || sub.Schema == r.kind.Schema && r.kind.Protobuf}); err != nil {
			return fmt.Errorf("subresource %s %w", sub.Name, err)
		}
	}
	path, parameters := r.path("{name}", sub.Name)
	suffix := strings.ToUpper(sub.Name[:1]) + sub.Name[1:]
	for _, verb := range sub.Verbs {
		o, ok := r.below(sub, suffix, verb)
		if !ok {
			continue
		}
		detail := sub.Details[verb]
		body, answer := usual, usual
		if detail.Body != nil {
			if body, err = r.exchanged(*detail.Body); err != nil {
				return fmt.Errorf("subresource %s %w", sub.Name, err)
			}
		}
		if detail.Answer != nil {
			if answer, err = r.exchanged(*detail.Answer); err != nil {
				return fmt.Errorf("subresource %s %w", sub.Name, err)
			}
		}
		o.gvk, o.answer, o.protobuf, o.answersProtobuf = &body.gvk, answer.schema, body.protobuf, answer.protobuf
		if detail.Answer != nil && detail.Body == nil {
			o.gvk = &answer.gvk
		}
		if verb == "create" || verb == "update" {
			o.body = body.schema
		}
		o.more, o.mediaType = detail.Parameters, detail.MediaType
		if detail.Connect {
			o.body, o.gvk = "", &usual.gvk
			o.action, o.parameters, o.codes = "connect", nil, []string{"200"}
			o.id = r.id("connect", camelMethod[o.method], suffix)
			o.description = "connect " + strings.ToUpper(o.method) + " requests to " + sub.Name + " of " + r.kind.Kind
		}
		r.publisher.add(path, parameters, o)
	}
	return nil
}

var camelMethod = map[string]string{"get": "Get", "post": "Post", "put": "Put", "patch": "Patch", "delete": "Delete"}

// exchanged is a request or response document as operations refer to it.
type exchanged struct {
	gvk      meta.GroupVersionKind
	schema   string // its name
	protobuf bool
}

func (r *resource) exchanged(d DocumentDoc) (exchanged, error) {
	out := exchanged{gvk: d.Kind, protobuf: d.Protobuf}
	if d.Kind == (meta.GroupVersionKind{Version: "v1", Kind: "Status"}) {
		// newPublisher has already published Status.
		out.schema = metaPackage + "Status"
		return out, nil
	}
	if d.Schema == nil || d.Schema.ready == nil {
		return out, errors.New("needs a schema that passed New")
	}
	out.schema = r.component(r.kindName(d.Kind, d.Schema.Component, d.Schema.fromDocument), d.Schema, d.Kind)
	return out, nil
}

// below returns the operation for one verb of a subresource. It returns false for a verb that is
// not published.
func (r *resource) below(sub SubresourceDoc, suffix, verb string) (operation, bool) {
	of := sub.Name + " of " + r.kind.Kind
	switch verb {
	case "get":
		return operation{method: "get", action: "get", id: r.id("read", "", suffix), description: "read " + of, parameters: getParameters, codes: []string{"200"}}, true
	case "update":
		return operation{method: "put", action: "put", id: r.id("replace", "", suffix), description: "replace " + of, parameters: writeParameters, codes: []string{"200", "201"}}, true
	case "patch":
		return operation{
			method: "patch", action: "patch", id: r.id("patch", "", suffix), description: "change parts of " + of, parameters: patchParameters,
			body: metaPackage + "Patch", codes: []string{"200", "201"}, patches: patchTypes(sub.Patches, r.kind.Patches),
		}, true
	case "create":
		return operation{
			method: "post", action: "post", id: r.id("create", "", suffix), description: "create " + sub.Name + " of an object of kind " + r.kind.Kind, parameters: writeParameters,
			codes: []string{"200", "201", "202"},
		}, true
	case "delete":
		return operation{method: "delete", action: "delete", id: r.id("delete", "", suffix), description: "delete " + of, codes: []string{"200"}}, true
	}
	return operation{}, false
}

// instance publishes the operations that read and write one object.
func (r *resource) instance(path string, parameters []string) {
	for _, o := range []operation{
		{method: "get", action: "get", id: "read", description: "read ", parameters: getParameters, codes: []string{"200"}},
		{method: "put", action: "put", id: "replace", description: "replace ", parameters: writeParameters, body: r.object, codes: []string{"200", "201"}},
		{
			method: "patch", action: "patch", id: "patch", description: "change parts of ", parameters: patchParameters,
			body: metaPackage + "Patch", codes: []string{"200", "201"}, patches: patchTypes(r.kind.Patches),
		},
	} {
		verb := map[string]string{"get": "get", "put": "update", "patch": "patch"}[o.method]
		if !r.has(verb) {
			continue
		}
		o.id, o.gvk, o.answer, o.description = r.id(o.id, "", ""), &r.gvk, r.object, o.description+r.kind.Kind
		r.add(path, parameters, o)
	}
}

// add publishes an operation on the kind itself.
func (r *resource) add(path string, parameters []string, o operation) {
	o.protobuf = r.kind.Protobuf
	r.publisher.add(path, parameters, o)
}

// pathItem holds the operations on one path.
type pathItem struct {
	parameters [][]byte // encoded, of every operation
	operations []*operation
}

// operation returns the operation of a method, or nil.
func (i *pathItem) operation(method string) *operation {
	for _, o := range i.operations {
		if o.method == method {
			return o
		}
	}
	return nil
}

// add publishes an operation at a path. parameters apply to every operation on that path.
func (p *publisher) add(path string, parameters []string, o operation) {
	item := p.paths[path]
	if item == nil {
		item = &pathItem{parameters: p.namedParameters(nil, parameters)}
		p.paths[path] = item
	}
	o.tag, o.cbor = cmp.Or(o.tag, p.tag), p.doc.CBOR
	if o.method == "patch" && p.noFieldValidation {
		o.parameters = slices.DeleteFunc(slices.Clone(o.parameters), func(name string) bool { return name == "fieldValidation" })
	}
	o.encoded = p.namedParameters(make([][]byte, 0, len(o.parameters)+len(o.more)), o.parameters)
	o.encoded = p.propertyParameters(o.encoded, o.more)
	item.operations = slices.DeleteFunc(item.operations, func(have *operation) bool { return have.method == o.method })
	item.operations = append(item.operations, &o)
}

// bodyTypes returns the sorted media types of the request body.
func (o *operation) bodyTypes() []string {
	if o.patches != nil {
		if slices.Contains(o.patches, usualPatches[0]) {
			return o.alsoCBOR(o.patches, cborPatchType)
		}
		return o.patches
	}
	return o.types(o.protobuf)
}

var codeTexts = map[string]string{"200": "OK", "201": "Created", "202": "Accepted"}
