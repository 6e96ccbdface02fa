package typed

import (
	"reflect"
	"strings"
)

// owners are the managed fields of an object. They are often longer than the rest of it, and hardly
// any function changes them. So they are left out where an object is encoded to see what a function
// has changed in it.
type owners struct {
	field   reflect.Value // in the object; not valid if the type has no managed fields
	entries reflect.Value // what was hidden
	copied  reflect.Value // what the entries were
}

// ownersOf finds the managed fields of an object.
func ownersOf(object reflect.Value) owners {
	metadata := member(object, "metadata")
	if !metadata.IsValid() || metadata.Kind() != reflect.Struct {
		return owners{}
	}
	field := member(metadata, "managedFields")
	if !field.IsValid() || field.Kind() != reflect.Slice {
		return owners{}
	}
	return owners{field: field}
}

// member returns the field of a struct that has a JSON name, without looking into embedded structs.
func member(v reflect.Value, name string) reflect.Value {
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name && f.IsExported() {
			return v.Field(i)
		}
	}
	return reflect.Value{}
}

// hide takes the managed fields out of the object.
func (o *owners) hide() {
	if !o.field.IsValid() {
		return
	}
	o.entries = reflect.New(o.field.Type()).Elem()
	o.entries.Set(o.field)
	o.copied = reflect.MakeSlice(o.field.Type(), o.field.Len(), o.field.Len())
	reflect.Copy(o.copied, o.field)
	o.field.SetZero()
}

// show puts them back.
func (o *owners) show() {
	if o.field.IsValid() {
		o.field.Set(o.entries)
	}
}

// hideUnchanged takes them out if they are as they were, and reports whether that is so.
func (o *owners) hideUnchanged() bool {
	if !o.field.IsValid() {
		return true
	}
	if o.field.Len() != o.copied.Len() || o.field.IsNil() != o.entries.IsNil() ||
		o.field.Len() > 0 && !reflect.DeepEqual(o.field.Interface(), o.copied.Interface()) {
		return false
	}
	o.entries.Set(o.field)
	o.field.SetZero()
	return true
}
