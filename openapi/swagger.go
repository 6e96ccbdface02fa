package openapi

import (
	"cmp"
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
	tree, err := s.tree()
	if err != nil {
		return nil, err
	}
	return json.AppendTree(nil, tree)
}

// Protobuf returns the document as the gnostic message openapi.v2.Document. client-go only requests
// this form.
func (s Swagger) Protobuf() ([]byte, error) {
	tree, err := s.tree()
	if err != nil {
		return nil, err
	}
	return documentMessage(tree), nil
}

// tree converts the v3 documents instead of rendering the schemas again, so that v2 and v3 agree on
// everything that both can express.
func (s Swagger) tree() (map[string]any, error) {
	p := newPublisher(s.Documents...)
	for _, d := range s.Documents {
		if err := p.publish(d); err != nil {
			return nil, err
		}
	}
	if !s.definesKinds() {
		dropFieldValidation(p.paths)
	}
	paths, definitions := make(map[string]any, len(p.paths)), make(map[string]any, len(p.schemas))
	for path, item := range p.paths {
		paths[path] = swaggerPath(object(item))
	}
	for name, schema := range p.schemas {
		definitions[name] = swaggerSchema(object(schema))
	}
	return map[string]any{
		"swagger":     "2.0",
		"info":        map[string]any{"title": cmp.Or(s.Title, "kindwright"), "version": cmp.Or(s.Version, "unversioned")},
		"paths":       paths,
		"definitions": definitions,
	}, nil
}

// definesKinds reports whether the server serves CustomResourceDefinition.
func (s Swagger) definesKinds() bool {
	return slices.ContainsFunc(s.Documents, func(d Document) bool {
		return slices.ContainsFunc(d.Kinds, func(k KindDoc) bool { return k.Kind == "CustomResourceDefinition" })
	})
}

// dropFieldValidation removes the fieldValidation parameter from all patches. It is used if the
// server does not serve CustomResourceDefinition. For kinds with a patch operation, kubectl reads
// v3 instead. For a kind without one, such as a review, kubectl looks at the patch of namespaces in
// this document. If that patch has the parameter, kubectl lists the custom resource definitions and
// fails if it cannot. Without the parameter, kubectl validates the object itself against the
// schema.
func dropFieldValidation(paths map[string]any) {
	for _, item := range paths {
		patch := object(object(item)["patch"])
		if list, _ := patch["parameters"].([]any); list != nil {
			patch["parameters"] = slices.DeleteFunc(list, func(p any) bool { return object(p)["name"] == "fieldValidation" })
		}
	}
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
// it.
func swaggerParameters(v any) []any {
	list, _ := v.([]any)
	out := make([]any, 0, len(list)+1)
	for _, item := range list {
		parameter := maps.Clone(object(item))
		schema := object(parameter["schema"])
		delete(parameter, "schema")
		maps.Copy(parameter, schema)
		parameter["uniqueItems"] = true
		out = append(out, parameter)
	}
	return out
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
	for _, name := range slices.Sorted(maps.Keys(content)) {
		types = append(types, name)
		schema = swaggerSchema(object(object(content[name])["schema"]))
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
