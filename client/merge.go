package client

import (
	"reflect"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/threeway"
)

// A Go struct shows only part of an object; the text from the server is the whole object. The
// caller's change is the difference between the struct's JSON before and after. Only that
// difference is applied to the object, so fields that the struct does not know or encodes
// differently keep their values (UPDATE-04).

// merge applies the difference between before and after, both of type T, to object.
func merge[T any](object, before, after map[string]any) map[string]any {
	return threeway.Merge(goType{reflect.TypeFor[T]()}, object, before, after)
}

// goType is the shape of an object as a Go type shows it. It is of a nil type where no type says
// anything, as below a map[string]any.
type goType struct{ reflect.Type }

func (t goType) Member(name string) threeway.Shape {
	switch s := t.pointee(); {
	case s == nil:
		return goType{}
	case s.Kind() == reflect.Map:
		return goType{s.Elem()}
	case s.Kind() == reflect.Struct:
		return goType{fieldType(s, name)}
	}
	return goType{}
}

func (t goType) Items() threeway.Shape {
	switch s := t.pointee(); {
	case s == nil:
		return goType{}
	case s.Kind() == reflect.Slice || s.Kind() == reflect.Array:
		return goType{s.Elem()}
	}
	return goType{}
}

// Whole is false for a struct that is no pointer: nobody can take it out of the struct that it is
// part of. Its JSON is left out when the fields that the type knows are empty. A pointer or a map
// that is set to nil is meant to go, with the fields that the type does not know.
func (t goType) Whole() bool { return t.Type == nil || t.Kind() != reflect.Struct }

func (goType) Bare(object map[string]any) bool { return len(object) == 0 }

// Identity compares the member that identifies items by convention, if all items have it.
func (goType) Identity(lists ...[]any) func(any) string {
	for _, name := range []string{"uid", "name", "type", "key", "id"} {
		if !slices.ContainsFunc(lists, func(items []any) bool { return !identifies(name, items) }) {
			return func(item any) string { return member(item, name) }
		}
	}
	return nil
}

func (t goType) pointee() reflect.Type {
	s := t.Type
	for s != nil && s.Kind() == reflect.Pointer {
		s = s.Elem()
	}
	return s
}

// fieldType returns the type of the field that a struct encodes under a name. It is nil if there is
// none.
func fieldType(s reflect.Type, name string) reflect.Type {
	var embedded []reflect.Type
	for field := range s.Fields() {
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case tag == name || tag == "" && !field.Anonymous && field.Name == name:
			return field.Type
		case tag == "" && field.Anonymous:
			embedded = append(embedded, field.Type)
		}
	}
	for _, e := range embedded {
		if e = (goType{e}).pointee(); e.Kind() == reflect.Struct {
			if found := fieldType(e, name); found != nil {
				return found
			}
		}
	}
	return nil
}

// identifies reports whether each item has another value of the member name.
func identifies(name string, items []any) bool {
	seen := make(map[string]bool, len(items))
	for _, item := range items {
		v := member(item, name)
		if v == "" || seen[v] {
			return false
		}
		seen[v] = true
	}
	return true
}

// member returns the string member name of an item, or "".
func member(item any, name string) string {
	m, _ := item.(map[string]any)
	s, _ := m[name].(string)
	return s
}
