package tree

import (
	"maps"
	"reflect"
)

// Lookup returns the value at path and whether there is one. A null counts as a value.
func Lookup(t map[string]any, path ...string) (any, bool) {
	var v any = t
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = m[name]; !ok {
			return nil, false
		}
	}
	return v, true
}

// At returns the value at path, or nil.
func At(t map[string]any, path ...string) any {
	v, _ := Lookup(t, path...)
	return v
}

// Text returns the string at path, or "".
func Text(t map[string]any, path ...string) string {
	s, _ := At(t, path...).(string)
	return s
}

// Map returns the map at path, or nil.
func Map(t map[string]any, path ...string) map[string]any {
	m, _ := At(t, path...).(map[string]any)
	return m
}

// List returns the list at path, or nil.
func List(t map[string]any, path ...string) []any {
	l, _ := At(t, path...).([]any)
	return l
}

// With returns t with value at path. It makes the maps on the way that are missing. It returns t
// itself if path holds the same string, number or boolean already.
func With(t map[string]any, value any, path ...string) map[string]any {
	if SameScalar(At(t, path...), value) {
		return t
	}
	out := make(map[string]any, len(t)+1)
	maps.Copy(out, t)
	if len(path) > 1 {
		child, _ := t[path[0]].(map[string]any)
		value = With(child, value, path[1:]...)
	}
	out[path[0]] = value
	return out
}

// SameScalar tells whether two values are one string, integer or boolean. It does not look into maps
// and lists.
func SameScalar(a, b any) bool {
	switch b.(type) {
	case string, int64, bool:
		return a == b
	}
	return false
}

// Without returns t without the value at path, or t itself if there is none. A map that held nothing
// else stays, empty: removing the last label leaves "labels: {}". Use [Prune] to drop it too.
func Without(t map[string]any, path ...string) map[string]any {
	return remove(t, path, false)
}

// Prune returns t without the value at path, and without the maps on the way that held nothing else:
// removing the last label removes "labels". It returns t itself if there is no such value. Use
// [Without] to keep the emptied maps.
func Prune(t map[string]any, path ...string) map[string]any {
	return remove(t, path, true)
}

func remove(t map[string]any, path []string, prune bool) map[string]any {
	if _, ok := Lookup(t, path...); !ok {
		return t
	}
	out := maps.Clone(t)
	if len(path) > 1 {
		child := remove(Map(t, path[0]), path[1:], prune)
		if len(child) > 0 || !prune {
			out[path[0]] = child
			return out
		}
	}
	delete(out, path[0])
	return out
}

// Keep returns t with the value at path as it is in from. A value that from does not have is removed,
// by the rule of [Without].
func Keep(t, from map[string]any, path ...string) map[string]any {
	if v := At(from, path...); v != nil {
		return With(t, v, path...)
	}
	return Without(t, path...)
}

// WithMetadata returns the object t with the named members of its metadata as they are in from. A
// member that is null or missing there is removed. The metadata is copied once for all of them, and
// t is returned itself if nothing changes.
func WithMetadata(t, from map[string]any, names ...string) map[string]any {
	old := Map(t, "metadata")
	var next map[string]any
	for _, name := range names {
		v := from[name]
		have, had := old[name]
		if v == nil && !had || SameScalar(have, v) {
			continue
		}
		if next == nil {
			next = make(map[string]any, len(old)+len(names))
			maps.Copy(next, old)
		}
		if v == nil {
			delete(next, name)
		} else {
			next[name] = v
		}
	}
	if next == nil {
		return t
	}
	return With(t, next, "metadata")
}

// Set is [With] for a tree that nobody else has, down to the map that path ends in: it changes t.
func Set(t map[string]any, value any, path ...string) {
	last := len(path) - 1
	for _, name := range path[:last] {
		child, ok := t[name].(map[string]any)
		if !ok || child == nil {
			child = map[string]any{}
			t[name] = child
		}
		t = child
	}
	t[path[last]] = value
}

// SetMetadata is [WithMetadata] for a tree that nobody else has, nor its metadata: it changes t.
func SetMetadata(t, from map[string]any, names ...string) {
	metadata := Map(t, "metadata")
	for _, name := range names {
		if v := from[name]; v != nil {
			Set(t, v, "metadata", name)
		} else {
			delete(metadata, name)
		}
	}
}

// Same tells whether two trees are one map.
func Same(a, b map[string]any) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}
