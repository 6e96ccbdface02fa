package registry

import (
	"maps"
	"slices"

	"github.com/kindwright/kindwright/meta"
)

// Tree is an object in its decoded form: map[string]any, []any, string, bool, nil, int64 and float64, nothing else.
// A tree that was handed on is never changed: whoever wants another one makes a copy of what differs.
type Tree = map[string]any

// at returns the value below path, or nil.
func at(t Tree, path ...string) any {
	var v any = t
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// text returns the string below path, or "".
func text(t Tree, path ...string) string {
	s, _ := at(t, path...).(string)
	return s
}

// object returns the map below path, or nil.
func object(t Tree, path ...string) map[string]any {
	m, _ := at(t, path...).(map[string]any)
	return m
}

// list returns the list below path, or nil.
func list(t Tree, path ...string) []any {
	l, _ := at(t, path...).([]any)
	return l
}

// with returns t with value set at path; maps on the way are copied, or made. It is t itself if that scalar is there.
func with(t Tree, value any, path ...string) Tree {
	if sameScalar(at(t, path...), value) {
		return t
	}
	out := make(Tree, len(t)+1)
	maps.Copy(out, t)
	if len(path) == 1 {
		out[path[0]] = value
		return out
	}
	child, _ := t[path[0]].(map[string]any)
	out[path[0]] = with(child, value, path[1:]...)
	return out
}

// sameScalar tells whether two values are one string, number or boolean. Maps and lists are not looked into.
func sameScalar(a, b any) bool {
	switch b.(type) {
	case string, int64, bool:
		return a == b
	}
	return false
}

// withMetadata returns t with members of its metadata as they are in from: set, or removed where they are null there. What is
// on the way is copied once for all of them, and not at all where nothing changes.
func withMetadata(t Tree, from map[string]any, names ...string) Tree {
	old := object(t, "metadata")
	var next map[string]any
	for _, name := range names {
		v := from[name]
		have, had := old[name]
		if v == nil && !had || sameScalar(have, v) {
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
	return with(t, next, "metadata")
}

// without returns t without the value at path; t itself if there is none.
func without(t Tree, path ...string) Tree {
	old, ok := t[path[0]]
	if !ok {
		return t
	}
	if len(path) == 1 {
		out := maps.Clone(t)
		delete(out, path[0])
		return out
	}
	child, ok := old.(map[string]any)
	if !ok {
		return t
	}
	next := without(child, path[1:]...)
	if len(next) == len(child) && len(child) > 0 && sameMap(next, child) {
		return t
	}
	out := maps.Clone(t)
	out[path[0]] = next
	return out
}

// keep returns t with the value at path as it is in from: set, or removed where from has none.
func keep(t, from Tree, path ...string) Tree {
	if v := at(from, path...); v != nil {
		return with(t, v, path...)
	}
	return without(t, path...)
}

// sameMap tells whether two maps of equal length hold the same members by identity of their keys only; it is used
// after without, which either returns its input or a map with one member less.
func sameMap(a, b map[string]any) bool {
	for k := range b {
		if _, ok := a[k]; !ok {
			return false
		}
	}
	return true
}

// finalizers returns metadata.finalizers.
func finalizers(t Tree) []string {
	var out []string
	for _, v := range list(t, "metadata", "finalizers") {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// withFinalizer returns t with the finalizer name added, t itself if it is there.
func withFinalizer(t Tree, name string) Tree {
	if slices.Contains(finalizers(t), name) {
		return t
	}
	old := list(t, "metadata", "finalizers")
	return with(t, append(slices.Clone(old), name), "metadata", "finalizers")
}

// deleting tells whether the object is marked for deletion.
func deleting(t Tree) bool { return text(t, "metadata", "deletionTimestamp") != "" }

// identity returns the object's namespace and name.
func identity(t Tree) meta.Key {
	return meta.Key{Namespace: text(t, "metadata", "namespace"), Name: text(t, "metadata", "name")}
}
