package openapi

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/protowire"
)

// message collects the fields of a protobuf message. Field numbers are those of gnostic's
// OpenAPIv2.proto; only the fields that Swagger uses are implemented. Following protobuf, fields
// that are empty, zero or false are omitted.
type message []byte

func (m *message) key(number int32, t protowire.Type) { *m = protowire.AppendKey(*m, number, t) }

func (m *message) text(number int32, v any) {
	if text, _ := v.(string); text != "" {
		m.key(number, protowire.Bytes)
		*m = protowire.AppendBytes(*m, text)
	}
}

func (m *message) texts(number int32, v any) {
	list, _ := v.([]any)
	for _, item := range list {
		text, _ := item.(string)
		m.key(number, protowire.Bytes)
		*m = protowire.AppendBytes(*m, text)
	}
}

func (m *message) flag(number int32, v any) {
	if v == true {
		m.key(number, protowire.Varint)
		*m = protowire.AppendVarint(*m, 1)
	}
}

func (m *message) count(number int32, v any) {
	if n, _ := v.(int64); n != 0 {
		m.key(number, protowire.Varint)
		*m = protowire.AppendVarint(*m, uint64(n))
	}
}

// float adds a number as a double, because gnostic has no integers for bounds.
func (m *message) float(number int32, v any) {
	var f float64
	switch n := v.(type) {
	case int64:
		f = float64(n)
	case float64:
		f = n
	}
	if f != 0 {
		m.key(number, protowire.Fixed64)
		*m = protowire.AppendFixed64(*m, math.Float64bits(f))
	}
}

// message adds a nested message. Empty messages are also written.
func (m *message) message(number int32, inner message) {
	m.key(number, protowire.Bytes)
	*m = protowire.AppendBytes(*m, []byte(inner))
}

// any adds a value of any type as YAML text. JSON is a subset of YAML, so JSON is written.
func (m *message) any(number int32, v any) {
	text, err := json.AppendTree(nil, v)
	if err != nil {
		return // cannot happen: the schema passed New
	}
	var inner message
	inner.text(2, string(text)+"\n")
	m.message(number, inner)
}

func (m *message) anys(number int32, v any) {
	list, _ := v.([]any)
	for _, item := range list {
		m.any(number, item)
	}
}

// named adds the members of an object, sorted by name. Each is a message of a name and a value.
func (m *message) named(number int32, tree map[string]any, value func(any) message) {
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		var entry message
		entry.text(1, name)
		entry.message(2, value(tree[name]))
		m.message(number, entry)
	}
}

// extensions adds the members whose names begin with x-.
func (m *message) extensions(number int32, tree map[string]any) {
	var names []string
	for name := range tree {
		if strings.HasPrefix(name, "x-") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		var entry message
		entry.text(1, name)
		entry.any(2, tree[name])
		m.message(number, entry)
	}
}

func documentMessage(about map[string]any, d *draft) message {
	var info, definitions message
	info.text(1, about["title"])
	info.text(2, about["version"])
	paths := make(message, 0, d.size)
	var entry message
	for _, path := range d.paths {
		entry = entry[:0]
		entry.text(1, path.name)
		entry.message(2, path.body)
		paths.message(2, entry)
	}
	definitions.named(1, d.schemas, func(v any) message { return schemaMessage(swaggerSchema(object(v))) })
	m := make(message, 0, len(paths)+len(definitions)+len(info)+100)
	m.text(1, "2.0")
	m.message(2, info)
	m.message(8, paths)
	m.message(9, definitions)
	return m
}

// methodNumbers are the field numbers of the methods, in ascending order.
var methodNumbers = []struct {
	method string
	number int32
}{{"get", 2}, {"put", 3}, {"post", 4}, {"delete", 5}, {"patch", 8}}

