package openapi

import (
	"maps"
	"slices"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// form is how a document is written: as OpenAPI v3, or as OpenAPI v2 in JSON or protobuf.
type form interface {
	// schema returns a schema. It publishes the schemas to which it refers.
	schema(p *publisher, u usage) []byte

	// parameter returns a parameter, which is given as a tree of v3.
	parameter(tree map[string]any) ([]byte, error)

	// definition appends a schema that schema has encoded, under its name. path appends the
	// operations on a path. In JSON, both end with a comma.
	definition(dst []byte, name string, encoded []byte) []byte
	path(dst []byte, name string, item *pathItem) []byte
}

// appendDefinitions appends all schemas, sorted by name.
func (p *publisher) appendDefinitions(dst []byte) []byte {
	for _, name := range slices.Sorted(maps.Keys(p.definitions)) {
		dst = p.form.definition(dst, name, p.definitions[name].encoded)
	}
	return dst
}

// appendPaths appends the paths of the present document, sorted by name.
func (p *publisher) appendPaths(dst []byte) []byte {
	for _, name := range slices.Sorted(maps.Keys(p.paths)) {
		dst = p.form.path(dst, name, p.paths[name])
	}
	return dst
}

const (
	documentReferences = "#/components/schemas/"
	swaggerReferences  = "#/definitions/"
)

// documentForm writes OpenAPI v3.
type documentForm struct{}

func (documentForm) schema(p *publisher, u usage) []byte {
	w := schemaWriter{publisher: p}
	w.usage(u)
	return w.dst
}

func (documentForm) parameter(tree map[string]any) ([]byte, error) { return json.AppendTree(nil, tree) }

func (documentForm) definition(dst []byte, name string, encoded []byte) []byte {
	return appendMember(dst, name, encoded)
}

func (f documentForm) path(dst []byte, name string, item *pathItem) []byte {
	return appendPath(dst, name, item, f.operation)
}

func (f documentForm) operation(dst []byte, o *operation) []byte {
	dst = appendOperationNames(append(dst, '{'), o)
	if len(o.encoded) > 0 {
		dst = append(appendRaw(append(dst, `,"parameters":[`...), o.encoded), ']')
	}
	if o.body != "" {
		dst = append(dst, `,"requestBody":{`...)
		dst = f.content(dst, o.bodyTypes(), func(dst []byte) []byte { return appendReference(dst, documentReferences, o.body) })
		if !o.optionalBody {
			dst = append(dst, `,"required":true`...)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `,"responses":{`...)
	types := o.answerTypes()
	for _, code := range o.codes {
		dst = append(append(append(dst, '"'), code...), `":{`...)
		dst = f.content(dst, types, func(dst []byte) []byte { return o.appendAnswer(dst, documentReferences) })
		dst = append(append(append(dst, `,"description":"`...), codeTexts[code]...), `"},`...)
	}
	dst = append(dst, `"401":{"description":"Unauthorized"}}`...)
	return appendOperationEnd(dst, o)
}

// content appends the schema of a body, which is the same for every media type.
func (documentForm) content(dst []byte, types []string, schema func(dst []byte) []byte) []byte {
	dst = append(dst, `"content":{`...)
	for i, mediaType := range types {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = schema(append(json.AppendString(dst, mediaType), `:{"schema":`...))
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// jsonMethods are the methods in the order of their names. The parameters of the path come between
// get and patch.
var jsonMethods = []string{"delete", "get", "parameters", "patch", "post", "put"}

// appendPath appends a path with its operations, each of which operation appends.
func appendPath(dst []byte, name string, item *pathItem, operation func(dst []byte, o *operation) []byte) []byte {
	dst = append(json.AppendString(dst, name), ":{"...)
	for _, method := range jsonMethods {
		if method == "parameters" && len(item.parameters) > 0 {
			dst = append(appendRaw(append(dst, `"parameters":[`...), item.parameters), "],"...)
		}
		if o := item.operation(method); o != nil {
			dst = append(operation(append(json.AppendString(dst, method), ':'), o), ',')
		}
	}
	return append(withoutComma(dst), "},"...)
}

func appendMember(dst []byte, name string, encoded []byte) []byte {
	return append(append(append(json.AppendString(dst, name), ':'), encoded...), ',')
}

// appendOperationNames appends the members of an operation that both versions have before its
// parameters.
func appendOperationNames(dst []byte, o *operation) []byte {
	dst = json.AppendString(append(dst, `"description":`...), o.description)
	return json.AppendString(append(dst, `,"operationId":`...), o.id)
}

// appendOperationEnd appends the last members of an operation, which both versions have.
func appendOperationEnd(dst []byte, o *operation) []byte {
	dst = append(json.AppendString(append(dst, `,"tags":[`...), o.tag), ']')
	if o.action != "" {
		dst = json.AppendString(append(dst, `,"x-kubernetes-action":`...), o.action)
	}
	if o.gvk != nil {
		dst = appendGroupVersionKind(append(dst, `,"`+gvkKey+`":`...), *o.gvk)
	}
	return append(dst, '}')
}

func appendGroupVersionKind(dst []byte, gvk meta.GroupVersionKind) []byte {
	dst = json.AppendString(append(dst, `{"group":`...), gvk.Group)
	dst = json.AppendString(append(dst, `,"kind":`...), gvk.Kind)
	dst = json.AppendString(append(dst, `,"version":`...), gvk.Version)
	return append(dst, '}')
}

// appendAnswer appends the schema of a response of success.
func (o *operation) appendAnswer(dst []byte, references string) []byte {
	if o.mediaType != "" {
		return append(dst, `{"type":"string"}`...)
	}
	return appendReference(dst, references, o.answer)
}

func appendReference(dst []byte, references, name string) []byte {
	return append(json.AppendString(append(dst, `{"$ref":`...), references+name), '}')
}

func appendTexts(dst []byte, texts []string) []byte {
	dst = append(dst, '[')
	for _, text := range texts {
		dst = append(json.AppendString(dst, text), ',')
	}
	return append(withoutComma(dst), ']')
}

// appendRaw appends values that are encoded already, separated by commas.
func appendRaw(dst []byte, values [][]byte) []byte {
	for i, value := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, value...)
	}
	return dst
}

// withoutComma removes a comma at the end.
func withoutComma(dst []byte) []byte {
	if n := len(dst); n > 0 && dst[n-1] == ',' {
		return dst[:n-1]
	}
	return dst
}
