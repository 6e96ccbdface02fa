package client

import (
	"errors"
	"fmt"
	"maps"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// Patch is a change to an object. Make one with MergePatch, StrategicPatch, JSONPatch or Apply.
type Patch struct {
	contentType meta.PatchType
	content     any
	manager     string // of an apply
	force       bool
}

// MergePatch sets the members in change and removes those that are null there (RFC 7386). change is
// any value that encodes as a JSON object, such as map[string]any, or a JSON text as meta.RawJSON.
func MergePatch(change any) Patch { return Patch{contentType: meta.MergePatch, content: change} }

// StrategicPatch is MergePatch for kinds whose schema says how to merge lists. Items are matched by
// key and changed, or else added; directives such as $patch and $retainKeys control the rest. If
// the kind has no such schema, the error satisfies status.IsUnsupportedMediaType. Source: PATCH-09.
func StrategicPatch(change any) Patch {
	return Patch{contentType: meta.StrategicMergePatch, content: change}
}

// JSONPatch performs operations in order, all or none of them (RFC 6902).
func JSONPatch(operations ...PatchOperation) Patch {
	content := make([]any, len(operations))
	for i, o := range operations {
		content[i] = o.document()
	}
	return Patch{contentType: meta.JSONPatch, content: content}
}

// Apply sets the fields in content and makes manager their owner (server-side apply). It creates
// the object if it does not exist. If another manager owns a field with another value, the error
// satisfies status.IsConflict, and FieldConflicts lists the fields.
//
// manager owns every field that content contains. Use a map, or a struct whose fields are pointers
// or have omitempty. With the Go type of the kind, manager would also own fields that are always
// written, even when they are zero.
func Apply(manager string, content any) Patch {
	return Patch{contentType: meta.ApplyPatch, content: content, manager: manager}
}

// ForceApply is Apply, but takes fields over from other managers.
func ForceApply(manager string, content any) Patch {
	return Patch{contentType: meta.ApplyPatch, content: content, manager: manager, force: true}
}

func (p Patch) encode(where place, key meta.Key) ([]byte, error) {
	if p.contentType == "" {
		return nil, errors.New("client: the patch is empty; make one with Apply, MergePatch, JSONPatch or StrategicPatch")
	}
	tree, err := json.TreeOf(p.content)
	if err != nil {
		return nil, err
	}
	if p.contentType != meta.ApplyPatch {
		return json.AppendTree(nil, tree)
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("apply takes a JSON object, not a %T", p.content)
	}
	// The document of an apply repeats the kind, version and name that the URL gives.
	object = maps.Clone(where.named(object))
	metadata, _ := object["metadata"].(map[string]any)
	if metadata = maps.Clone(metadata); metadata == nil {
		metadata = map[string]any{}
	}
	if object["metadata"] = metadata; metadata["name"] == nil {
		metadata["name"] = key.Name
	}
	return json.AppendTree(nil, object)
}

func (p Patch) parameters() map[string]string {
	q := map[string]string{}
	if p.contentType == meta.ApplyPatch {
		q["fieldManager"] = p.manager
	}
	if p.force {
		q["force"] = "true"
	}
	return q
}

// PatchOperation is one step of a JSONPatch. Make one with Add, Remove, Replace, Move, Copy or Test.
// Paths are JSON pointers: each name follows a slash; ~1 stands for a slash and ~0 for a tilde in a
// name.
type PatchOperation struct {
	op, path, from string
	value          any
	hasValue       bool
}

// Add sets a member, or inserts an item before the one at its index. The index "-" is the end.
func Add(path string, value any) PatchOperation {
	return PatchOperation{op: "add", path: path, value: value, hasValue: true}
}

// Remove removes the value at path, which must exist.
func Remove(path string) PatchOperation { return PatchOperation{op: "remove", path: path} }

// Replace replaces the value at path, which must exist.
func Replace(path string, value any) PatchOperation {
	return PatchOperation{op: "replace", path: path, value: value, hasValue: true}
}

// Move removes the value at from and adds it at path.
func Move(from, path string) PatchOperation {
	return PatchOperation{op: "move", path: path, from: from}
}

// Copy adds the value at from at path, too.
func Copy(from, path string) PatchOperation {
	return PatchOperation{op: "copy", path: path, from: from}
}

// Test makes the whole patch fail unless value is at path.
func Test(path string, value any) PatchOperation {
	return PatchOperation{op: "test", path: path, value: value, hasValue: true}
}

func (o PatchOperation) document() map[string]any {
	d := map[string]any{"op": o.op, "path": o.path}
	if o.op == "move" || o.op == "copy" {
		d["from"] = o.from
	}
	if o.hasValue {
		d["value"] = o.value
	}
	return d
}
