package json

import (
	"encoding/base64"
	"reflect"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
)

// fillByText fills a value from the JSON of a tree.
func fillByText(v reflect.Value, tree any, _ int) bool {
	data, err := AppendTree(nil, tree)
	return err == nil && jsonv2.Unmarshal(data, v.Addr().Interface(), options) == nil
}

// fillByMethod asks the value to read the JSON of a tree. A method may keep its argument. The managed
// fields of a large object are of a megabyte; growing a buffer to that takes six times as much.
func fillByMethod(v reflect.Value, tree any, depth int) bool {
	if tree == nil {
		return fillByText(v, tree, depth)
	}
	data, err := AppendTree(make([]byte, 0, Length(tree)), tree)
	return err == nil && v.Addr().Interface().(jsonv2.Unmarshaler).UnmarshalJSON(data) == nil //nolint:forcetypeassert // the type that it was compiled for
}

func fillBool(v reflect.Value, tree any, _ int) bool {
	b, ok := tree.(bool)
	v.SetBool(b)
	return ok || tree == nil
}

func fillString(v reflect.Value, tree any, _ int) bool {
	s, ok := tree.(string)
	v.SetString(s)
	return ok && utf8.ValidString(s) || tree == nil
}

func fillInt(v reflect.Value, tree any, _ int) bool {
	i, ok := tree.(int64)
	if !ok || v.OverflowInt(i) {
		return tree == nil
	}
	v.SetInt(i)
	return true
}

func fillUint(v reflect.Value, tree any, _ int) bool {
	i, ok := tree.(int64)
	if !ok || i < 0 || v.OverflowUint(uint64(i)) {
		return tree == nil
	}
	v.SetUint(uint64(i))
	return true
}

func fillFloat(v reflect.Value, tree any, _ int) bool {
	switch f := tree.(type) {
	case int64:
		v.SetFloat(float64(f))
	case float64:
		v.SetFloat(f)
	default:
		return tree == nil
	}
	return true
}

func fillBytes(v reflect.Value, tree any, _ int) bool {
	s, ok := tree.(string)
	if !ok || strings.ContainsAny(s, "\r\n") {
		return tree == nil
	}
	b, err := base64.StdEncoding.DecodeString(s)
	v.SetBytes(b)
	return err == nil
}

func fillStrings(v reflect.Value, tree any, _ int) bool {
	items, ok := tree.([]any)
	if !ok {
		return tree == nil
	}
	out := make([]string, len(items))
	for i, item := range items {
		if out[i], ok = item.(string); !ok || !utf8.ValidString(out[i]) {
			return false
		}
	}
	*v.Addr().Interface().(*[]string) = out //nolint:forcetypeassert // the type that it was compiled for
	return true
}

func fillTexts(v reflect.Value, tree any, _ int) bool {
	members, ok := tree.(map[string]any)
	if !ok {
		return tree == nil
	}
	out := make(map[string]string, len(members))
	for name, member := range members {
		text, ok := member.(string)
		if !ok || !utf8.ValidString(name) || !utf8.ValidString(text) {
			return false
		}
		out[name] = text
	}
	*v.Addr().Interface().(*map[string]string) = out //nolint:forcetypeassert // the type that it was compiled for
	return true
}

func fillPointer(t reflect.Type, elem *structure) func(reflect.Value, any, int) bool {
	return func(v reflect.Value, tree any, depth int) bool {
		if tree == nil {
			return true
		}
		to := reflect.New(t.Elem())
		v.Set(to)
		return elem.fill(to.Elem(), tree, depth+1)
	}
}

func fillSlice(t reflect.Type, elem *structure) func(reflect.Value, any, int) bool {
	return func(v reflect.Value, tree any, depth int) bool {
		items, ok := tree.([]any)
		if !ok || depth > maxStructureDepth {
			return tree == nil
		}
		v.Set(reflect.MakeSlice(t, len(items), len(items)))
		for i, item := range items {
			if !elem.fill(v.Index(i), item, depth+1) {
				return false
			}
		}
		return true
	}
}

func fillMap(t reflect.Type, elem *structure) func(reflect.Value, any, int) bool {
	return func(v reflect.Value, tree any, depth int) bool {
		members, ok := tree.(map[string]any)
		if !ok || depth > maxStructureDepth {
			return tree == nil
		}
		v.Set(reflect.MakeMapWithSize(t, len(members)))
		key, value := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		for name, member := range members {
			value.SetZero()
			if !fillString(key, name, depth) || !elem.fill(value, member, depth+1) {
				return false
			}
			v.SetMapIndex(key, value)
		}
		return true
	}
}

func fillStruct(fields []field) func(reflect.Value, any, int) bool {
	byName := make(map[string]*field, len(fields))
	for i := range fields {
		byName[fields[i].name] = &fields[i]
	}
	return func(v reflect.Value, tree any, depth int) bool {
		members, ok := tree.(map[string]any)
		if !ok || depth > maxStructureDepth {
			return tree == nil
		}
		for name, member := range members {
			if f := byName[name]; f != nil && !f.of.fill(v.FieldByIndex(f.index), member, depth+1) {
				return false
			}
		}
		return true
	}
}
