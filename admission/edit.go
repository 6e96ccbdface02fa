package admission

import (
	"fmt"
	"maps"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/status"
)

// Allowed is the answer of a Mutator that changes nothing.
func Allowed(r *Request) (map[string]any, error) { return r.Object, nil }

// Patched is the answer of a Mutator that changes some fields. It returns r.Object with the edits
// applied in order. r.Object itself stays unchanged, and is returned if the edits change nothing.
// For a request without an object, such as a deletion, the answer is nil.
//
// An edit fails if its path leads through a value that is not an object. That is a fault of the
// plugin, and the write is answered with a 500.
func Patched(r *Request, edits ...Edit) (map[string]any, error) {
	object := r.Object
	if object == nil {
		return nil, nil
	}
	for _, edit := range edits {
		var err error
		if object, err = edit.apply(object, edit.path); err != nil {
			return nil, status.Internal(fmt.Errorf("edit %s of %s: %w", strings.Join(edit.path, "."), r.GroupResource(), err))
		}
	}
	return object, nil
}

// Edit is one change of an object, made by Set or Remove.
type Edit struct {
	path   []string
	value  any
	remove bool
}

// Set gives the field at a path of names a value. It creates missing objects on the path. The value
// is a tree or anything that marshals to one: an int, a []string, a struct with json tags.
func Set(value any, path ...string) Edit { return Edit{path: path, value: value} }

// Remove removes the field at a path of names, if it exists.
func Remove(path ...string) Edit { return Edit{path: path, remove: true} }

// apply returns object with the edit applied, or object itself if that changes nothing. The result
// shares what the path does not touch.
func (e Edit) apply(object map[string]any, path []string) (map[string]any, error) {
	if len(path) == 0 {
		return nil, fmt.Errorf("the path is empty")
	}
	name, rest := path[0], path[1:]
	child, exists := object[name]
	if e.remove && child == nil && (!exists || len(rest) > 0) {
		return object, nil
	}
	value, err := e.value, error(nil)
	switch {
	case len(rest) > 0:
		inner, ok := child.(map[string]any)
		if !ok && child != nil {
			return nil, fmt.Errorf("%s is not an object", name)
		}
		var changed map[string]any
		if changed, err = e.apply(inner, rest); ok && identical(changed, inner) {
			return object, err
		}
		value = changed
	case !e.remove:
		if value, err = tree(e.value); exists && json.Equal(value, child) {
			return object, err
		}
	}
	if err != nil {
		return nil, err
	}
	out := maps.Clone(object)
	if out == nil {
		out = map[string]any{}
	}
	if e.remove && len(rest) == 0 {
		delete(out, name)
	} else {
		out[name] = value
	}
	return out, nil
}

// tree converts a value to a tree. The value may already be one.
func tree(v any) (any, error) {
	if json.IsTree(v) {
		return v, nil
	}
	return json.TreeOf(v)
}
