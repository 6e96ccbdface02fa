package cel

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/openapi"
)

// Views show parts of a tree to expressions. They hold the part and its schema and convert nothing
// but scalars, when these are read.

// view returns the value of a part of a tree. A part that does not fit its schema is an error: the
// rule that reads it fails. w may be nil.
func view(v any, s *openapi.Schema, w *load) ref.Val {
	switch t := v.(type) {
	case nil:
		if s.Nullable {
			return types.NullValue
		}
		return types.NewErr("invalid data, got null for schema with nullable=false")
	case ref.Val: // an item that an expression added to a list
		return t
	}
	switch formOf(s) {
	case formObject:
		if object, ok := v.(map[string]any); ok {
			return &objectView{members{object, s, w}}
		}
		return types.NewErr("invalid data, expected a map for the provided schema with type=object")
	case formMap:
		if object, ok := v.(map[string]any); ok {
			return &mapView{members{object, s, w}}
		}
		return types.NewErr("invalid data, expected a map for the provided schema with type=object")
	case formList:
		if items, ok := v.([]any); ok {
			return &listView{items: items, schema: s, work: w}
		}
		return types.NewErr("invalid data, expected an array for the provided schema with type=array")
	case formHidden:
		return hidden{v}
	}
	return scalarView(v, s, w)
}

// rootView is view before a program runs, which is what steps end: a scalar takes nothing.
func rootView(v any, s *openapi.Schema, w *load) ref.Val {
	switch formOf(s) {
	case formObject, formMap, formList:
		return view(v, s, w)
	}
	return view(v, s, nil)
}

func scalarView(v any, s *openapi.Schema, w *load) ref.Val {
	switch t := v.(type) {
	case string:
		switch f := formOf(s); f {
		case formString, formIntOrString:
			return types.String(t)
		case formBytes, formDuration, formDate, formTime:
			w.spend(ofLarge(len(t), bytesOfWork))
			return textView(t, f)
		}
	case int64:
		switch formOf(s) {
		case formInt, formIntOrString:
			return types.Int(t)
		case formDouble:
			return types.Double(t)
		}
	case float64:
		switch f := formOf(s); {
		case f == formDouble:
			return types.Double(t)
		case f == formInt && t == math.Trunc(t) && math.Abs(t) < 1<<63:
			return types.Int(t)
		}
	case bool:
		if formOf(s) == formBool {
			return types.Bool(t)
		}
	}
	if s.IntOrString {
		return types.NewErr("invalid data, expected XIntOrString value to be either a string or integer")
	}
	want := map[openapi.Type]string{openapi.String: "string", openapi.Integer: "int", openapi.Number: "float", openapi.Boolean: "bool"}
	return types.NewErr("invalid data, expected %s, got %T", want[s.Type], v)
}

// textView reads a text that stands for another type.
func textView(text string, f form) ref.Val {
	switch f {
	case formDuration:
		d, err := parseDuration(text)
		if err != nil {
			return types.NewErr("Invalid duration %s: %v", text, err)
		}
		return types.Duration{Duration: d}
	case formDate:
		t, err := time.Parse(time.DateOnly, text)
		if err != nil {
			return types.NewErr("Invalid date formatted string %s: %v", text, err)
		}
		return types.Timestamp{Time: t}
	case formTime:
		t, err := parseTime(text)
		if err != nil {
			return types.NewErr("Invalid date-time formatted string %s: %v", text, err)
		}
		return types.Timestamp{Time: t}
	}
	b, err := parseBytes(text)
	if err != nil {
		return types.NewErr("Invalid byte formatted string %s: %v", text, err)
	}
	return types.Bytes(b)
}

func parseTime(text string) (time.Time, error) {
	if text == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		if local, bad := time.Parse("2006-01-02T15:04:05", text); bad == nil {
			return local, nil
		}
	}
	return t, err
}

func parseBytes(text string) ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		if other, bad := base64.URLEncoding.DecodeString(text); bad == nil {
			return other, nil
		}
	}
	return b, err
}

// hidden is data that no schema describes. Objects that contain it can be compared; expressions
// cannot reach it.
type hidden struct{ data any }

func (h hidden) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("type conversion to '%s' not supported for values preserved by x-kubernetes-preserve-unknown-fields", t)
}

func (h hidden) ConvertToType(t ref.Type) ref.Val {
	return types.NewErr("type conversion to '%s' not supported for values preserved by x-kubernetes-preserve-unknown-fields", t.TypeName())
}

func (h hidden) Equal(other ref.Val) ref.Val { return types.Bool(json.Equal(h.data, raw(other))) }
func (h hidden) Type() ref.Type              { return types.UnknownType }
func (h hidden) Value() any                  { return h.data }

// raw returns the tree behind a view or a scalar.
func raw(v ref.Val) any {
	switch v := v.(type) {
	case *objectView:
		return v.object
	case *mapView:
		return v.object
	case *listView:
		return v.items
	case hidden:
		return v.data
	case types.String:
		return string(v)
	case types.Int:
		return int64(v)
	case types.Double:
		return float64(v)
	case types.Bool:
		return bool(v)
	case types.Null:
		return nil
	}
	return v
}

// members is what objects and maps have in common.
type members struct {
	object map[string]any
	schema *openapi.Schema
	work   *load // of the evaluation that reads them; may be nil
}

