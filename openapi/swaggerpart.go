package openapi

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
)

// SwaggerPart is a part of the OpenAPI v2 document of another server: some of its paths, and the
// definitions that they refer to. It does not change. See Swagger.Others.
type SwaggerPart struct {
	paths       map[string]any // path items by path; parameters by reference are written out
	definitions map[string]any
	size        int
}

// Size is about how many bytes the part takes. It is 0 for nil.
func (p *SwaggerPart) Size() int {
	if p == nil {
		return 0
	}
	return p.size
}

// What a document of another server may take.
const (
	maxPartMemory      = 64 << 20
	maxPartDefinitions = 5000
	maxPartPaths       = 5000
	maxPartOperations  = 10000

	objectBytes = 256 // of an object of the part, about
)

// ParseSwaggerPart reads an OpenAPI v2 document as JSON and keeps the paths that begin with under,
// such as "/apis/apps/v1". Keywords that OpenAPI v2 does not know, or whose values have the wrong
// type, are left out, because one of them would make the document of all servers unreadable.
func ParseSwaggerPart(document []byte, under string) (*SwaggerPart, error) {
	tree, err := json.DecodeTree(document, json.TreeOptions{Memory: maxPartMemory})
	if err != nil {
		return nil, fmt.Errorf("OpenAPI v2 document: %w", err)
	}
	root, ok := tree.(map[string]any)
	if !ok || root["swagger"] != "2.0" {
		return nil, errors.New("OpenAPI v2 document: swagger must be \"2.0\"")
	}
	r := &partReader{
		part:       &SwaggerPart{paths: map[string]any{}, definitions: map[string]any{}},
		parameters: object(root["parameters"]), definitions: object(root["definitions"]),
	}
	paths := object(root["paths"])
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if path != under && !strings.HasPrefix(path, under+"/") {
			continue
		}
		if item := r.pathItem(object(paths[path])); len(item) > 0 {
			r.part.paths[path] = item
		}
	}
	for len(r.wanted) > 0 {
		name := r.wanted[len(r.wanted)-1]
		r.wanted = r.wanted[:len(r.wanted)-1]
		r.part.definitions[name] = r.schema(r.definitions[name])
	}
	if len(r.part.paths) > maxPartPaths || len(r.part.definitions) > maxPartDefinitions || r.operations > maxPartOperations || r.full() {
		return nil, errors.New("OpenAPI v2 document: it has too many paths or definitions, or too much in them")
	}
	return r.part, nil
}

// partReader copies what is known of a document.
type partReader struct {
	part                    *SwaggerPart
	parameters, definitions map[string]any
	wanted                  []string // definitions that are referred to and not yet copied
	operations              int
}

// full reports whether the part is too large. What is written out for each reference can be larger than
// the document by far, so it is counted while it is copied.
func (r *partReader) full() bool { return r.part.size > maxPartMemory }

// count counts an object before what it contains is added to it.
func (r *partReader) count(one map[string]any) { r.part.size += objectBytes + weight(one) }

// weight is about how many bytes a tree takes in a document.
func weight(v any) int {
	n := 8
	switch v := v.(type) {
	case string:
		n += len(v)
	case []any:
		for _, one := range v {
			n += weight(one)
		}
	case map[string]any:
		for name, one := range v {
			n += len(name) + weight(one)
		}
	}
	return n
}

func (r *partReader) pathItem(from map[string]any) map[string]any {
	out := map[string]any{}
	for _, known := range methodNumbers {
		if o := object(from[known.method]); o != nil && r.operations <= maxPartOperations {
			r.operations++
			out[known.method] = r.operation(o)
		}
	}
	if len(out) == 0 {
		return nil
	}
	r.addParameters(out, from)
	return out
}

func (r *partReader) operation(from map[string]any) map[string]any {
	out := map[string]any{}
	copyTexts(out, from, "description", "operationId")
	copyLists(out, from, "tags", "consumes", "produces")
	copyExtensions(out, from)
	r.count(out)
	r.addParameters(out, from)
	responses := map[string]any{}
	for code, v := range object(from["responses"]) {
		response := map[string]any{"description": ""}
		copyTexts(response, object(v), "description")
		r.count(response)
		if schema := object(object(v)["schema"]); schema != nil {
			response["schema"] = r.schema(schema)
		}
		responses[code] = response
	}
	out["responses"] = responses
	return out
}

// addParameters copies parameters of paths, queries and bodies.
func (r *partReader) addParameters(out, from map[string]any) {
	list, _ := from["parameters"].([]any)
	var kept []any
	for _, v := range list {
		if r.full() {
			return
		}
		p := object(v)
		if to, ok := p["$ref"].(string); ok {
			name, _ := strings.CutPrefix(to, "#/parameters/")
			p = object(r.parameters[name])
		}
		one := map[string]any{}
		copyTexts(one, p, "name", "in", "description")
		if name, ok := one["name"].(string); !ok || name == "" {
			continue
		}
		r.count(one)
		if p["required"] == true {
			one["required"] = true
		}
		switch one["in"] {
		case "path", "query":
			copyTexts(one, p, "type")
			one["uniqueItems"] = true
		case "body":
			one["schema"] = r.schema(p["schema"])
		default:
			continue
		}
		kept = append(kept, one)
	}
	if len(kept) > 0 {
		out["parameters"] = kept
	}
}

