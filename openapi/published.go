package openapi

import (
	"cmp"
	"slices"
)

// property renders a schema at the place that uses it: as a reference if the schema is a component,
// otherwise in full.
func (p *publisher) property(s *Schema) map[string]any {
	if s.Component == "" {
		return p.body(s)
	}
	ref := reference(p.component(s.Component, cmp.Or(s.base, s)))
	// OpenAPI v3.0 ignores keywords next to $ref, so the reference moves into allOf. kubectl
	// explain looks for the field's description at this level.
	out := p.beside(s)
	if len(out) == 0 {
		return ref
	}
	out["allOf"] = []any{ref}
	return out
}

// beside renders what the tags of a field change or add relative to the component the field refers
// to.
func (p *publisher) beside(s *Schema) map[string]any {
	out, base := map[string]any{}, cmp.Or(s.base, s)
	put(out, "description", s.Description)
	if s.DefaultValue != nil {
		out["default"] = s.DefaultValue
	}
	if s.Nullable && !base.Nullable {
		out["nullable"] = true
	}
	if s.MapType != base.MapType {
		put(out, "x-kubernetes-map-type", string(s.MapType))
	}
	if s.MinProperties != base.MinProperties {
		putCount(out, "minProperties", s.MinProperties)
	}
	if s.MaxProperties != base.MaxProperties {
		putCount(out, "maxProperties", s.MaxProperties)
	}
	p.merging(s, out)
	return out
}

// item renders the schema of list items or map values. It prefers a plain reference: an item has no
// field of its own that could carry a description or tags.
func (p *publisher) item(s *Schema) map[string]any {
	if s.Component != "" && s.DefaultValue == nil {
		return reference(p.component(s.Component, cmp.Or(s.base, s)))
	}
	return p.property(s)
}

// body renders a schema in full, even if it is a component.
func (p *publisher) body(s *Schema) map[string]any {
	out := map[string]any{}
	put(out, "description", s.Description)
	if s.Deprecated {
		out["deprecated"] = true
	}
	switch {
	case s.IntOrString:
		out["x-kubernetes-int-or-string"] = true
		out["anyOf"] = []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}}
	case s.OrNumber:
		out["oneOf"] = []any{map[string]any{"type": "string"}, map[string]any{"type": "number"}}
	default:
		put(out, "type", string(s.Type))
	}
	put(out, "format", s.Format)
	if s.DefaultValue != nil {
		out["default"] = s.DefaultValue
	}
	if len(s.Enum) > 0 {
		out["enum"] = s.Enum
	}
	if s.Nullable {
		out["nullable"] = true
	}
	p.objectBody(s, out)
	p.listBody(s, out)
	scalarBody(s, out)
	p.branches(s, out)
	p.merging(s, out)
	return out
}

func put(out map[string]any, keyword, value string) {
	if value != "" {
		out[keyword] = value
	}
}

func putCount(out map[string]any, keyword string, n *int64) {
	if n != nil {
		out[keyword] = *n
	}
}

// objectBody renders the keywords for objects. Expected fields are published as required although
// Validate does not enforce them: generated clients rely on the list.
func (p *publisher) objectBody(s *Schema, out map[string]any) {
	if len(s.Properties) > 0 {
		properties := make(map[string]any, len(s.Properties))
		for _, property := range s.Properties {
			properties[property.Name] = p.property(property.Schema)
		}
		out["properties"] = properties
	}
	if names := slices.Concat(s.Required, s.Expected); len(names) > 0 {
		slices.Sort(names)
		required := make([]any, len(names))
		for i, name := range names {
			required[i] = name
		}
		out["required"] = required
	}
	if s.AdditionalProperties != nil {
		out["additionalProperties"] = p.item(s.AdditionalProperties)
	}
	putCount(out, "minProperties", s.MinProperties)
	putCount(out, "maxProperties", s.MaxProperties)
	if s.PreserveUnknown {
		out["x-kubernetes-preserve-unknown-fields"] = true
	}
	if s.EmbeddedObject {
		out["x-kubernetes-embedded-resource"] = true
	}
	put(out, "x-kubernetes-map-type", string(s.MapType))
}

func (p *publisher) listBody(s *Schema, out map[string]any) {
	if s.Items != nil {
		out["items"] = p.item(s.Items)
	}
	putCount(out, "minItems", s.MinItems)
	putCount(out, "maxItems", s.MaxItems)
}

// merging renders how the value merges in server-side apply and in strategic merge patches.
func (p *publisher) merging(s *Schema, out map[string]any) {
	put(out, "x-kubernetes-list-type", string(s.ListType))
	if len(s.ListMapKeys) > 0 {
		keys := make([]any, len(s.ListMapKeys))
		for i, key := range s.ListMapKeys {
			keys[i] = key
		}
		out["x-kubernetes-list-map-keys"] = keys
	}
	put(out, "x-kubernetes-patch-strategy", s.PatchStrategy)
	put(out, "x-kubernetes-patch-merge-key", s.PatchMergeKey)
}

func scalarBody(s *Schema, out map[string]any) {
	for keyword, bound := range map[string]any{"minimum": s.Minimum, "maximum": s.Maximum, "multipleOf": s.MultipleOf} {
		if bound != nil {
			out[keyword] = bound
		}
	}
	if s.ExclusiveMinimum {
		out["exclusiveMinimum"] = true
	}
	if s.ExclusiveMaximum {
		out["exclusiveMaximum"] = true
	}
	putCount(out, "minLength", s.MinLength)
	putCount(out, "maxLength", s.MaxLength)
	put(out, "pattern", s.Pattern)
}

// branches renders the keywords that combine schemas (anyOf, oneOf, allOf, not) and the rules. It
// runs after body has written the type, because the union for IntOrString or OrNumber may occupy
// the same keyword.
func (p *publisher) branches(s *Schema, out map[string]any) {
	for _, list := range []struct {
		keyword  string
		branches []*Schema
	}{{"anyOf", s.AnyOf}, {"oneOf", s.OneOf}, {"allOf", s.AllOf}} {
		if len(list.branches) == 0 {
			continue
		}
		written := make([]any, 0, len(list.branches))
		for _, branch := range list.branches {
			written = append(written, p.property(branch))
		}
		taken, clash := out[list.keyword]
		switch {
		case clash && list.keyword == "allOf":
			already, _ := taken.([]any)
			out["allOf"] = slices.Concat(already, written)
		case clash: // body already wrote a union for the type; both must hold
			out["allOf"] = []any{map[string]any{list.keyword: taken}, map[string]any{list.keyword: written}}
			delete(out, list.keyword)
		default:
			out[list.keyword] = written
		}
	}
	if s.Not != nil {
		out["not"] = p.property(s.Not)
	}
	if len(s.Rules) > 0 {
		rules := make([]any, 0, len(s.Rules))
		for _, r := range s.Rules {
			rules = append(rules, r.tree())
		}
		out["x-kubernetes-validations"] = rules
	}
}

func (r Rule) tree() map[string]any {
	out := map[string]any{}
	put(out, "rule", r.Rule)
	put(out, "message", r.Message)
	put(out, "messageExpression", r.MessageExpression)
	put(out, "reason", r.Reason)
	put(out, "fieldPath", r.FieldPath)
	if r.OptionalOldSelf {
		out["optionalOldSelf"] = true
	}
	return out
}
