package openapi

import (
	"maps"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// maxDefaultWork limits the steps of judging all defaults of a document, see maxWork.
const maxDefaultWork = 1_000_000

// defaults reports the defaults of a document that are not valid as they are written. An object that
// lacks the field would be invalid otherwise, without a mistake of its author. Defaults below
// additionalProperties are not checked.
func (r *treeRules) defaults(n *node, s *Schema, inside surrounding) {
	if n.schema.EmbeddedObject {
		inside = nil
	}
	root := len(r.path) == 0
	if value := n.tree["default"]; value != nil {
		r.in(func() { r.defaultOf(value, s, inside, root) }, json.Name("default"))
	}
	if n.items != nil && s.Items != nil {
		r.in(func() { r.defaults(n.items, s.Items, inside.with(anItem)) }, json.Name("items"))
	}
	for _, p := range n.properties {
		below := inside.with(p.name)
		if isObjectField(p.name) && root {
			continue // they must not have any
		} else if isObjectField(p.name) && n.schema.EmbeddedObject {
			below = surrounding{p.name}
		}
		if child := s.child(p.name); child != nil {
			r.in(func() { r.defaults(p.node, child, below) }, json.Name("properties"), json.Key(p.name))
		}
	}
}

func (r *treeRules) defaultOf(value any, s *Schema, inside surrounding, root bool) {
	w := walk{sorted: true, work: r.work}
	if inside != nil {
		if why := metadataProblem(inside.object(value)); why != "" {
			r.fail(meta.CauseFieldValueInvalid, value, "must result in valid metadata: "+why)
			return
		}
	}
	object, _ := value.(map[string]any)
	if inside == nil {
		_, unknown := prune(s, value)
		if unknown {
			_, unknown = prune(s, withoutMetadata(value))
		}
		unknown = unknown || len(object) > 0 && !s.describesObjects() && !s.PreserveUnknown
		if unknown && r.breaks(unprunedDefaults) {
			r.fail(meta.CauseFieldValueInvalid, value, "must not have unknown fields")
		}
	}
	value = s.withOwnMetadata(value)
	object, _ = value.(map[string]any)
	if object != nil && (root || s.EmbeddedObject) {
		validateEmbedded(&w, object, earlier{})
	}
	if len(w.errs) == 0 {
		s.validate(&w, value, earlier{})
	}
	r.work = w.work
	for _, problem := range w.report() {
		r.adopt(problem)
	}
}

// withOwnMetadata returns a value whose embedded objects have their metadata as it is stored: without null,
// which programs write for the time of a creation that has not been.
func (s *Schema) withOwnMetadata(v any) any {
	if !s.ready.embeds {
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		for name, member := range v {
			switch child := s.child(name); {
			case child == nil || member == nil:
			case s.EmbeddedObject && name == "metadata":
				out[name], _ = child.canonical(&walk{}, member)
			default:
				out[name] = child.withOwnMetadata(member)
			}
		}
		return out
	case []any:
		if s.Items == nil {
			return v
		}
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = s.Items.withOwnMetadata(item)
		}
		return out
	}
	return v
}

// adopt reports a problem of the value at the current position. Kubernetes does not look for
// duplicates in defaults.
func (r *treeRules) adopt(p status.FieldError) {
	if p.Type == meta.CauseFieldValueDuplicate {
		return
	}
	r.fail(p.Type, p.Value, strings.TrimPrefix(p.Detail, "<root>"))
	if last := len(r.errs) - 1; p.Field != "" && r.more == 0 {
		r.errs[last].Field += "." + p.Field
	}
}

// anItem stands for the index of an item in a surrounding.
const anItem = "[]"

// surrounding leads from an embedded object to a place in its apiVersion, kind or metadata. It is
// nil elsewhere.
type surrounding []string

func (s surrounding) with(name string) surrounding {
	if s == nil {
		return nil
	}
	return append(s[:len(s):len(s)], name)
}

// object returns an object with a value at the place, and what every object needs.
func (s surrounding) object(value any) map[string]any {
	for i := len(s) - 1; i > 0; i-- {
		if s[i] == anItem {
			value = []any{value}
		} else {
			value = map[string]any{s[i]: value}
		}
	}
	object := map[string]any{"apiVersion": "validation/v1", "kind": "Validation"}
	object[s[0]] = value
	return object
}

// metadataProblem says what is wrong with the parts of an object that every object has, or "".
func metadataProblem(object map[string]any) string {
	w := walk{sorted: true}
	for _, p := range typeMeta() {
		w.path = append(w.path, json.Name(p.Name))
		p.Schema.validate(&w, object[p.Name], earlier{})
		w.path = w.path[:0]
	}
	if metadata, has := object["metadata"]; has {
		w.path = append(w.path, json.Name("metadata"))
		ObjectMeta().validate(&w, metadata, earlier{})
		w.path = w.path[:0]
	}
	validateEmbedded(&w, object, earlier{})
	texts := make([]string, len(w.errs))
	for i, p := range w.errs {
		texts[i] = p.String()
	}
	if len(texts) > 1 {
		return "[" + strings.Join(texts, ", ") + "]"
	}
	return strings.Join(texts, "")
}

// withoutMetadata returns a value without the fields called metadata: those of embedded objects may have
// unknown fields, which are dropped without a word.
func withoutMetadata(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, field := range v {
			if name != "metadata" {
				out[name] = withoutMetadata(field)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = withoutMetadata(v[i])
		}
		return out
	}
	return v
}
