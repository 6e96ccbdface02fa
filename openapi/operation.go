package openapi

import (
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
	object, list map[string]any // references to the published schemas
}

// operation is one method on one path.
type operation struct {
	method, action, id, description string
	gvk                             *meta.GroupVersionKind
	parameters                      []string
	// body is the request body; a patch has one entry per media type.
	body         map[string]any
	optionalBody bool
	answer       map[string]any
	codes        []string
	stream       bool
	protobuf     bool // the kind can be encoded as protobuf
	patches      []string

	// answersProtobuf is set if the response has another kind than the body and that kind supports
	// protobuf.
	answersProtobuf bool
	mediaType       string     // of a response that is not a document
	more            []Property // query parameters specific to this operation
}

const protobufType = "application/vnd.kubernetes.protobuf"

// types returns the media types of documents.
func (o *operation) types(protobuf bool) []string {
	types := []string{"application/json", "application/yaml"}
	if protobuf {
		types = append(types, protobufType)
	}
	return types
}

// answerTypes returns the media types of the response, including those of watch streams.
func (o *operation) answerTypes() []string {
	types := o.types(o.protobuf || o.answersProtobuf)
	if o.stream {
		types = append(types, "application/json;stream=watch")
		if o.protobuf {
			types = append(types, protobufType+";stream=watch")
		}
	}
	return types
}

// patchTypes returns the media types of patches that the kind accepts.
func (r *resource) patchTypes() []string {
	if len(r.kind.Patches) > 0 {
		return r.kind.Patches
	}
	return []string{"application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"}
}

func (p *publisher) discovery() {
	p.add(p.groupVersion(""), nil, operation{
		method: "get", id: "get" + p.camel() + "APIResources", description: "get available resources",
		answer: reference(metaPackage + "APIResourceList"), codes: []string{"200"},
	})
}

// groupVersion returns the path of something below the group version.
func (p *publisher) groupVersion(below string) string {
	return "/" + groupVersionPath(p.doc.Group, p.doc.Version) + "/" + below
}

// camel returns the group version as it appears in operation ids, such as ExampleDevV1.
func (p *publisher) camel() string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(p.doc.Group+"."+p.doc.Version, func(r rune) bool { return r == '.' || r == '-' }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	if p.doc.Group == "" {
		return "Core" + b.String()
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
	if r.kind.Namespaced && after != "ForAllNamespaces" {
		before += "Namespaced"
	}
	return verb + r.camel() + before + r.kind.Kind + after
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
			body: reference(metaPackage + "DeleteOptions"), optionalBody: true, answer: reference(metaPackage + "Status"), codes: []string{"200"},
		})
	}
}

func (r *resource) item() {
	path, parameters := r.path("{name}")
	r.instance(path, parameters)
	if r.has("delete") {
		r.add(path, parameters, operation{
			method: "delete", action: "delete", id: r.id("delete", "", ""), description: "delete an object of kind " + r.kind.Kind, gvk: &r.gvk,
			parameters: deleteParameters, body: reference(metaPackage + "DeleteOptions"), optionalBody: true,
			answer: reference(metaPackage + "Status"), codes: []string{"200", "202"},
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
			o.body, o.gvk = nil, &usual.gvk
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
	schema   map[string]any // a reference
	protobuf bool
}

func (r *resource) exchanged(d DocumentDoc) (exchanged, error) {
	out := exchanged{gvk: d.Kind, protobuf: d.Protobuf}
	if d.Kind == (meta.GroupVersionKind{Version: "v1", Kind: "Status"}) {
		// newPublisher has already published Status.
		out.schema = reference(metaPackage + "Status")
		return out, nil
	}
	if d.Schema == nil || d.Schema.ready == nil {
		return out, errors.New("needs a schema that passed New")
	}
	out.schema = r.component(r.kindName(d.Kind, d.Schema), d.Schema, d.Kind)
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
		patches := sub.Patches
		if len(patches) == 0 {
			patches = r.patchTypes()
		}
		return operation{
			method: "patch", action: "patch", id: r.id("patch", "", suffix), description: "change parts of " + of, parameters: patchParameters,
			body: reference(metaPackage + "Patch"), codes: []string{"200", "201"}, patches: patches,
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
			body: reference(metaPackage + "Patch"), codes: []string{"200", "201"}, patches: r.patchTypes(),
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

// add publishes an operation at a path. parameters apply to every operation on that path.
func (p *publisher) add(path string, parameters []string, o operation) {
	item, ok := p.paths[path].(map[string]any)
	if !ok {
		item = map[string]any{}
		if len(parameters) > 0 {
			item["parameters"] = p.parameterTrees(parameters)
		}
		p.paths[path] = item
	}
	item[o.method] = p.operation(o)
}

// operation renders an operation. Every operation can be answered with 401, because authentication
// comes before the resource.
func (p *publisher) operation(o operation) map[string]any {
	group := p.doc.Group
	if group == "" {
		group = "core"
	}
	out := map[string]any{
		"description": o.description,
		"operationId": o.id,
		"tags":        []any{strings.ReplaceAll(group, ".", "_") + "_" + p.doc.Version},
	}
	if o.method == "patch" && p.noFieldValidation {
		o.parameters = slices.DeleteFunc(slices.Clone(o.parameters), func(name string) bool { return name == "fieldValidation" })
	}
	if parameters := append(p.parameterTrees(o.parameters), p.propertyTrees(o.more)...); len(parameters) > 0 {
		out["parameters"] = parameters
	}
	if o.action != "" {
		out["x-kubernetes-action"] = o.action
	}
	if o.gvk != nil {
		out[gvkKey] = gvkExtension(*o.gvk)
	}
	if o.body != nil {
		types := o.patches
		if types == nil {
			types = o.types(o.protobuf)
		}
		body := map[string]any{"content": content(types, o.body)}
		if !o.optionalBody {
			body["required"] = true
		}
		out["requestBody"] = body
	}
	responses := map[string]any{"401": map[string]any{"description": "Unauthorized"}}
	answers := content(o.answerTypes(), o.answer)
	if o.mediaType != "" {
		answers = content([]string{o.mediaType}, map[string]any{"type": "string"})
	}
	for _, code := range o.codes {
		responses[code] = map[string]any{"description": codeTexts[code], "content": answers}
	}
	out["responses"] = responses
	return out
}

var codeTexts = map[string]string{"200": "OK", "201": "Created", "202": "Accepted"}

func content(types []string, schema map[string]any) map[string]any {
	out := make(map[string]any, len(types))
	for _, mediaType := range types {
		out[mediaType] = map[string]any{"schema": schema}
	}
	return out
}
