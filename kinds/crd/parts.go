package crd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/status"
)

// validateSubresources reports paths of a scale that are not below spec and status.
//
// Source: CRD-15.
func validateSubresources(s *CustomResourceSubresources, at status.Field) {
	if s == nil || s.Scale == nil {
		return
	}
	check := func(path, name, where string, prefixes ...string) {
		at := at.Child("scale." + name)
		if problem := simplePathProblem(path); problem != "" {
			at.Invalid(path, problem)
		} else if !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(path, p) }) {
			at.Invalid(path, "should be a json path under "+where)
		}
	}
	if path := s.Scale.SpecReplicasPath; path == "" {
		at.Child("scale.specReplicasPath").Required("")
	} else {
		check(path, "specReplicasPath", ".spec", ".spec.")
	}
	if path := s.Scale.StatusReplicasPath; path == "" {
		at.Child("scale.statusReplicasPath").Required("")
	} else {
		check(path, "statusReplicasPath", ".status", ".status.")
	}
	if path := s.Scale.LabelSelectorPath; path != nil && *path != "" {
		check(*path, "labelSelectorPath", "either .spec or .status", ".spec.", ".status.")
	}
}

// simplePathProblem says what is wrong with a path.
func simplePathProblem(path string) string {
	if path != "" && path[0] != '.' {
		return "must be a simple json path starting with ."
	}
	return ""
}

var (
	columnTypes   = []string{"boolean", "date", "integer", "number", "string"}
	columnFormats = []string{"byte", "date", "date-time", "double", "float", "int32", "int64", "password"}
)

// validateColumns reports printer columns that cannot be shown.
//
// Source: CRD-18.
func validateColumns(columns []CustomResourceColumnDefinition, at status.Field) {
	for i, c := range columns {
		at := at.Index(i)
		if c.Name == "" {
			at.Child("name").Required("")
		}
		types := "must be one of " + strings.Join(columnTypes, ",")
		if c.Type == "" {
			at.Child("type").Required(types)
		} else if !slices.Contains(columnTypes, c.Type) {
			at.Child("type").Invalid(c.Type, types)
		}
		if c.Format != "" && !slices.Contains(columnFormats, c.Format) {
			at.Child("format").Invalid(c.Format, "must be one of "+strings.Join(columnFormats, ","))
		}
		if c.JSONPath == "" {
			at.Child("JSONPath").Required("")
		} else if problem := simplePathProblem(c.JSONPath); problem != "" {
			at.Child("JSONPath").Invalid(c.JSONPath, problem)
		}
	}
}

// maxSelectableFields is the number of fields that a version can make selectable.
//
// Source: CRD-17.
const maxSelectableFields = 8

// validateSelectable reports fields that selectors cannot name. A version that had too many may keep
// them.
//
// Source: CRD-17.
func validateSelectable(v *CustomResourceDefinitionVersion, old *CustomResourceDefinition, document map[string]any, at status.Field) {
	seen := map[string]bool{}
	for i, f := range v.SelectableFields {
		at := at.Index(i).Child("jsonPath")
		if f.JSONPath == "" {
			at.Required("")
			continue
		}
		names, node, err := fieldAt(document, f.JSONPath)
		if err != nil {
			at.Invalid(f.JSONPath, "is an invalid path: "+err.Error())
			continue
		}
		if names[0] == "metadata" {
			at.Invalid(f.JSONPath, "must not point to fields in metadata")
		}
		if t := node["type"]; t != "string" && t != "boolean" && t != "integer" {
			at.Invalid(f.JSONPath, "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.")
		}
		path := strings.Join(names, ".")
		if seen[path] {
			at.Duplicate(f.JSONPath)
		}
		seen[path] = true
	}
	before := old.version(v.Name)
	unchanged := before != nil && len(before.SelectableFields) > maxSelectableFields && slices.Equal(before.SelectableFields, v.SelectableFields)
	if len(seen) > maxSelectableFields && !unchanged {
		at.TooMany(len(seen), maxSelectableFields)
	}
}

// fieldAt returns the names in a path of fields, such as .spec.color, and the node of the schema that
// describes the field.
func fieldAt(document map[string]any, path string) (names []string, node map[string]any, err error) {
	node = document
	for rest := path; rest != ""; {
		switch rest[0] {
		case '[':
			return nil, nil, errors.New("array notation is not allowed")
		case '.':
			rest = rest[1:]
		default:
			token, _ := token(rest)
			return nil, nil, fmt.Errorf("expected [ or . but got: %s", token)
		}
		if rest == "" {
			return nil, nil, errors.New("unexpected end of JSON path")
		}
		name, after := token(rest)
		rest = after
		if node = member(node, name); node == nil {
			return nil, nil, errors.New("does not refer to a valid field")
		}
		names = append(names, name)
	}
	return names, node, nil
}

// token cuts the first delimiter, or the text up to it, off a path. A text in single quotes may
// contain delimiters.
func token(path string) (first, rest string) {
	if path[0] == '\'' {
		for i := 1; i < len(path); i++ {
			if path[i] == '\'' && path[i-1] != '\\' {
				return path[:i+1], path[i+1:]
			}
		}
		return path, ""
	}
	switch i := strings.IndexAny(path, ".[]"); i {
	case -1:
		return path, ""
	case 0:
		return path[:1], path[1:]
	default:
		return path[:i], path[i:]
	}
}

// member returns the node that describes a field of an object, or nil.
func member(node map[string]any, name string) map[string]any {
	if properties, ok := node["properties"].(map[string]any); ok {
		one, _ := properties[name].(map[string]any)
		return one
	}
	one, _ := node["additionalProperties"].(map[string]any)
	return one
}