// The keywords of a schema by the type of their values.
var (
	partTexts  = []string{"format", "title", "description", "pattern"}
	partFlags  = []string{"exclusiveMaximum", "exclusiveMinimum", "uniqueItems", "readOnly"}
	partCounts = []string{"maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"}
	partBounds = []string{"multipleOf", "maximum", "minimum"}
)

// schema copies a schema. What is not one becomes a schema without keywords.
func (r *partReader) schema(v any) map[string]any {
	from, out := object(v), map[string]any{}
	if r.full() {
		return out
	}
	if to, ok := from["$ref"].(string); ok {
		name, local := strings.CutPrefix(to, swaggerReferences)
		if local && object(r.definitions[name]) != nil {
			out["$ref"] = to
			if _, has := r.part.definitions[name]; !has {
				r.part.definitions[name] = nil // it is on its way
				r.wanted = append(r.wanted, name)
			}
		}
	}
	copyTexts(out, from, partTexts...)
	copyNumbers(out, from)
	copyLists(out, from, "required")
	copyExtensions(out, from)
	if typ, ok := from["type"].(string); ok {
		out["type"] = typ
	}
	for _, name := range [...]string{"default", "example"} {
		if value, ok := from[name]; ok {
			out[name] = value
		}
	}
	if values, ok := from["enum"].([]any); ok {
		out["enum"] = values
	}
	r.count(out)
	switch more := from["additionalProperties"].(type) {
	case bool:
		out["additionalProperties"] = more
	case map[string]any:
		out["additionalProperties"] = r.schema(more)
	}
	if items := object(from["items"]); items != nil {
		out["items"] = r.schema(items)
	}
	if branches, ok := from["allOf"].([]any); ok {
		all := make([]any, len(branches))
		for i, branch := range branches {
			all[i] = r.schema(branch)
		}
		out["allOf"] = all
	}
	if properties := object(from["properties"]); properties != nil {
		all := make(map[string]any, len(properties))
		for name, property := range properties {
			all[name] = r.schema(property)
		}
		out["properties"] = all
	}
	return out
}

func copyNumbers(out, from map[string]any) {
	for _, name := range partFlags {
		if v, ok := from[name].(bool); ok {
			out[name] = v
		}
	}
	for _, name := range partCounts {
		if v, ok := from[name].(int64); ok && v >= 0 {
			out[name] = v
		}
	}
	for _, name := range partBounds {
		switch v := from[name].(type) {
		case int64, float64:
			out[name] = v
		}
	}
}

func copyTexts(out, from map[string]any, names ...string) {
	for _, name := range names {
		if v, ok := from[name].(string); ok {
			out[name] = v
		}
	}
}

// copyLists copies lists of texts.
func copyLists(out, from map[string]any, names ...string) {
	for _, name := range names {
		list, ok := from[name].([]any)
		isText := func(v any) bool { _, text := v.(string); return text }
		if ok && !slices.ContainsFunc(list, func(v any) bool { return !isText(v) }) {
			out[name] = list
		}
	}
}

func copyExtensions(out, from map[string]any) {
	for name, v := range from {
		if strings.HasPrefix(name, "x-") {
			out[name] = v
		}
	}
}

// refer returns a copy of a schema of a part whose references have other names.
func refer(schema map[string]any, names map[string]string) map[string]any {
	out := maps.Clone(schema)
	if to, ok := schema["$ref"].(string); ok {
		if name, ok := names[strings.TrimPrefix(to, swaggerReferences)]; ok {
			out["$ref"] = swaggerReferences + name
		}
	}
	for _, name := range [...]string{"additionalProperties", "items"} {
		if inner := object(schema[name]); inner != nil {
			out[name] = refer(inner, names)
		}
	}
	if branches, ok := schema["allOf"].([]any); ok {
		all := make([]any, len(branches))
		for i := range branches {
			all[i] = refer(object(branches[i]), names)
		}
		out["allOf"] = all
	}
	if properties := object(schema["properties"]); properties != nil {
		all := make(map[string]any, len(properties))
		for name, property := range properties {
			all[name] = refer(object(property), names)
		}
		out["properties"] = all
	}
	return out
}

// referPath is refer for a path item.
func referPath(item map[string]any, names map[string]string) map[string]any {
	out := maps.Clone(item)
	for key, v := range item {
		if key == "parameters" {
			out[key] = referParameters(v, names)
			continue
		}
		o := maps.Clone(object(v))
		if list, ok := o["parameters"]; ok {
			o["parameters"] = referParameters(list, names)
		}
		responses := maps.Clone(object(o["responses"]))
		for code, response := range responses {
			responses[code] = referIn(object(response), names)
		}
		o["responses"] = responses
		out[key] = o
	}
	return out
}

func referParameters(v any, names map[string]string) []any {
	list, _ := v.([]any)
	out := make([]any, len(list))
	for i := range list {
		out[i] = referIn(object(list[i]), names)
	}
	return out
}

// referIn is refer for what has a schema.
func referIn(of map[string]any, names map[string]string) map[string]any {
	schema := object(of["schema"])
	if schema == nil {
		return of
	}
	out := maps.Clone(of)
	out["schema"] = refer(schema, names)
	return out
}
