package apply

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v4/schema"
	"sigs.k8s.io/structured-merge-diff/v4/value"

	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/openapi"
)

// Merge returns an object with a part of an object of the same version merged in. Lists are merged by
// their keys, as Apply does. Nobody owns the fields that Merge sets: managedFields stay as they are.
// Merge does not modify the object.
//
// It fails if the part has a field that the schema does not declare, a value of another type, or an
// atomic list or map. Errors have Kubernetes' text.
// Source: POL-05.
func (f *Fields) Merge(object, part map[string]any) (map[string]any, error) {
	v, err := f.version(tree.Text(object, "apiVersion"))
	if err != nil {
		return nil, err
	}
	whole := maps.Clone(part)
	whole["apiVersion"], whole["kind"] = object["apiVersion"], object["kind"]
	if err := joined(undeclared(v.schema, whole, "")); err != nil {
		return nil, fmt.Errorf("failed to convert patch object to typed object: %w", err)
	}
	if !v.root.trackable(0, whole, object) {
		return nil, tooLarge()
	}
	typed, err := v.merge.FromUnstructured(whole)
	if err != nil {
		return nil, fmt.Errorf("failed to convert patch object to typed object: %w", err)
	}
	if atomic := atomics(v.merge.Schema, v.merge.TypeRef, typed.AsValue(), nil, nil); len(atomic) > 0 {
		return nil, fmt.Errorf("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: %s", strings.Join(atomic, ", "))
	}
	merged, err := v.stored(object).Merge(typed)
	if err != nil {
		return nil, fmt.Errorf("failed to merge patch: %w", err)
	}
	out, ok := merged.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, errors.New("failed to convert typed object to object")
	}
	return out, nil
}

// joined returns some problems as one error, in the form of structured-merge-diff.
func joined(problems []string) error {
	switch len(problems) {
	case 0:
		return nil
	case 1:
		return errors.New(problems[0])
	}
	return errors.New("errors:\n  " + strings.Join(problems, "\n  "))
}

// mergeNames are the names of types in the messages of structured-merge-diff.
var mergeNames = map[openapi.Type]string{
	openapi.Object: "map", openapi.Array: "list", openapi.String: "string", openapi.Integer: "numeric", openapi.Number: "numeric", openapi.Boolean: "boolean",
}

// undeclared returns the fields that a schema does not declare, and those that are null and may not be. Merge
// schemas accept all fields, and null everywhere.
func undeclared(s *openapi.Schema, v any, path string) []string {
	if s == nil {
		return nil
	}
	var out []string
	switch v := v.(type) {
	case nil:
		if is, ok := mergeNames[s.Type]; ok && !s.Nullable && path != "" {
			return []string{path + ": expected " + is + ", got null"}
		}
	case map[string]any:
		if s.Type != openapi.Object {
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			at := path + "." + name
			switch child, declared := s.Property(name); {
			case declared:
				out = append(out, undeclared(child, v[name], at)...)
			case s.AdditionalProperties != nil:
				out = append(out, undeclared(s.AdditionalProperties, v[name], at)...)
			case s.EmbeddedObject && (name == "apiVersion" || name == "kind" || name == "metadata"):
			case !s.PreserveUnknown:
				out = append(out, at+": field not declared in schema")
			}
		}
	case []any:
		for i, item := range v {
			out = append(out, undeclared(s.Items, item, fmt.Sprintf("%s[%d]", path, i))...)
		}
	}
	return out
}

// atomics returns the paths of the atomic lists and maps in a value.
func atomics(s *schema.Schema, of schema.TypeRef, v value.Value, path fieldpath.Path, out []string) []string {
	a, ok := s.Resolve(of)
	if !ok {
		return out
	}
	if v.IsMap() && a.Map != nil {
		if a.Map.ElementRelationship == schema.Atomic {
			out = append(out, path.String())
		}
		v.AsMap().Iterate(func(name string, item value.Value) bool {
			if field, ok := a.Map.FindField(name); ok {
				out = atomics(s, field.Type, item, append(path, fieldpath.PathElement{FieldName: &name}), out)
			}
			return true
		})
	}
	if v.IsList() && a.List != nil {
		if a.List.ElementRelationship == schema.Atomic {
			out = append(out, path.String())
		}
		list := v.AsList()
		for i := range list.Length() {
			out = atomics(s, a.List.ElementType, list.At(i), append(path, fieldpath.PathElement{Index: &i}), out)
		}
	}
	return out
}
