package cel

import (
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/openapi"
)

// earlier is a value and what it replaces, if there is something that it replaces. Rules that were
// broken before only warn, as long as the value does not change.
type earlier struct {
	value, old any
	schema     *openapi.Schema
	known      bool
	root       bool     // the whole object, whose metadata always changes
	parent     *earlier // the nearest one that is known; nil at the root

	compared, same bool
}

// unchanged reports whether the value, or the nearest value around it that replaces another one,
// equals what it replaces.
func (e *earlier) unchanged() bool {
	if e == nil {
		return false
	}
	if !e.known {
		return e.parent.unchanged()
	}
	if !e.compared {
		e.compared, e.same = true, !e.root && unchanged(e.value, e.old, e.schema)
	}
	return e.same
}

// below returns what the value of a part replaces.
func (e *earlier) below(value, old any, schema *openapi.Schema, known bool) *earlier {
	switch {
	case e == nil:
		return nil
	case !e.known:
		return e
	}
	return &earlier{value: value, old: old, schema: schema, known: known, parent: e}
}

// member returns what a member of an object replaces. The version and the kind of an object are
// never the same: both objects are shown in the same version.
func (e *earlier) member(name string, value any, schema *openapi.Schema) *earlier {
	if e == nil || e.known && e.root && (name == "apiVersion" || name == "kind") {
		return nil
	}
	before, _ := e.old.(map[string]any)
	old, known := before[name]
	return e.below(value, old, schema, known)
}

// unchanged compares as Kubernetes does: items of keyed lists in any order, and data without schema
// as changed.
func unchanged(value, old any, s *openapi.Schema) bool {
	switch v := value.(type) {
	case map[string]any:
		before, ok := old.(map[string]any)
		if !ok || len(v) != len(before) {
			return false
		}
		for name, member := range v {
			child, declared := s.Property(name)
			if !declared {
				child = s.AdditionalProperties
			}
			earlier, known := before[name]
			if child == nil || !known || !unchanged(member, earlier, child) {
				return false
			}
		}
		return true
	case []any:
		before, ok := old.([]any)
		if !ok || len(v) != len(before) {
			return false
		}
		if s.ListType != openapi.ListMap || s.Items == nil {
			return json.Equal(v, before)
		}
		list := keyed(before, s)
		for _, item := range v {
			if earlier, known := list.find(item); !known || !unchanged(item, earlier, s.Items) {
				return false
			}
		}
		return true
	}
	return json.Equal(value, old)
}

// keyedItems finds the items of a keyed list by their keys.
type keyedItems struct {
	view  *listView
	byKey map[string]any
}

func keyed(items []any, s *openapi.Schema) *keyedItems {
	k := &keyedItems{view: &listView{schema: s}, byKey: make(map[string]any, len(items))}
	for _, item := range items {
		if k.hasKeys(item) {
			if key := k.view.key(item); k.byKey[key] == nil {
				k.byKey[key] = item
			}
		}
	}
	return k
}

// hasKeys reports whether an item has all keys. An item without one cannot be found.
func (k *keyedItems) hasKeys(item any) bool {
	object, ok := item.(map[string]any)
	if !ok {
		return false
	}
	for _, name := range k.view.schema.ListMapKeys {
		switch object[name].(type) {
		case string, int64, float64, bool:
		default:
			return false
		}
	}
	return true
}

func (k *keyedItems) find(item any) (any, bool) {
	if k == nil || !k.hasKeys(item) {
		return nil, false
	}
	found, ok := k.byKey[k.view.key(item)]
	return found, ok
}