func (m members) Type() ref.Type { return types.MapType }
func (m members) Value() any     { return m.object }
func (m members) Size() ref.Val  { return types.Int(len(m.object)) }

func (m members) ConvertToNative(t reflect.Type) (any, error) {
	if t.Kind() == reflect.Map {
		return m.object, nil
	}
	return nil, fmt.Errorf("type conversion error from '%s' to '%s'", m.Type(), t)
}

func convert(v ref.Val, t ref.Type) ref.Val {
	switch t {
	case v.Type():
		return v
	case types.TypeType:
		return v.Type().(ref.Val)
	}
	return types.NewErr("type conversion error from '%s' to '%s'", v.Type(), t.TypeName())
}

func get(m traits.Mapper, key ref.Val) ref.Val {
	if v, found := m.Find(key); found {
		return v
	}
	return types.ValOrErr(key, "no such key: %v", key)
}

func contains(m traits.Mapper, key ref.Val) ref.Val {
	v, found := m.Find(key)
	if v != nil && types.IsUnknownOrError(v) {
		return v
	}
	return types.Bool(found)
}

// objectView is an object with declared fields, which expressions reach by identifiers.
type objectView struct{ members }

// property returns the schema of a field. A complete object is asked often, so no schema is made for it.
func (o *objectView) property(name string) (*openapi.Schema, bool) {
	if o.schema.EmbeddedObject {
		return resourceProperty(o.schema, name)
	}
	return o.schema.Property(name)
}

// Find returns a field. A field that is null is absent.
func (o *objectView) Find(key ref.Val) (ref.Val, bool) {
	identifier, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), true
	}
	name, ok := unescape(string(identifier))
	if !ok {
		return nil, false
	}
	v, ok := o.object[name]
	if !ok || v == nil {
		return nil, false
	}
	child, ok := o.property(name)
	if !ok {
		return nil, false
	}
	return view(v, child, o.work), true
}

func (o *objectView) Get(key ref.Val) ref.Val          { return get(o, key) }
func (o *objectView) Contains(key ref.Val) ref.Val     { return contains(o, key) }
func (o *objectView) ConvertToType(t ref.Type) ref.Val { return convert(o, t) }
func (o *objectView) Equal(other ref.Val) ref.Val      { return o.equal(o, other, o.property) }

// Iterator returns the identifiers of the declared fields that are present.
func (o *objectView) Iterator() traits.Iterator {
	o.work.order(len(o.object))
	var names []string
	for name := range o.object {
		if _, declared := o.property(name); declared {
			if identifier, ok := escape(name); ok {
				name = identifier
			}
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return &nameIterator{names: names}
}

// mapView is an object whose members have any names and one schema.
type mapView struct{ members }

// Find returns a member.
func (m *mapView) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), true
	}
	v, ok := m.object[string(name)]
	if !ok {
		return nil, false
	}
	return view(v, m.schema.AdditionalProperties, m.work), true
}

func (m *mapView) Get(key ref.Val) ref.Val          { return get(m, key) }
func (m *mapView) Contains(key ref.Val) ref.Val     { return contains(m, key) }
func (m *mapView) ConvertToType(t ref.Type) ref.Val { return convert(m, t) }

func (m *mapView) Equal(other ref.Val) ref.Val {
	return m.equal(m, other, func(string) (*openapi.Schema, bool) { return m.schema.AdditionalProperties, true })
}

// Iterator returns the keys in order, so that the cost of an evaluation is the same each time.
// Source: CEL-22.
func (m *mapView) Iterator() traits.Iterator {
	m.work.order(len(m.object))
	return &nameIterator{names: slices.Sorted(maps.Keys(m.object))}
}

// equal compares with another map or object, self being the view of m. Data without schema is
// compared as it is.
func (m members) equal(self traits.Mapper, other ref.Val, schema func(string) (*openapi.Schema, bool)) ref.Val {
	mapper, ok := other.(traits.Mapper)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	if self.Size() != mapper.Size() {
		return types.False
	}
	round := 0
	for name, value := range m.object {
		round++
		m.work.look(round)
		if _, declared := schema(name); !declared {
			o, ok := other.(*objectView)
			if !ok {
				return types.MaybeNoSuchOverloadErr(other)
			}
			if there, ok := o.object[name]; ok && !json.Equal(value, there) {
				return types.False
			}
			continue
		}
		key := types.String(name)
		v, found := self.Find(key)
		w, there := mapper.Find(key)
		if found != there {
			return types.False
		}
		if found {
			if same := v.Equal(w); same != types.True {
				return same
			}
		}
	}
	return types.True
}

// nameIterator iterates over names.
type nameIterator struct {
	names []string
	next  int
}

func (it *nameIterator) HasNext() ref.Val { return types.Bool(it.next < len(it.names)) }

func (it *nameIterator) Next() ref.Val {
	it.next++
	return types.String(it.names[it.next-1])
}

func (it *nameIterator) ConvertToNative(reflect.Type) (any, error) {
	return nil, fmt.Errorf("type conversion on iterators not supported")
}
func (it *nameIterator) ConvertToType(ref.Type) ref.Val { return types.NewErr("no such overload") }
func (it *nameIterator) Equal(ref.Val) ref.Val          { return types.NewErr("no such overload") }
func (it *nameIterator) Type() ref.Type                 { return types.IteratorType }
func (it *nameIterator) Value() any                     { return nil }