func pathMessage(tree map[string]any) (m message) {
	for _, known := range methodNumbers {
		if operation, ok := tree[known.method].(map[string]any); ok {
			m.message(known.number, operationMessage(operation))
		}
	}
	m.parameters(9, tree["parameters"])
	return m
}

func operationMessage(tree map[string]any) (m message) {
	m.texts(1, tree["tags"])
	m.text(3, tree["description"])
	m.text(5, tree["operationId"])
	m.texts(6, tree["produces"])
	m.texts(7, tree["consumes"])
	m.parameters(8, tree["parameters"])
	var responses message
	responses.named(1, object(tree["responses"]), func(v any) (value message) {
		value.message(1, responseMessage(object(v)))
		return value
	})
	m.message(9, responses)
	m.extensions(13, tree)
	return m
}

func responseMessage(tree map[string]any) (m message) {
	m.text(1, tree["description"])
	if schema, ok := tree["schema"].(map[string]any); ok {
		var item message
		item.message(1, schemaMessage(schema))
		m.message(2, item)
	}
	return m
}

// parameters adds a list of parameters, of which some are encoded already.
func (m *message) parameters(number int32, v any) {
	list, _ := v.([]any)
	for _, item := range list {
		encoded, ok := item.(message)
		if !ok {
			encoded = parameterMessage(object(item))
		}
		m.message(number, encoded)
	}
}

// parameterMessage returns a parameter, wrapped in a message that selects its kind.
func parameterMessage(tree map[string]any) (choice message) {
	var parameter, inner message
	switch tree["in"] {
	case "body":
		inner.text(2, tree["name"])
		inner.text(3, tree["in"])
		inner.flag(4, tree["required"])
		inner.message(5, schemaMessage(object(tree["schema"])))
		parameter.message(1, inner)
	case "path":
		parameter.message(2, plainParameter(4, tree, 5, 19))
	default:
		parameter.message(2, plainParameter(3, tree, 6, 20))
	}
	choice.message(1, parameter)
	return choice
}

// plainParameter returns a path or query parameter. The two messages differ in some field numbers.
func plainParameter(choice int32, tree map[string]any, typ, unique int32) (m message) {
	var inner message
	inner.flag(1, tree["required"])
	inner.text(2, tree["in"])
	inner.text(3, tree["description"])
	inner.text(4, tree["name"])
	inner.text(typ, tree["type"])
	inner.flag(unique, tree["uniqueItems"])
	m.message(choice, inner)
	return m
}

func schemaMessage(tree map[string]any) (m message) {
	m.text(1, tree["$ref"])
	m.text(2, tree["format"])
	m.text(4, tree["description"])
	if tree["default"] != nil {
		m.any(5, tree["default"])
	}
	m.float(6, tree["multipleOf"])
	m.float(7, tree["maximum"])
	m.flag(8, tree["exclusiveMaximum"])
	m.float(9, tree["minimum"])
	m.flag(10, tree["exclusiveMinimum"])
	m.count(11, tree["maxLength"])
	m.count(12, tree["minLength"])
	m.text(13, tree["pattern"])
	m.count(14, tree["maxItems"])
	m.count(15, tree["minItems"])
	m.count(17, tree["maxProperties"])
	m.count(18, tree["minProperties"])
	m.texts(19, tree["required"])
	m.anys(20, tree["enum"])
	if rest, ok := tree["additionalProperties"].(map[string]any); ok {
		var item message
		item.message(1, schemaMessage(rest))
		m.message(21, item)
	}
	if tree["type"] != nil {
		var item message
		item.text(1, tree["type"])
		m.message(22, item)
	}
	if items, ok := tree["items"].(map[string]any); ok {
		var item message
		item.message(1, schemaMessage(items))
		m.message(23, item)
	}
	if properties := object(tree["properties"]); len(properties) > 0 {
		var item message
		item.named(1, properties, func(v any) message { return schemaMessage(object(v)) })
		m.message(25, item)
	}
	m.extensions(31, tree)
	return m
}
