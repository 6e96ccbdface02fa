package openapi

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
)

// Swagger describes all kinds of a server in one OpenAPI v2 document. Older and simpler clients
// read it; client-go and everything built on it use it to learn how fields merge.
//
// OpenAPI v2 is less expressive than v3. The document omits nullability, deprecation and conditions
// below allOf, anyOf, oneOf and not. Structure, bounds and extensions are the same as in v3.
//
// Source: OAPI-01.
type Swagger struct {
	Title     string // defaults to "kindwright"
	Version   string // of the server; defaults to "unversioned"
	Documents []Document
}

// JSON returns the document as JSON. It is deterministic: equal documents give equal bytes.
func (s Swagger) JSON() ([]byte, error) {
	d, err := s.draft(func(dst []byte, path map[string]any) ([]byte, error) { return json.AppendTree(dst, path) }, func(parameter map[string]any) (any, error) {
		raw, err := json.AppendTree(nil, parameter)
		return json.Raw(raw), err
	})
	if err != nil {
		return nil, err
	}
	var definitions []byte
	for i, name := range slices.Sorted(maps.Keys(d.schemas)) {
		if i > 0 {
			definitions = append(definitions, ',')
		}
		definitions = append(json.AppendString(definitions, name), ':')
		if definitions, err = json.AppendTree(definitions, swaggerSchema(object(d.schemas[name]))); err != nil {
			return nil, err
		}
	}
	info, err := json.AppendTree(nil, s.info())
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(definitions)+len(info)+d.size+100)
	out = append(append(out, `{"definitions":{`...), definitions...)
	out = append(append(out, `},"info":`...), info...)
	out = append(out, `,"paths":{`...)
	for i, path := range d.paths {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(json.AppendString(out, path.name), ':')
		out = append(out, path.body...)
	}
	return append(out, `},"swagger":"2.0"}`...), nil
}

// Protobuf returns the document as the gnostic message openapi.v2.Document. client-go only requests
// this form.
func (s Swagger) Protobuf() ([]byte, error) {
	d, err := s.draft(func(dst []byte, path map[string]any) ([]byte, error) { return append(dst, pathMessage(path)...), nil },
		func(parameter map[string]any) (any, error) { return parameterMessage(parameter), nil })
	if err != nil {
		return nil, err
	}
	return documentMessage(s.info(), d), nil
}

func (s Swagger) info() map[string]any {
	return map[string]any{"title": cmp.Or(s.Title, "kindwright"), "version": cmp.Or(s.Version, "unversioned")}
}

// draft is a document whose paths are encoded. They are its larger part, so no tree of them all is
// ever held.
type draft struct {
	schemas map[string]any // of v3
	paths   []draftPath    // sorted by name
	size    int            // of all paths, with some space for what goes between them
}

type draftPath struct {
	name string
	body []byte
}

// draft converts the v3 documents instead of rendering the schemas again, so that v2 and v3 agree on
// everything that both can express.
func (s Swagger) draft(encode func(dst []byte, path map[string]any) ([]byte, error), parameter func(map[string]any) (any, error)) (*draft, error) {
	p := newPublisher(s.Documents...)
	p.noFieldValidation = !s.definesKinds()
	var failed error
	p.encode = func(tree map[string]any) any {
		encoded, err := parameter(swaggerParameter(tree))
		failed = errors.Join(failed, err)
		return encoded
	}
	d := &draft{schemas: p.schemas}
	usual := 0 // size of a document's paths
	for _, doc := range s.Documents {
		if err := p.publish(doc); err != nil {
			return nil, err
		}
		buf := make([]byte, 0, usual)
		for name, item := range p.paths {
			from := len(buf)
			var err error
			if buf, err = encode(buf, swaggerPath(object(item))); err != nil {
				return nil, err
			}
			d.paths = append(d.paths, draftPath{name, buf[from:len(buf):len(buf)]})
			d.size += len(name) + len(buf) - from + 16
		}
		usual = len(buf)
		clear(p.paths)
	}
	slices.SortFunc(d.paths, func(a, b draftPath) int { return strings.Compare(a.name, b.name) })
	return d, failed
}

// definesKinds reports whether the server serves CustomResourceDefinition. If it does not, patches
// do not have the parameter fieldValidation. For kinds with a patch operation, kubectl reads v3
// instead. For a kind without one, such as a review, kubectl looks at the patch of namespaces in this
// document. If that patch has the parameter, kubectl lists the custom resource definitions and fails
// if it cannot. Without the parameter, kubectl validates the object itself against the schema.
func (s Swagger) definesKinds() bool {
	return slices.ContainsFunc(s.Documents, func(d Document) bool {
		return slices.ContainsFunc(d.Kinds, func(k KindDoc) bool { return k.Kind == "CustomResourceDefinition" })
	})
}

