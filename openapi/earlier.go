package openapi

import (
	"slices"

	"github.com/kindwright/kindwright/internal/json"
)

// earlier is the previous value in an update. known is false if the update has no previous value
// for this place. Validation compares against it, so that an object that was stored under an older
// schema can still be updated as long as the invalid parts do not change.
type earlier struct {
	value any
	known bool
}

// member returns the previous value of a member of an object.
func (e earlier) member(name string) earlier {
	object, ok := e.value.(map[string]any)
	if !ok || !e.known {
		return earlier{}
	}
	value, known := object[name]
	return earlier{value, known}
}

// unchanged reports whether a value equals its previous value. As in Kubernetes, the order of the items
// of a keyed list does not count.
func (s *Schema) unchanged(v any, old earlier) bool {
	if json.Equal(v, old.value) {
		return true
	}
	if !s.ready.keyed {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		before, ok := old.value.(map[string]any)
		if !ok || len(v) != len(before) {
			return false
		}
		for name, value := range v {
			was, child := old.member(name), s.child(name)
			if !was.known || child == nil && !json.Equal(value, was.value) || child != nil && !child.unchanged(value, was) {
				return false
			}
		}
		return true
	case []any:
		before, ok := old.value.([]any)
		if !ok || len(v) != len(before) || s.Items == nil || s.ListType != ListMap {
			return false
		}
		items := s.earlierItems(old)
		for _, item := range v {
			if was := items.item(item); !was.known || !s.Items.unchanged(item, was) {
				return false
			}
		}
		return s.distinct(v) == s.distinct(before) // else one of them is there twice, in place of another
	}
	return false
}

// distinct counts the identities of the items of a keyed list.
func (s *Schema) distinct(array []any) int {
	if len(array) <= fewItems {
		n := 0
		for i, item := range array {
			if !slices.ContainsFunc(array[:i], func(other any) bool { return s.identical(item, other) }) {
				n++
			}
		}
		return n
	}
	seen := make(map[string]bool, len(array))
	var text []byte
	for _, item := range array {
		var err error
		if text, err = s.appendIdentity(text[:0], item); err == nil {
			seen[string(text)] = true
		}
	}
	return len(seen)
}

// earlierItems finds the previous values of the items of a keyed list. Items of other lists have no
// identity, so they have no previous value. Short lists are searched linearly, since building a map
// costs more.
type earlierItems struct {
	list  *Schema
	few   []any
	byKey map[string]any // previous items by their key as JSON; the first wins
}

// earlierItems indexes the previous items once per list. Looking up each item separately would cost
// the product of both lengths.
func (s *Schema) earlierItems(old earlier) earlierItems {
	array, ok := old.value.([]any)
	if !ok || !old.known || s.ListType != ListMap {
		return earlierItems{}
	}
	e := earlierItems{list: s}
	if len(array) <= fewItems {
		e.few = array
		return e
	}
	e.byKey = make(map[string]any, len(array))
	for _, item := range array {
		if key, ok := s.key(item); ok {
			if _, taken := e.byKey[key]; !taken {
				e.byKey[key] = item
			}
		}
	}
	return e
}

// key returns the identity of an item of a keyed list as text.
func (s *Schema) key(item any) (string, bool) {
	if _, ok := item.(map[string]any); !ok {
		return "", false
	}
	text, err := json.AppendTree(nil, s.identity(item))
	return string(text), err == nil
}

// item returns the previous value of the item with the same keys.
func (e earlierItems) item(item any) earlier {
	if e.list == nil {
		return earlier{}
	}
	if e.byKey == nil {
		for _, other := range e.few {
			if _, ok := other.(map[string]any); ok && e.list.identical(item, other) {
				return earlier{other, true}
			}
		}
		return earlier{}
	}
	key, ok := e.list.key(item)
	if !ok {
		return earlier{}
	}
	value, known := e.byKey[key]
	return earlier{value, known}
}
