package openapi

import (
	"maps"
	"reflect"
	"slices"
)

// maxUnknown limits how many unknown fields of one object are reported.
const maxUnknown = 100

// Prune removes fields that the schema does not describe and returns their paths, such as
// "spec.foo", sorted and at most 100. It leaves values of the wrong type alone; Canonical and
// Validate report them. Prune does not modify tree: it copies the objects and lists that change and
// shares the rest.
func (s *Schema) Prune(tree map[string]any) (out map[string]any, unknown []string) {
	if s.ready == nil || tree == nil {
		return tree, nil
	}
	pruned, changed := prune(s, tree)
	if !changed {
		return tree, nil
	}
	return pruned.(map[string]any), s.unknownPaths(tree)
}

func (s *Schema) unknownPaths(tree map[string]any) (unknown []string) {
	for field := range s.Unknown(tree) {
		if unknown = append(unknown, field.Path); len(unknown) == maxUnknown {
			break
		}
	}
	return unknown
}

// prune returns the value without unknown fields and reports whether it changed.
func prune(s *Schema, v any) (any, bool) {
	switch t := v.(type) {
	case map[string]any:
		if s.describesObjects() {
			return pruneObject(s, t)
		}
	case []any:
		if out, changed := pruneArray(s, t); changed {
			return out, true
		}
	}
	return v, false
}

// describesObjects reports whether an object can be valid under the schema. Objects in other places
// have the wrong type and are not pruned, except under schemas from documents.
func (s *Schema) describesObjects() bool {
	return s.Type == Object || s.fromDocument || s.Type == "" && !s.IntOrString
}

// itemsToPrune returns the schema of items, or nil if they stay as they are. Where a document
// describes no items, their fields are unknown. Where it says of a list that unknown fields stay, those
// of the items do.
func (s *Schema) itemsToPrune() *Schema {
	switch {
	case s.Items == nil && s.fromDocument && !s.PreserveUnknown:
		return nothingKnown()
	case s.Items != nil && s.fromDocument && s.PreserveUnknown && !s.Items.PreserveUnknown:
		items := *s.Items
		items.PreserveUnknown = true
		return &items
	}
	return s.Items
}

// nothingKnown is the schema of values of which a document says nothing. It accepts all values, and
// their fields are unknown.
func nothingKnown() *Schema {
	return &Schema{Nullable: true, fromDocument: true, ready: &prepared{size: 1, depth: 1}}
}

// known returns the schema of a field and whether the field stays. A field may stay without a
// schema; it is then kept unchanged.
func (s *Schema) known(name string) (child *Schema, stays bool) {
	if child = s.child(name); child != nil {
		return child, true
	}
	if s.EmbeddedObject && (name == "apiVersion" || name == "kind" || name == "metadata") {
		return nil, true
	}
	return nil, s.PreserveUnknown || s.Type == "" && !s.fromDocument
}

// pruneObject is copy-on-write: it clones the object before the first change.
func pruneObject(s *Schema, object map[string]any) (any, bool) {
	out, changed := object, false
	for name, value := range object {
		child, stays := s.known(name)
		if stays && child == nil {
			continue
		}
		var other bool
		if stays {
			if value, other = prune(child, value); !other {
				continue
			}
		}
		if !changed {
			out, changed = maps.Clone(object), true
		}
		if stays {
			out[name] = value
		} else {
			delete(out, name)
		}
	}
	return out, changed
}

func pruneArray(s *Schema, array []any) ([]any, bool) {
	items := s.itemsToPrune()
	if items == nil {
		return array, false
	}
	out, changed := array, false
	for i, value := range array {
		pruned, other := prune(items, value)
		if !other {
			continue
		}
		if !changed {
			out, changed = slices.Clone(array), true
		}
		out[i] = pruned
	}
	return out, changed
}

// same reports whether two maps are the same map, not merely equal.
func same(a, b map[string]any) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}
