package kube

import (
	"reflect"
	"strings"
)

// fillEmpty makes lists and maps that JSON would write as null ones that are there and empty: the types of Kubernetes have some
// that are always written, and whose schema says that they are required, though nobody has to send them.
func fillEmpty(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fillEmpty(v.Elem())
		}
	case reflect.Slice:
		if holdsStructs(v.Type().Elem()) {
			for i := range v.Len() {
				fillEmpty(v.Index(i))
			}
		}
	case reflect.Struct:
		t := v.Type()
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() || !holdsStructs(f.Type) && f.Type.Kind() != reflect.Slice && f.Type.Kind() != reflect.Map {
				continue
			}
			field := v.Field(i)
			if always(f) && field.IsNil() {
				if f.Type.Kind() == reflect.Slice {
					field.Set(reflect.MakeSlice(f.Type, 0, 0))
				} else {
					field.Set(reflect.MakeMap(f.Type))
				}
				continue
			}
			fillEmpty(field)
		}
	}
}

// holdsStructs tells of types whose values may have fields.
func holdsStructs(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		return true
	case reflect.Pointer, reflect.Slice:
		return holdsStructs(t.Elem())
	}
	return false
}

// always tells of a list or a map that JSON writes whatever is in it.
func always(f reflect.StructField) bool {
	if k := f.Type.Kind(); k != reflect.Slice && k != reflect.Map || f.Type.Elem().Kind() == reflect.Uint8 {
		return false
	}
	tag, ok := f.Tag.Lookup("json")
	_, options, _ := strings.Cut(tag, ",")
	return ok && tag != "-" && !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") && !strings.Contains(options, "inline")
}
