package main

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A field is one of a struct in JSON.
type field struct {
	name string
	typ  reflect.Type
	in   reflect.Type // the struct, which may be embedded
}

// jsonFields returns the fields of a struct, with those of embedded structs in their places.
func jsonFields(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name != "":
			out = append(out, field{name, f.Type, t})
		case f.Anonymous || strings.Contains(options, "inline"):
			out = append(out, jsonFields(f.Type)...)
		}
	}
	return out
}

// fieldType returns the type of a struct's field.
func fieldType(t reflect.Type, name string) (reflect.Type, bool) {
	fields := jsonFields(t)
	i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
	if i < 0 {
		return nil, false
	}
	return fields[i].typ, true
}

// special are the types whose JSON is not that of their kind.
func special() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString](),
		reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[metav1.Duration](),
		reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[metav1.FieldsV1](),
	}
}

// scalar reports whether values of a type have no parts that can be changed one by one.
func scalar(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		return slices.Contains(special(), t)
	case reflect.Map, reflect.Pointer:
		return false
	case reflect.Slice:
		return t.Elem().Kind() == reflect.Uint8
	default:
		return true
	}
}

// pointed returns what pointers point to in the end.
func pointed(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}
