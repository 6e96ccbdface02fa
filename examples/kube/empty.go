package kube

import (
	"reflect"
	"strings"
)

// empties says where values of a type hold lists and maps that JSON would write as null. Nil is
// nowhere. Some fields of Kubernetes' types are always written, and their schema says that they are
// required, though no client has to send them.
type empties struct {
	elem   *empties // of what a pointer or a list holds
	fields []emptyField
}

// emptyField is a field of a struct that is always written, or that holds such fields.
type emptyField struct {
	index  int
	always bool
	of     *empties
}

// fillEmpty turns lists and maps that JSON would write as null into empty ones.
func fillEmpty(v reflect.Value) { emptiesOf(v.Type(), map[reflect.Type]*empties{}).fill(v) }

// emptiesOf returns the empties of a type. Those in known are being made: types may hold themselves.
func emptiesOf(t reflect.Type, known map[reflect.Type]*empties) *empties {
	if e, ok := known[t]; ok {
		return e
	}
	e := &empties{}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		if e.elem = emptiesOf(t.Elem(), known); e.elem != nil {
			return e
		}
	case reflect.Struct:
		known[t] = e
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() {
				continue
			}
			if of := emptiesOf(f.Type, known); of != nil || always(f) {
				e.fields = append(e.fields, emptyField{i, always(f), of})
			}
		}
		if len(e.fields) > 0 {
			return e
		}
		known[t] = nil
	}
	return nil
}

// fill makes the empty values in a value.
func (e *empties) fill(v reflect.Value) {
	if e == nil {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			e.elem.fill(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			e.elem.fill(v.Index(i))
		}
	case reflect.Struct:
		for _, f := range e.fields {
			switch field := v.Field(f.index); {
			case !f.always || !field.IsNil():
				f.of.fill(field)
			case field.Kind() == reflect.Slice:
				field.Set(reflect.MakeSlice(field.Type(), 0, 0))
			default:
				field.Set(reflect.MakeMap(field.Type()))
			}
		}
	}
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
