package protobuf

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"time"
)

var (
	jsonMarshaler  = reflect.TypeFor[interface{ MarshalJSON() ([]byte, error) }]()
	textMarshaler  = reflect.TypeFor[encoding.TextMarshaler]()
	protoMarshaler = reflect.TypeFor[interface{ Marshal() ([]byte, error) }]()
)

// has reports whether T or *T implements an interface type.
func has(t, methods reflect.Type) bool {
	return t.Implements(methods) || reflect.PointerTo(t).Implements(methods)
}

// writesJSON reports whether the JSON of a type does not follow from its fields.
func writesJSON(t reflect.Type) bool { return has(t, jsonMarshaler) || has(t, textMarshaler) }

// wellKnown returns the shape of types whose encoding does not follow from their Go kind. It
// recognises them by name and structure, so that the types of package meta and of the Kubernetes
// libraries are treated alike without importing either.
func (r *reader) wellKnown(t reflect.Type) (s shape, known bool, err error) {
	switch {
	case t.Kind() == reflect.Slice && has(t, protoMarshaler):
		s, err = r.listShape(t)
		return s, true, err
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		if has(t, jsonMarshaler) {
			return shape{kind: kindRaw}, true, nil
		}
		return shape{kind: kindBytes}, true, nil
	case !writesJSON(t):
		return s, false, nil
	case t.Kind() == reflect.Struct:
		if s, known, err = r.knownStruct(t); known || err != nil {
			return s, known, err
		}
	}
	return s, false, fmt.Errorf("the Go type %s has its own JSON methods, and its message format is unknown", t)
}

func (r *reader) knownStruct(t reflect.Type) (s shape, known bool, err error) {
	switch {
	case t.Name() == "Time" && wraps[time.Time](t):
		return shape{kind: kindTime}, true, nil
	case t.Name() == "MicroTime" && wraps[time.Time](t):
		return shape{kind: kindMicroTime}, true, nil
	case t.Name() == "Duration" && wraps[time.Duration](t):
		return shape{kind: kindDuration}, true, nil
	case t.Name() == "Quantity" && isText(t):
		return shape{kind: kindQuantity}, true, nil
	case t.Name() == "FieldsV1" || numbered(t, numberRaw) && t.Field(0).Type == reflect.TypeFor[[]byte]():
		return shape{kind: kindRaw}, true, nil
	case t.Name() == "IntOrString" && numbered(t, numberChoice, numberNumber, numberText) &&
		kinds(t, reflect.Int64, reflect.Int32, reflect.String):
		return shape{kind: kindIntOrString}, true, nil
	case t.Name() == "JSONSchemaPropsOrBool" && numbered(t, numberAllows, numberBoolSchema) && kinds(t, reflect.Bool, reflect.Pointer):
		s, err = r.alternatives(t.Field(1).Type, nil)
		s.kind = kindOrBool
		return s, true, err
	case numbered(t, numberSchema, numberItems) && kinds(t, reflect.Pointer, reflect.Slice) &&
		slices.Contains([]string{"JSONSchemaPropsOrArray", "JSONSchemaPropsOrStringArray"}, t.Name()):
		s, err = r.alternatives(t.Field(0).Type, t.Field(1).Type.Elem())
		return s, true, err
	}
	return s, false, nil
}

// alternatives returns the shape of a value that is an object or a list.
func (r *reader) alternatives(object, item reflect.Type) (s shape, err error) {
	s.kind = kindOrList
	if s.message, err = r.message(object.Elem()); err != nil || item == nil {
		return s, err
	}
	items, err := r.value(item)
	s.items = &items
	return s, err
}

// wraps reports whether a type is a struct with an embedded T as its only field.
func wraps[T any](t reflect.Type) bool {
	return t.NumField() == 1 && t.Field(0).Anonymous && t.Field(0).Type == reflect.TypeFor[T]()
}

// isText reports whether a type declares itself as a string for OpenAPI.
func isText(t reflect.Type) bool {
	typed, ok := reflect.New(t).Interface().(interface{ OpenAPISchemaType() []string })
	return ok && slices.Equal(typed.OpenAPISchemaType(), []string{"string"})
}

// numbered reports whether exactly the first fields of a struct have protobuf tags, with these
// numbers.
func numbered(t reflect.Type, numbers ...int32) bool {
	for i := range t.NumField() {
		tag, ok := t.Field(i).Tag.Lookup("protobuf")
		if !ok || tag == "-" {
			return i == len(numbers)
		}
		if number, err := parseTag(tag); err != nil || i >= len(numbers) || number != numbers[i] {
			return false
		}
	}
	return t.NumField() == len(numbers)
}

// kinds reports whether the first fields of a struct have these kinds.
func kinds(t reflect.Type, want ...reflect.Kind) bool {
	for i, kind := range want {
		if t.Field(i).Type.Kind() != kind {
			return false
		}
	}
	return true
}
