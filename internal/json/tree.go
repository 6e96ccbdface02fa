package json

import (
	"maps"
	"reflect"
	"slices"
)

// Equal reports whether two trees have the same canonical JSON. An integer equals the float of the
// same value. An absent member differs from null.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && (one(a, b) || maps.EqualFunc(a, b, Equal))
	case []any:
		b, ok := b.([]any)
		return ok && len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.EqualFunc(a, b, Equal))
	case int64:
		return equalInteger(a, b)
	case float64:
		switch b := b.(type) {
		case float64:
			return a == b
		case int64:
			return equalInteger(b, a)
		}
		return false
	case string:
		b, ok := b.(string)
		return ok && a == b
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	case nil:
		return b == nil
	}
	return false
}

// one reports whether a and b are the same map. Trees that are derived from each other share
// unchanged parts, so this saves most comparisons.
func one(a, b map[string]any) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

func equalInteger(a int64, b any) bool {
	switch b := b.(type) {
	case int64:
		return a == b
	case float64:
		i, ok := integral(b)
		return ok && i == a
	}
	return false
}

// Clone returns a deep copy of a tree, for callers that modify it.
func Clone(tree any) any {
	switch tree := tree.(type) {
	case map[string]any:
		if tree == nil {
			return tree
		}
		out := make(map[string]any, len(tree))
		for name, value := range tree {
			out[name] = Clone(value)
		}
		return out
	case []any:
		if tree == nil {
			return tree
		}
		out := make([]any, len(tree))
		for i, value := range tree {
			out[i] = Clone(value)
		}
		return out
	}
	return tree
}

// IsTree reports whether a value is a tree, that is, whether it consists of map[string]any, []any,
// string, bool, nil, int64 and float64. Values written by hand may contain other types, such as int
// or []string. TreeOf converts them.
func IsTree(v any) bool {
	switch v := v.(type) {
	case nil, string, bool, int64, float64:
		return true
	case map[string]any:
		for _, member := range v {
			if !IsTree(member) {
				return false
			}
		}
		return true
	case []any:
		for _, item := range v {
			if !IsTree(item) {
				return false
			}
		}
		return true
	}
	return false
}

// IsZero reports whether a value means the same as its absence: null, "", false, 0, an empty list,
// or a map whose members are all zero.
func IsZero(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case int64:
		return v == 0
	case float64:
		return v == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, member := range v {
			if !IsZero(member) {
				return false
			}
		}
		return true
	}
	return false
}