func object(v any) map[string]any {
	o, _ := v.(map[string]any)
	return o
}

func swaggerPath(item map[string]any) map[string]any {
	out := make(map[string]any, len(item))
	for name, v := range item {
		if name == "parameters" {
			out[name] = swaggerParameters(v)
		} else {
			out[name] = swaggerOperation(object(v))
		}
	}
	return out
}

// swaggerParameters moves the schema of each parameter into the parameter itself, where v2 expects
// it. Parameters that are encoded already stay as they are.
func swaggerParameters(v any) []any {
	list, _ := v.([]any)
	out := make([]any, 0, len(list)+1)
	for _, item := range list {
		if tree, ok := item.(map[string]any); ok {
			item = swaggerParameter(tree)
		}
		out = append(out, item)
	}
	return out
}

func swaggerParameter(tree map[string]any) map[string]any {
	parameter := maps.Clone(tree)
	schema := object(parameter["schema"])
	delete(parameter, "schema")
	maps.Copy(parameter, schema)
	parameter["uniqueItems"] = true
	return parameter
}

// swaggerOperation converts an operation. In v2 the body is a parameter, and media types belong to
// the operation instead of to each body.
func swaggerOperation(operation map[string]any) map[string]any {
	out := maps.Clone(operation)
	parameters := swaggerParameters(operation["parameters"])
	if body := object(operation["requestBody"]); body != nil {
		delete(out, "requestBody")
		types, schema := mediaTypes(body)
		out["consumes"] = types
		parameter := map[string]any{"in": "body", "name": "body", "schema": schema}
		if body["required"] == true {
			parameter["required"] = true
		}
		parameters = append(parameters, parameter)
	}
	if len(parameters) > 0 {
		out["parameters"] = parameters
	}
	responses := map[string]any{}
	for code, v := range object(operation["responses"]) {
		response := maps.Clone(object(v))
		if types, schema := mediaTypes(response); len(types) > 0 {
			delete(response, "content")
			response["schema"], out["produces"] = schema, types
		}
		responses[code] = response
	}
	out["responses"] = responses
	return out
}

// mediaTypes returns the media types of a body and its schema, which is the same for every media
// type.
func mediaTypes(body map[string]any) (types []any, schema map[string]any) {
	content := object(body["content"])
	names := slices.Sorted(maps.Keys(content))
	for _, name := range names {
		types = append(types, name)
	}
	if len(names) > 0 {
		schema = swaggerSchema(object(object(content[names[0]])["schema"]))
	}
	return types, schema
}

// swaggerKeywords are the keywords with plain values that v2 shares with v3.
var swaggerKeywords = []string{
	"description", "type", "format", "default", "enum", "required", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
	"multipleOf", "minLength", "maxLength", "pattern", "minItems", "maxItems", "minProperties", "maxProperties",
}

// swaggerSchema converts a schema recursively. It copies only the keywords that v2 readers know.
func swaggerSchema(schema map[string]any) map[string]any {
	out := make(map[string]any, len(schema))
	for name, v := range schema {
		switch {
		case slices.Contains(swaggerKeywords, name), strings.HasPrefix(name, "x-") && name != "x-kubernetes-validations":
			out[name] = v
		case name == "$ref":
			out[name] = swaggerReference(v)
		case name == "items":
			out[name] = swaggerSchema(object(v))
		case name == "additionalProperties":
			out[name] = swaggerSchema(object(v))
		case name == "properties":
			properties := make(map[string]any, len(object(v)))
			for field, property := range object(v) {
				properties[field] = swaggerSchema(object(property))
			}
			out[name] = properties
		case name == "allOf":
			// In v3, a reference with other keywords next to it is wrapped in allOf; see property.
			if list, _ := v.([]any); len(list) == 1 && object(list[0])["$ref"] != nil {
				out["$ref"] = swaggerReference(object(list[0])["$ref"])
			}
		}
	}
	if _, typed := out["type"]; typed {
		return out
	}
	switch {
	case out["x-kubernetes-int-or-string"] == true:
		out["type"], out["format"] = "string", "int-or-string"
	case schema["oneOf"] != nil && out["$ref"] == nil && saysStringOrNumber(schema["oneOf"]):
		out["type"] = "string"
	}
	return out
}

func saysStringOrNumber(v any) bool {
	return json.Equal(v, []any{map[string]any{"type": "string"}, map[string]any{"type": "number"}})
}

func swaggerReference(v any) string {
	text, _ := v.(string)
	return "#/definitions/" + strings.TrimPrefix(text, "#/components/schemas/")
}
