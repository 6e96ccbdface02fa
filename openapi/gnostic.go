package openapi

import (
	"bytes"
	"cmp"
	"math"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/protowire"
	"github.com/kindwright/kindwright/internal/yaml"
)

// message collects the fields of a protobuf message. Field numbers are those of gnostic's
// OpenAPIv2.proto; only the fields that Swagger uses are implemented. Following protobuf, fields
// that are empty, zero or false are omitted.
type message []byte

func (m *message) key(number int32, t protowire.Type) { *m = protowire.AppendKey(*m, number, t) }

func (m *message) text(number int32, text string) {
	if text != "" {
		m.key(number, protowire.Bytes)
		*m = protowire.AppendBytes(*m, text)
	}
}

func (m *message) flag(number int32, v bool) {
	if v {
		m.key(number, protowire.Varint)
		*m = protowire.AppendVarint(*m, 1)
	}
}

func (m *message) count(number int32, n *int64) {
	if n != nil && *n != 0 {
		m.key(number, protowire.Varint)
		*m = protowire.AppendVarint(*m, uint64(*n))
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

// extension adds an extension whose value is JSON.
func (m *message) extension(number int32, name string, value []byte) {
	m.nested(number, func() {
		m.text(1, name)
		if name == selectableExtension { // Kubernetes' tests compare the text
			if text, err := yaml.FromJSON(value); err == nil {
				value = bytes.TrimSuffix(text, []byte("\n"))
			}
		}
		m.yaml(2, value)
	})
}

// gnosticForm writes OpenAPI v2 as protobuf.
type gnosticForm struct{}

func (gnosticForm) schema(p *publisher, u usage) []byte {
	var m message
	m.schema(p, u)
	return m
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
		m.extension(13, "x-kubernetes-action", json.AppendString(nil, o.action))
	}
	if o.gvk != nil {
		m.extension(13, gvkKey, appendGroupVersionKind(nil, *o.gvk))
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
				text := func(number int32, name string) {
					value, _ := tree[name].(string)
					m.text(number, value)
				}
				m.flag(1, tree["required"] == true)
				text(2, "in")
				text(3, "description")
				text(4, "name")
				text(typ, "type")
				m.flag(unique, tree["uniqueItems"] == true)
			})
		})
	})
	return m, nil
}

// schema adds the fields of a schema.
func (m *message) schema(p *publisher, u usage) {
	u.schema = u.shown(true)
	swagger := p.swaggerOnly(u)
	if swagger.reference != "" {
		m.text(1, swaggerReferences+swagger.reference)
	}
	s := u.schema
	if s == nil {
		return
	}
	notes := s.notes()
	m.text(2, cmp.Or(swagger.format, s.Format))
	m.text(3, notes.title)
	m.text(4, s.Description)
	if s.DefaultValue != nil {
		m.any(5, s.DefaultValue)
	}
	m.bounds(s)
	for _, name := range s.publishedRequired() {
		m.text(19, name)
	}
	for _, value := range s.Enum {
		m.any(20, value)
	}
	switch {
	case notes.additional != nil:
		m.nested(21, func() { m.choice(2, *notes.additional) })
	case s.AdditionalProperties != nil:
		m.nested(21, func() { m.nested(1, func() { m.schema(p, p.item(s.AdditionalProperties)) }) })
	}
	if typ := cmp.Or(swagger.typ, string(s.publishedType())); typ != "" {
		m.nested(22, func() { m.text(1, typ) })
	}
	if s.Items != nil {
		m.nested(23, func() { m.nested(1, func() { m.schema(p, p.item(s.Items)) }) })
	}
	if len(s.Properties) > 0 {
		m.nested(25, func() {
			for _, property := range s.publishedProperties() {
				m.nested(1, func() {
					m.text(1, property.Name)
					m.nested(2, func() { m.schema(p, p.property(property.Schema)) })
				})
			}
		})
	}
	if docs := object(notes.externalDocs); docs != nil {
		m.nested(29, func() {
			for i, name := range []string{"description", "url"} {
				text, _ := docs[name].(string)
				m.text(int32(i+1), text)
			}
		})
	}
	if notes.example != nil {
		m.any(30, notes.example)
	}
	u.eachExtension(true, func(name string, value []byte) { m.extension(31, name, value) })
}

// choice adds a flag that is one of several fields, and so is present even if it is false.
func (m *message) choice(number int32, v bool) {
	m.key(number, protowire.Varint)
	n := uint64(0)
	if v {
		n = 1
	}
	*m = protowire.AppendVarint(*m, n)
}

// bounds adds the keywords from multipleOf to minProperties.
func (m *message) bounds(s *Schema) {
	m.float(6, s.MultipleOf)
	m.float(7, s.Maximum)
	m.flag(8, s.ExclusiveMaximum)
	m.float(9, s.Minimum)
	m.flag(10, s.ExclusiveMinimum)
	m.count(11, s.MaxLength)
	m.count(12, s.MinLength)
	m.text(13, s.Pattern)
	m.count(14, s.MaxItems)
	m.count(15, s.MinItems)
	m.count(17, s.MaxProperties)
	m.count(18, s.MinProperties)
}
