package openapi

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
)

// Swagger describes all kinds of a server in one document of OpenAPI v2 (OAPI-01), which older and simpler clients read:
// client-go to know how fields merge, and all that build on it.
//
// It says less than v3 does. Conditions below allOf, anyOf, oneOf and not, null and deprecation have no words in v2 that
// its readers know; the structure, the bounds and the extensions are the same.
type Swagger struct {
	Title     string // empty means "kindwright"
	Version   string // of the server; empty means "unversioned"
	Documents []Document
}

// JSON returns the document as JSON. The same documents give the same bytes.
func (s Swagger) JSON() ([]byte, error) {
	tree, err := s.tree()
	if err != nil {
		return nil, err
	}
	return json.AppendTree(nil, tree)
}

// Protobuf returns the document as the message openapi.v2.Document of gnostic, the only form that client-go asks for.
func (s Swagger) Protobuf() ([]byte, error) {
	tree, err := s.tree()
	if err != nil {
		return nil, err
	}
	return documentMessage(tree), nil
}

// tree makes the document from the parts of the documents of v3, so that the two cannot differ in what both can say.
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

// definesKinds tells whether there are custom resource definitions among the kinds.
func (s Swagger) definesKinds() bool {
	return slices.ContainsFunc(s.Documents, func(d Document) bool {
		return slices.ContainsFunc(d.Kinds, func(k KindDoc) bool { return k.Kind == "CustomResourceDefinition" })
	})
}

// dropFieldValidation takes the parameter from patches. kubectl reads v3 for the kinds that have them. Of a kind that it
// finds no patch of, such as a review, it concludes here from the patch of namespaces that the server may validate it,
// asks for custom resource definitions to know, and gives up where nobody serves those. Without the parameter it validates
// the object itself, with the schema.
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

// mediaTypes takes the content of a body apart: its media types, and its schema, which is the same for all.
func mediaTypes(body map[string]any) (types []any, schema map[string]any) {
	content := object(body["content"])
	for _, name := range slices.Sorted(maps.Keys(content)) {
		types = append(types, name)
		schema = swaggerSchema(object(object(content[name])["schema"]))
	}
	return types, schema
}

// swaggerKeywords are those of v3 that v2 has, too, with a plain value.
var swaggerKeywords = []string{
	"description", "type", "format", "default", "enum", "required", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
	"multipleOf", "minLength", "maxLength", "pattern", "minItems", "maxItems", "minProperties", "maxProperties",
}

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
			// In v3 a reference that has words of its own beside it stands one level down.
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
