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

// begin adds the key and the length of a nested message, whose bytes the caller adds next.
func (m *message) begin(number int32, length int) {
	m.key(number, protowire.Bytes)
	*m = protowire.AppendVarint(*m, uint64(length))
}

// nested adds a nested message, which inner adds to m itself. Empty messages are also written. The
// length comes before the message, so the message is moved when its length is known.
func (m *message) nested(number int32, inner func()) {
	m.key(number, protowire.Bytes)
	start := len(*m)
	inner()
	length := len(*m) - start
	*m = protowire.AppendVarint(*m, uint64(length)) // only to make space
	moved := (*m)[start:]
	copy(moved[len(moved)-length:], moved[:length])
	protowire.AppendVarint(moved[:0], uint64(length))
}

// raw adds a nested message that is encoded already.
func (m *message) raw(number int32, inner []byte) {
	m.key(number, protowire.Bytes)
	*m = protowire.AppendBytes(*m, inner)
}

// any adds a value of any type as YAML text. JSON is a subset of YAML, so JSON is written.
func (m *message) any(number int32, v any) {
	text, err := json.AppendTree(nil, v)
	if err != nil {
		return // cannot happen: the schema passed New
	}
	m.yaml(number, text)
}

func (m *message) yaml(number int32, text []byte) {
	m.nested(number, func() { m.text(2, string(text)+"\n") })
}

func (m *message) anys(number int32, v any) {
	list, _ := v.([]any)
	for _, item := range list {
		m.any(number, item)
	}
}

// named adds the members of an object, sorted by name. Each is a message of a name and a value,
// which is added by the function value.
func (m *message) named(number int32, tree map[string]any, value func(v any)) {
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		m.nested(number, func() {
			m.text(1, name)
			m.nested(2, func() { value(tree[name]) })
		})
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
		m.nested(number, func() {
			m.text(1, name)
			m.any(2, tree[name])
		})
	}
}

// gnosticForm writes OpenAPI v2 as protobuf.
type gnosticForm struct{}

func (gnosticForm) schema(dst []byte, tree map[string]any) ([]byte, error) {
	m := message(dst)
	m.schema(swaggerSchema(tree))
	return m, nil
}

func (gnosticForm) definition(dst []byte, name string, encoded []byte) []byte {
	m := message(dst)
	m.nested(1, func() {
		m.text(1, name)
		m.raw(2, encoded)
	})
	return m
}

// methodNumbers are the field numbers of the methods, in ascending order.
var methodNumbers = []struct {
	method string
	number int32
}{{"get", 2}, {"put", 3}, {"post", 4}, {"delete", 5}, {"patch", 8}}

func (gnosticForm) path(dst []byte, name string, item *pathItem) []byte {
	m := message(dst)
	m.nested(2, func() {
		m.text(1, name)
		m.nested(2, func() {
			for _, known := range methodNumbers {
				if o := item.operation(known.method); o != nil {
					m.nested(known.number, func() { m.operation(o) })
				}
			}
			for _, parameter := range item.parameters {
				m.raw(9, parameter)
			}
		})
	})
	return m
}

func (m *message) operation(o *operation) {
	m.text(1, o.tag)
	m.text(3, o.description)
	m.text(5, o.id)
	for _, mediaType := range o.answerTypes() {
		m.text(6, mediaType)
	}
	if o.body != "" {
		for _, mediaType := range o.bodyTypes() {
			m.text(7, mediaType)
		}
	}
	for _, parameter := range o.encoded {
		m.raw(8, parameter)
	}
	if o.body != "" {
		m.nested(8, func() { m.nested(1, func() { m.nested(1, func() { m.body(o) }) }) })
	}
	m.nested(9, func() {
		for _, code := range o.codes {
			m.response(code, codeTexts[code], func() {
				m.nested(2, func() { m.nested(1, func() { m.answer(o) }) })
			})
		}
		m.response("401", "Unauthorized", func() {})
	})
	m.operationExtensions(o)
}

func (m *message) body(o *operation) {
	m.text(2, "body")
	m.text(3, "body")
	m.flag(4, !o.optionalBody)
	m.nested(5, func() { m.text(1, swaggerReferences+o.body) })
}

// response adds a response under its code. schema adds its schema, if it has one.
func (m *message) response(code, description string, schema func()) {
	m.nested(1, func() {
		m.text(1, code)
		m.nested(2, func() {
			m.nested(1, func() {
				m.text(1, description)
				schema()
			})
		})
	})
}

// answer adds the schema of a response of success.
func (m *message) answer(o *operation) {
	if o.mediaType != "" {
		m.nested(22, func() { m.text(1, string(String)) })
		return
	}
	m.text(1, swaggerReferences+o.answer)
}

func (m *message) operationExtensions(o *operation) {
	if o.action != "" {
		m.nested(13, func() {
			m.text(1, "x-kubernetes-action")
			m.yaml(2, json.AppendString(nil, o.action))
		})
	}
	if o.gvk != nil {
		m.nested(13, func() {
			m.text(1, gvkKey)
			m.yaml(2, appendGroupVersionKind(nil, *o.gvk))
		})
	}
}

// parameter returns a parameter, wrapped in messages that select its kind. Those in a path and in a
// query differ in some field numbers.
func (gnosticForm) parameter(tree map[string]any) ([]byte, error) {
	var m message
	tree = swaggerParameter(tree)
	choice, typ, unique := int32(3), int32(6), int32(20)
	if tree["in"] == "path" {
		choice, typ, unique = 4, 5, 19
	}
	m.nested(1, func() {
		m.nested(2, func() {
			m.nested(choice, func() {
				m.flag(1, tree["required"])
				m.text(2, tree["in"])
				m.text(3, tree["description"])
				m.text(4, tree["name"])
				m.text(typ, tree["type"])
				m.flag(unique, tree["uniqueItems"])
			})
		})
	})
	return m, nil
}

// schema adds the fields of a schema.
func (m *message) schema(tree map[string]any) {
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
		m.nested(21, func() { m.nested(1, func() { m.schema(rest) }) })
	}
	if tree["type"] != nil {
		m.nested(22, func() { m.text(1, tree["type"]) })
	}
	if items, ok := tree["items"].(map[string]any); ok {
		m.nested(23, func() { m.nested(1, func() { m.schema(items) }) })
	}
	if properties := object(tree["properties"]); len(properties) > 0 {
		m.nested(25, func() { m.named(1, properties, func(v any) { m.schema(object(v)) }) })
	}
	m.extensions(31, tree)
}
