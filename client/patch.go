package client

import (
	"fmt"
	"maps"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// Patch is a change of an object, made by MergePatch, StrategicPatch, JSONPatch or Apply.
type Patch struct {
	contentType string
	content     any
	manager     string // of an apply
	force       bool
}

// The media types of patches.
const (
	mediaMergePatch     = "application/merge-patch+json"
	mediaStrategicPatch = "application/strategic-merge-patch+json"
	mediaJSONPatch      = "application/json-patch+json"
	mediaApply          = "application/apply-patch+yaml" // JSON is YAML
)

// MergePatch sets what is in change and removes what is null there (RFC 7386). change is anything
// that becomes a JSON object, such as map[string]any, or the text of one as meta.RawJSON.
func MergePatch(change any) Patch { return Patch{contentType: mediaMergePatch, content: change} }

// StrategicPatch is MergePatch for kinds whose schema says how their lists merge: items with the
// key of one that is there change it, others are added, and directives such as $patch and
// $retainKeys say the rest (PATCH-09). A kind without such a schema answers
// status.IsUnsupportedMediaType.
func StrategicPatch(change any) Patch {
	return Patch{contentType: mediaStrategicPatch, content: change}
}

// JSONPatch does operations one after the other, all or none of them (RFC 6902).
func JSONPatch(operations ...Operation) Patch {
	content := make([]any, len(operations))
	for i, o := range operations {
		content[i] = o.document()
	}
	return Patch{contentType: mediaJSONPatch, content: content}
}

// Apply states what manager wants to be true of an object: the fields in content and no others
// (server-side apply). The object is created if it is absent. Fields that another manager owns with
// another value are status.IsConflict, and FieldConflicts tells them apart.
//
// content says no more than it should when the fields that it leaves open are absent: a map, or a
// struct whose fields are pointers or have omitempty. A field of the kind's own Go type that is
// always written is owned even when it is zero.
func Apply(manager string, content any) Patch {
	return Patch{contentType: mediaApply, content: content, manager: manager}
}

// ForceApply is Apply that takes fields over from other managers.
func ForceApply(manager string, content any) Patch {
	return Patch{contentType: mediaApply, content: content, manager: manager, force: true}
}

func (p Patch) encode(where place, key meta.Key) ([]byte, error) {
	tree, err := json.TreeOf(p.content)
	if err != nil {
		return nil, err
	}
	if p.contentType != mediaApply {
		return json.AppendTree(nil, tree)
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("what is applied is an object, and %T is none", p.content)
	}
	// Apply wants to be told again what the URL says.
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
	if p.contentType == mediaApply {
		q["fieldManager"] = p.manager
	}
	if p.force {
		q["force"] = "true"
	}
	return q
}

// Operation is one step of a JSONPatch, made by Add, Remove, Replace, Move, Copy or Test. Paths are
// JSON pointers: the names on the way, each after a slash, with ~1 for a slash and ~0 for a tilde
// in a name.
type Operation struct {
	op, path, from string
	value          any
	hasValue       bool
}

// Add sets a member, or inserts an item before the one at its index; the index "-" is the end.
func Add(path string, value any) Operation {
	return Operation{op: "add", path: path, value: value, hasValue: true}
}

// Remove takes out what is at path, which must be there.
func Remove(path string) Operation { return Operation{op: "remove", path: path} }

// Replace sets what is at path, which must be there.
func Replace(path string, value any) Operation {
	return Operation{op: "replace", path: path, value: value, hasValue: true}
}

// Move takes out what is at from and adds it at path.
func Move(from, path string) Operation { return Operation{op: "move", path: path, from: from} }

// Copy adds what is at from at path too.
func Copy(from, path string) Operation { return Operation{op: "copy", path: path, from: from} }

// Test fails the whole patch unless value is at path.
func Test(path string, value any) Operation {
	return Operation{op: "test", path: path, value: value, hasValue: true}
}

func (o Operation) document() map[string]any {
	d := map[string]any{"op": o.op, "path": o.path}
	if o.op == "move" || o.op == "copy" {
		d["from"] = o.from
	}
	if o.hasValue {
		d["value"] = o.value
	}
	return d
}
