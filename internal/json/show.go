package json

import (
	"bytes"
	"encoding/base64"
	"math"
	"reflect"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
)

// showByText returns the tree of the JSON of a value.
func showByText(v reflect.Value, _ int) (any, bool) {
	buf := buffers.Get().(*bytes.Buffer)
	defer release(buf)
	if err := jsonv2.MarshalWrite(buf, v.Addr().Interface(), options); err != nil {
		return nil, false
	}
	tree, err := DecodeTree(buf.Bytes(), TreeOptions{})
	return tree, err == nil
}

// showByMethod returns the tree of the JSON that a value writes itself.
func showByMethod(v reflect.Value, _ int) (any, bool) {
	data, err := v.Addr().Interface().(jsonv2.Marshaler).MarshalJSON() //nolint:forcetypeassert // the type that it was compiled for
	if err != nil {
		return nil, false
	}
	tree, err := DecodeTree(data, TreeOptions{})
	return tree, err == nil
}

func showBool(v reflect.Value, _ int) (any, bool) { return v.Bool(), true }

func showString(v reflect.Value, _ int) (any, bool) { return v.String(), utf8.ValidString(v.String()) }

func showInt(v reflect.Value, _ int) (any, bool) { return v.Int(), true }

func showUint(v reflect.Value, _ int) (any, bool) { return int64(v.Uint()), v.Uint() <= math.MaxInt64 } //nolint:gosec // checked beside it

func showBytes(v reflect.Value, _ int) (any, bool) {
	if v.IsNil() {
		return nil, true
	}
	return base64.StdEncoding.EncodeToString(v.Bytes()), true
}

func showStrings(v reflect.Value, _ int) (any, bool) {
	if v.IsNil() {
		return nil, true
	}
	texts := *v.Addr().Interface().(*[]string) //nolint:forcetypeassert // the type that it was compiled for
	out := make([]any, len(texts))
	for i, text := range texts {
		if !utf8.ValidString(text) {
			return nil, false
		}
		out[i] = text
	}
	return out, true
}

func showTexts(v reflect.Value, _ int) (any, bool) {
	if v.IsNil() {
		return nil, true
	}
	texts := *v.Addr().Interface().(*map[string]string) //nolint:forcetypeassert // the type that it was compiled for
	out := make(map[string]any, len(texts))
	for name, text := range texts {
		if !utf8.ValidString(name) || !utf8.ValidString(text) {
			return nil, false
		}
		out[name] = text
	}
	return out, true
}

func showPointer(elem *structure) func(reflect.Value, int) (any, bool) {
	return func(v reflect.Value, depth int) (any, bool) {
		if v.IsNil() || depth > maxStructureDepth {
			return nil, v.IsNil()
		}
		return elem.show(v.Elem(), depth+1)
	}
}

func showSlice(elem *structure) func(reflect.Value, int) (any, bool) {
	return func(v reflect.Value, depth int) (any, bool) {
		if v.IsNil() || depth > maxStructureDepth {
			return nil, v.IsNil()
		}
		out := make([]any, v.Len())
		for i := range out {
			var ok bool
			if out[i], ok = elem.show(v.Index(i), depth+1); !ok {
				return nil, false
			}
		}
		return out, true
	}
}

func showMap(t reflect.Type, elem *structure) func(reflect.Value, int) (any, bool) {
	return func(v reflect.Value, depth int) (any, bool) {
		if v.IsNil() || depth > maxStructureDepth {
			return nil, v.IsNil()
		}
		out := make(map[string]any, v.Len())
		value := reflect.New(t.Elem()).Elem()
		for each := v.MapRange(); each.Next(); {
			value.SetIterValue(each)
			name := each.Key().String()
			member, ok := elem.show(value, depth+1)
			if !ok || !utf8.ValidString(name) {
				return nil, false
			}
			out[name] = member
		}
		return out, true
	}
}

func showStruct(fields []field) func(reflect.Value, int) (any, bool) {
	return func(v reflect.Value, depth int) (any, bool) {
		out := make(map[string]any, min(len(fields), 8))
		for i := range fields {
			f := &fields[i]
			member := v.FieldByIndex(f.index)
			if f.omit != nil && f.omit(member) {
				continue
			}
			tree, ok := f.of.show(member, depth+1)
			if !ok {
				return nil, false
			}
			out[f.name] = tree
		}
		return out, true
	}
}
