package admission

import (
	"fmt"
	"maps"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/status"
)

// Allowed is the answer of a Mutator that has nothing to change.
func Allowed(r *Request) (map[string]any, error) { return r.Object, nil }

// Patched is the answer of a Mutator that changes some fields: r.Object with the edits made, one after another. r.Object
// itself stays as it is. An edit that cannot be made, because its path leads through something that is no object, is a
// fault of the plugin: the write is answered 500.
func Patched(r *Request, edits ...Edit) (map[string]any, error) {
	object := r.Object
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

// Set gives the field at a path of names a value, and makes the objects that lead there. The value is a tree or anything
// that marshals to one: an int, a []string, a struct with json tags.
func Set(value any, path ...string) Edit { return Edit{path: path, value: value} }

// Remove takes the field at a path of names away, if it is there.
func Remove(path ...string) Edit { return Edit{path: path, remove: true} }

// apply returns a copy of object with the edit made; what the path does not touch is shared.
func (e Edit) apply(object map[string]any, path []string) (map[string]any, error) {
	if len(path) == 0 {
		return nil, fmt.Errorf("the path is empty")
	}
	name, rest := path[0], path[1:]
	child, exists := object[name]
	if e.remove && !exists {
		return object, nil
	}
	out := maps.Clone(object)
	if out == nil {
		out = map[string]any{}
	}
	switch {
	case len(rest) > 0:
		inner, ok := child.(map[string]any)
		if !ok && child != nil {
			return nil, fmt.Errorf("%s is no object", name)
		}
		changed, err := e.apply(inner, rest)
		if err != nil {
			return nil, err
		}
		out[name] = changed
	case e.remove:
		delete(out, name)
	default:
		value, err := tree(e.value)
		if err != nil {
			return nil, err
		}
		out[name] = value
	}
	return out, nil
}

// tree makes a tree of a value that may be one already.
func tree(v any) (any, error) {
	if json.IsTree(v) {
		return v, nil
	}
	return json.TreeOf(v)
}
