package openapi

import (
	"slices"

	"github.com/kindwright/kindwright/internal/json"
)

// written is what a schema document says and a Schema does not keep, or keeps in another form. It is
// published as it was written. A node has none if there is nothing of the kind.
type written struct {
	title                 string
	example, externalDocs any
	value                 any      // the default, without the defaults below it
	required              []string // with the fields that every object has
	additional            *bool    // additionalProperties, if it is no schema
	typ                   Type     // beside x-kubernetes-int-or-string
	inAllOf               bool     // the first element of allOf says integer or string
	instead               *Schema  // published in the place of the schema
	selectable            []string // paths of fields for field selectors
}

// note keeps what only published documents need of a node.
func (n *node) note() {
	s := n.schema
	s.fromDocument = true
	w := written{title: n.text("title"), example: n.tree["example"], externalDocs: n.tree["externalDocs"]}
	switch s.DefaultValue.(type) {
	case map[string]any, []any:
		w.value = s.DefaultValue
	}
	if allowed, ok := n.tree["additionalProperties"].(bool); ok {
		w.additional = &allowed
	}
	if s.IntOrString {
		w.typ = Type(n.typ)
		w.inAllOf = !isTypes(n.anyOf) && len(n.allOf) > 0 && isTypes(n.allOf[0].anyOf)
	}
	if w.title != "" || w.example != nil || w.externalDocs != nil || w.value != nil || w.additional != nil || w.typ != "" || w.inAllOf {
		kept := w // most nodes have none, and allocate none
		s.written = &kept
	}
}

// notes returns what is written of a schema.
func (s *Schema) notes() written {
	if s.written == nil {
		return written{}
	}
	return *s.written
}

// shown returns the schema of a usage as a document publishes it. Kubernetes publishes schemas from
// documents in other forms than those of Go types.
//
// Source: OAPI-04.
func (u usage) shown(swagger bool) *Schema {
	s := u.schema
	if s == nil || !s.fromDocument {
		return s
	}
	out, w := *s, s.notes()
	if swagger && len(u.kinds) > 0 && s.PreserveUnknown {
		// kubectl would reject unknown fields if there were known ones.
		return &Schema{Type: Object, fromDocument: true, written: &written{selectable: w.selectable}}
	}
	if w.value != nil {
		out.DefaultValue = w.value
	}
	if w.required != nil {
		out.Required = w.required
	}
	if s.IntOrString {
		out.Type = w.typ
	}
	if swagger {
		out.simplify()
	} else if s.IntOrString {
		out.unfold(w.inAllOf)
	}
	if s.EmbeddedObject && !(swagger && s.PreserveUnknown) {
		for _, name := range []string{"kind", "apiVersion"} {
			if !slices.Contains(out.Required, name) {
				out.Required = append(slices.Clip(out.Required), name)
			}
		}
	}
	return &out
}

// simplify drops what OpenAPI v2 cannot say, and what makes kubectl reject good objects.
func (s *Schema) simplify() {
	s.AllOf, s.AnyOf, s.OneOf, s.Not = nil, nil, nil, nil
	properties := s.Properties
	if s.Nullable {
		s.Type, s.Items, s.Properties = "", nil, nil
	}
	if s.PreserveUnknown {
		s.Items, s.Properties = nil, nil
	}
	if s.Items == nil && s.Type == Array || s.PreserveUnknown && s.Type == Object {
		s.Type = ""
	}
	nullable := func(name string) bool {
		return slices.ContainsFunc(s.Properties, func(p Property) bool { return p.Name == name && p.Schema.Nullable })
	}
	s.Required = slices.DeleteFunc(slices.Clone(s.Required), nullable)
	if s.AdditionalProperties != nil && s.AdditionalProperties.Nullable {
		s.Required = nil
	}
	if s.EmbeddedObject && !s.PreserveUnknown && len(s.Properties) == 0 {
		s.Properties = slices.DeleteFunc(slices.Clone(properties), func(p Property) bool { return !isObjectField(p.Name) })
	}
}

// unfold writes x-kubernetes-int-or-string as conditions, for clients that do not know it.
func (s *Schema) unfold(inAllOf bool) {
	types := []*Schema{{Type: Integer, fromDocument: true}, {Type: String, fromDocument: true}}
	switch {
	case inAllOf:
		first := *s.AllOf[0]
		first.AnyOf = types
		s.AllOf = slices.Concat([]*Schema{&first}, s.AllOf[1:])
	case len(s.AnyOf) == 0:
		s.AnyOf = types
	default:
		s.AllOf = slices.Concat([]*Schema{{AnyOf: types, fromDocument: true}}, s.AllOf)
	}
}

// appendRules appends validation expressions as JSON.
func appendRules(dst []byte, rules []Rule) []byte {
	w := schemaWriter{dst: append(dst, '[')}
	for _, r := range rules {
		w.dst = append(w.dst, '{')
		w.text("fieldPath", r.FieldPath)
		w.text("message", r.Message)
		w.text("messageExpression", r.MessageExpression)
		if r.notOptional {
			w.tree("optionalOldSelf", false)
		}
		w.flag("optionalOldSelf", r.OptionalOldSelf)
		w.text("reason", r.Reason)
		w.text("rule", r.Rule)
		w.dst = append(withoutComma(w.dst), "},"...)
	}
	return append(withoutComma(w.dst), ']')
}

const selectableExtension = "x-kubernetes-selectable-fields"

// appendSelectable appends the extension with the fields that field selectors can name.
func appendSelectable(dst []byte, paths []string) []byte {
	dst = append(dst, '[')
	for _, path := range paths {
		dst = append(json.AppendString(append(dst, `{"fieldPath":`...), path), "},"...)
	}
	return append(withoutComma(dst), ']')
}
