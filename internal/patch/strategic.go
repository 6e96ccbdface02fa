package patch

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/status"
)

// The directives of a strategic merge patch. The name of a list follows the last two.
//
// Source: PATCH-17.
const (
	directiveMarker = "$patch"
	retainKeys      = "$retainKeys"
	deleteFrom      = "$deleteFromPrimitiveList/"
	elementOrder    = "$setElementOrder/"
)

// Strategic applies a strategic merge patch. This is a merge patch that merges a list item by item
// if the schema defines how items are identified. It may contain directives that delete items,
// replace parts or reorder lists. schema describes the object. Without a schema, maps are merged
// and lists are replaced.
//
// A list is merged if its field has the patchStrategy merge; patchMergeKey is then the key of its
// items. A list of type set or map without a patchStrategy is merged too, unless its type only
// follows the patch tags (openapi.Schema.PatchTagged). New items are placed as in Kubernetes:
// before the first item that exists only in the object and that they do not follow there. A list
// that the object does not have is taken from the patch unchanged.
//
// The cost is approximately linear in the patch and in the parts of the original that it touches.
//
// Source: PATCH-09, PATCH-17.
func Strategic(original map[string]any, patch []byte, schema *openapi.Schema, o Options) (map[string]any, error) {
	tree, err := o.decode(patch)
	if err != nil {
		return nil, err
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return nil, status.BadRequest("a strategic merge patch must be a JSON object")
	}
	merged, _, err := (&strategic{o}).object(original, object, schema)
	return merged, err
}

// strategic applies one patch. Its methods do not modify the original or the patch. Their results
// may share parts with both.
type strategic struct{ Options }

// malformed returns the 400 error for an invalid directive.
func malformed(format string, args ...any) error {
	return status.BadRequest("error in strategic merge patch: "+format, args...)
}

// object merges a patch into an object. keep is false if the patch deletes the object.
func (s *strategic) object(original, patch map[string]any, schema *openapi.Schema) (merged map[string]any, keep bool, err error) {
	switch directive := patch[directiveMarker]; directive {
	case "replace":
		original = nil
	case "delete":
		return map[string]any{}, false, nil
	case nil, "merge":
	default:
		return nil, false, malformed("%s must be replace, merge or delete", directiveMarker)
	}
	merged = make(map[string]any, len(original)+len(patch))
	maps.Copy(merged, original)
	if err := retain(merged, patch); err != nil {
		return nil, false, err
	}
	for _, name := range slices.Sorted(maps.Keys(patch)) {
		if err := s.member(merged, patch, name, schema); err != nil {
			return nil, false, err
		}
	}
	return merged, true, nil
}

// retain applies $retainKeys. It removes all fields that the directive does not list. The patch
// must not set other fields.
func retain(merged, patch map[string]any) error {
	value, ok := patch[retainKeys]
	if !ok {
		return nil
	}
	names, ok := value.([]any)
	if !ok {
		return malformed("%s must be a list of names", retainKeys)
	}
	kept := map[any]bool{}
	for _, name := range names {
		if _, ok := name.(string); !ok {
			return malformed("%s must be a list of names", retainKeys)
		}
		kept[name] = true
	}
	for name, value := range patch {
		if value != nil && !strings.HasPrefix(name, "$") && !kept[name] {
			return malformed("%s does not list %q, which the patch sets", retainKeys, name)
		}
	}
	maps.DeleteFunc(merged, func(name string, _ any) bool { return !kept[name] })
	return nil
}

