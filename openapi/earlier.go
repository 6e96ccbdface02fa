package openapi

import "github.com/kindwright/kindwright/internal/json"

// earlier is what a value was before an update; known is false where there was nothing that would be the same value.
type earlier struct {
	value any
	known bool
}

// member is what a member of an object was.
func (e earlier) member(name string) earlier {
	object, ok := e.value.(map[string]any)
	if !ok || !e.known {
		return earlier{}
	}
	value, known := object[name]
	return earlier{value, known}
}

// earlierItems are what the items of a keyed list were. Items of other lists have no identity.
type earlierItems struct {
	list  *Schema
	few   []any
	byKey map[string]any // of the first item with the key, by the key as JSON
}

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

// key is the identity of an item of a keyed list as text.
func (s *Schema) key(item any) (string, bool) {
	if _, ok := item.(map[string]any); !ok {
		return "", false
	}
	text, err := json.AppendTree(nil, s.identity(item))
	return string(text), err == nil
}

// item is what an item was.
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
