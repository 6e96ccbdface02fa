package openapi

import (
	"iter"

	"github.com/kindwright/kindwright/internal/json"
)

// UnknownField is a field of an object that its schema does not describe.
type UnknownField struct {
	Path  string   // such as "spec.items[0].colour"
	Name  string   // such as "colour"
	Known []string // the fields that the schema describes at this place
	Value any      // the value that Prune would remove
}

// Unknown returns the fields that Prune would remove, without the fields below them. They come in
// the order of their names.
func (s *Schema) Unknown(tree map[string]any) iter.Seq[UnknownField] {
	return func(yield func(UnknownField) bool) {
		if s.ready != nil {
			w := unknownWalk{yield: yield}
			w.value(s, tree)
		}
	}
}

// unknownWalk visits the fields of an object. Its methods report whether to go on.
type unknownWalk struct {
	path  []json.Step
	yield func(UnknownField) bool
}

func (w *unknownWalk) value(s *Schema, v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return !s.describesObjects() || w.object(s, v)
	case []any:
		items := s.itemsToPrune()
		if items == nil {
			return true
		}
		for i, item := range v {
			if !w.below(json.Item(i), items, item) {
				return false
			}
		}
	}
	return true
}

func (w *unknownWalk) object(s *Schema, object map[string]any) bool {
	for _, name := range sortedNames(object) {
		child, stays := s.known(name)
		switch {
		case child != nil:
			if !w.below(json.Name(name), child, object[name]) {
				return false
			}
		case !stays:
			if !w.yield(UnknownField{Path: json.FormatPath(append(w.path, json.Name(name))), Name: name, Known: s.names(), Value: object[name]}) {
				return false
			}
		}
	}
	return true
}

func (w *unknownWalk) below(step json.Step, s *Schema, v any) bool {
	w.path = append(w.path, step)
	goOn := w.value(s, v)
	w.path = w.path[:len(w.path)-1]
	return goOn
}

func (s *Schema) names() []string {
	out := make([]string, len(s.Properties))
	for i := range s.Properties {
		out[i] = s.Properties[i].Name
	}
	return out
}