// member merges one member of the patch. Members are visited in sorted order. Directives begin with
// a dollar sign, so they come before the list to which they apply. $setElementOrder also merges the
// list itself.
func (s *strategic) member(merged, patch map[string]any, name string, schema *openapi.Schema) error {
	if list, ok := strings.CutPrefix(name, deleteFrom); ok {
		return deleteScalars(merged, list, patch[name])
	}
	if list, ok := strings.CutPrefix(name, elementOrder); ok {
		order, ok := patch[name].([]any)
		if !ok {
			return malformed("%s%s must be a list", elementOrder, list)
		}
		return s.ordered(merged, patch, list, order, field(schema, list))
	}
	if name == directiveMarker || name == retainKeys {
		return nil
	}
	if strings.HasPrefix(name, "$") {
		return malformed("unknown directive %q", name)
	}
	if _, done := patch[elementOrder+name]; done && isList(patch[name]) {
		return nil
	}
	value, keep, err := s.value(merged[name], patch[name], field(schema, name))
	if err != nil {
		return err
	}
	if keep {
		merged[name] = value
	} else {
		delete(merged, name)
	}
	return nil
}

func isList(v any) bool {
	_, ok := v.([]any)
	return ok
}

// field returns the schema of a member of an object, or nil.
func field(schema *openapi.Schema, name string) *openapi.Schema {
	if schema == nil {
		return nil
	}
	child, _ := schema.Lookup(name)
	return child
}

// value merges a patch into a value of the original, which is nil if absent.
func (s *strategic) value(original, patch any, schema *openapi.Schema) (merged any, keep bool, err error) {
	switch patch := patch.(type) {
	case nil:
		return nil, false, nil
	case map[string]any:
		old, had := original.(map[string]any)
		if strategyOf(schema).replaces {
			old = nil
		}
		merged, keep, err := s.object(old, patch, schema)
		// As in Kubernetes, deleting an existing object this way leaves an empty one.
		return merged, keep || had && err == nil, err
	case []any:
		old, _ := original.([]any)
		merged, err := s.list(old, patch, nil, schema)
		return merged, true, err
	}
	return patch, true, nil
}

// ordered merges a list for which the patch also gives the order.
func (s *strategic) ordered(merged, patch map[string]any, name string, order []any, schema *openapi.Schema) error {
	old, had := merged[name].([]any)
	sent, has := patch[name].([]any)
	if v := merged[name]; v != nil && !had {
		return s.invalid(fmt.Sprintf("%s%s: %s is not a list", elementOrder, name, name))
	}
	if v := patch[name]; v != nil && !has {
		return malformed("%s%s: the patch sets %s to a value that is not a list", elementOrder, name, name)
	}
	if !had && !has {
		return nil
	}
	list, err := s.list(old, sent, order, schema)
	if err != nil {
		return err
	}
	merged[name] = list
	return nil
}

// deleteScalars applies $deleteFromPrimitiveList.
func deleteScalars(merged map[string]any, name string, value any) error {
	gone, ok := value.([]any)
	if !ok {
		return malformed("%s%s must be a list", deleteFrom, name)
	}
	list, ok := merged[name].([]any)
	if !ok {
		return nil
	}
	drop := map[any]bool{}
	for _, v := range gone {
		if !scalar(v) {
			return malformed("%s%s must be a list of scalars", deleteFrom, name)
		}
		drop[v] = true
	}
	merged[name] = slices.DeleteFunc(slices.Clone(list), func(v any) bool { return scalar(v) && drop[v] })
	return nil
}

// scalar reports whether a value can be compared with ==.
func scalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// strategy describes how the value of a field is merged.
type strategy struct {
	replaces bool     // objects are replaced as a whole
	merges   bool     // lists are merged item by item
	keys     []string // the keys that identify the objects of a list
}

func strategyOf(schema *openapi.Schema) strategy {
	if schema == nil {
		return strategy{}
	}
	var how strategy
	for word := range strings.SplitSeq(schema.PatchStrategy, ",") {
		how.replaces = how.replaces || word == "replace"
		how.merges = how.merges || word == "merge"
	}
	if schema.PatchStrategy == "" && !schema.PatchTagged {
		how.merges = schema.ListType == openapi.ListSet || schema.ListType == openapi.ListMap
		how.replaces = schema.MapType == openapi.MapAtomic
	}
	how.keys = schema.ListMapKeys
	if schema.PatchMergeKey != "" {
		how.keys = []string{schema.PatchMergeKey}
	}
	return how
}
