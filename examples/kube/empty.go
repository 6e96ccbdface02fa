package kube

import (
	"reflect"
	"strings"
)

// fillEmpty turns lists and maps that JSON would write as null into empty ones. Some fields of
// Kubernetes' types are always written, and their schema says that they are required, though no
// client has to send them.
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

// holdsStructs reports whether values of a type may contain structs.
func holdsStructs(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		return true
	case reflect.Pointer, reflect.Slice:
		return holdsStructs(t.Elem())
	}
	return false
}

// always reports whether JSON always writes a list or map field.
func always(f reflect.StructField) bool {
	if k := f.Type.Kind(); k != reflect.Slice && k != reflect.Map || f.Type.Elem().Kind() == reflect.Uint8 {
		return false
	}
	tag, ok := f.Tag.Lookup("json")
	_, options, _ := strings.Cut(tag, ",")
	return ok && tag != "-" && !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") && !strings.Contains(options, "inline")
}
