package patch

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/status"
)

// The directives of a strategic merge patch (PATCH-17). The last two are followed by the name of the list they speak of.
const (
	directiveMarker = "$patch"
	retainKeys      = "$retainKeys"
	deleteFrom      = "$deleteFromPrimitiveList/"
	elementOrder    = "$setElementOrder/"
)

// Strategic applies a strategic merge patch (PATCH-09): a merge patch that merges lists item by item where the schema says
// how items are told apart, and in which directives delete items, replace parts and put lists in order (PATCH-17). schema
// describes the object; nil merges maps and replaces lists.
//
// A list merges when its field has the patchStrategy merge, with patchMergeKey as the key of its items, or when it is a
// list of type set or map without a patchStrategy, of a type that does not keep to these tags (openapi.Schema.PatchTagged).
// Items that the patch adds stand where Kubernetes puts them: before the first item that only the object has and that they do
// not follow in the object. A list that the object does not have is the patch's, as it is.
//
// The cost is about linear in the patch and in those parts of the original that it touches.
func Strategic(original map[string]any, patch []byte, schema *openapi.Schema, o Options) (map[string]any, error) {
	tree, err := o.decode(patch)
	if err != nil {
		return nil, err
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return nil, status.BadRequest("a strategic merge patch is a JSON object")
	}
	merged, _, err := (&strategic{o}).object(original, object, schema)
	return merged, err
}

// strategic applies one patch. Its methods change neither the original nor the patch; what they return may share parts
// with both.
type strategic struct{ Options }

// malformed is the 400 of a directive that says nothing sensible.
func malformed(format string, args ...any) error {
	return status.BadRequest("error in strategic merge patch: "+format, args...)
}

// object merges a patch into an object. keep is false where the patch says that the object goes.
func (s *strategic) object(original, patch map[string]any, schema *openapi.Schema) (merged map[string]any, keep bool, err error) {
	switch directive := patch[directiveMarker]; directive {
	case "replace":
		original = nil
	case "delete":
		return map[string]any{}, false, nil
	case nil, "merge":
	default:
		return nil, false, malformed("%s may be replace, merge or delete", directiveMarker)
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

// retain carries out $retainKeys: whatever is not listed goes, and nothing else may be set.
func retain(merged, patch map[string]any) error {
	value, ok := patch[retainKeys]
	if !ok {
		return nil
	}
	names, ok := value.([]any)
	if !ok {
		return malformed("%s is a list of names", retainKeys)
	}
	kept := map[any]bool{}
	for _, name := range names {
		if _, ok := name.(string); !ok {
			return malformed("%s is a list of names", retainKeys)
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

// member merges what one name of a patch says. Names come in order, so directives about a list, which begin with a dollar
// sign, come before the list itself: an order carries the list out along with it.
func (s *strategic) member(merged, patch map[string]any, name string, schema *openapi.Schema) error {
	if list, ok := strings.CutPrefix(name, deleteFrom); ok {
		return deleteScalars(merged, list, patch[name])
	}
	if list, ok := strings.CutPrefix(name, elementOrder); ok {
		order, ok := patch[name].([]any)
		if !ok {
			return malformed("%s%s is a list", elementOrder, list)
		}
		return s.ordered(merged, patch, list, order, field(schema, list))
	}
	if name == directiveMarker || name == retainKeys {
		return nil
	}
	if strings.HasPrefix(name, "$") {
		return malformed("there is no directive %q", name)
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

// field is the schema of a member of an object; nil when there is none.
func field(schema *openapi.Schema, name string) *openapi.Schema {
	if schema == nil {
		return nil
	}
	child, _ := schema.Lookup(name)
	return child
}

// value merges a patch into the value that the original has in its place, nil if none.
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
		return merged, keep || had && err == nil, err // what is deleted where something was leaves an empty object, as in Kubernetes
	case []any:
		old, _ := original.([]any)
		merged, err := s.list(old, patch, nil, schema)
		return merged, true, err
	}
	return patch, true, nil
}

// ordered merges a list of which the patch also gives the order.
func (s *strategic) ordered(merged, patch map[string]any, name string, order []any, schema *openapi.Schema) error {
	old, had := merged[name].([]any)
	sent, has := patch[name].([]any)
	if v := merged[name]; v != nil && !had {
		return s.invalid(fmt.Sprintf("%s%s: %s is no list", elementOrder, name, name))
	}
	if v := patch[name]; v != nil && !has {
		return malformed("%s%s: the patch sets %s to what is no list", elementOrder, name, name)
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

// deleteScalars carries out $deleteFromPrimitiveList.
func deleteScalars(merged map[string]any, name string, value any) error {
	gone, ok := value.([]any)
	if !ok {
		return malformed("%s%s is a list", deleteFrom, name)
	}
	list, ok := merged[name].([]any)
	if !ok {
		return nil
	}
	drop := map[any]bool{}
	for _, v := range gone {
		if !scalar(v) {
			return malformed("%s%s is a list of scalars", deleteFrom, name)
		}
		drop[v] = true
	}
	merged[name] = slices.DeleteFunc(slices.Clone(list), func(v any) bool { return scalar(v) && drop[v] })
	return nil
}

// scalar tells whether a value can be compared by ==.
func scalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// strategy is how the value of a field is merged.
type strategy struct {
	replaces bool     // objects: as a whole
	merges   bool     // lists: item by item
	keys     []string // lists of objects: what tells items apart
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
