package config

import (
	"encoding"
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/nearly"
	"github.com/kindwright/kindwright/status"
)

// Decode fills the struct that into points to. Its fields have json tags, of which only the name
// counts. They can be structs, pointers, slices, maps by string, strings, numbers, booleans, any,
// bytes in base64, and types with UnmarshalJSON or UnmarshalText. Fields of embedded structs are
// those of the outer one. A tag `config:"secret"` keeps the value out of errors, `config:"required"`
// reports a field that is absent, and `config:"also=port"` accepts another spelling of the name;
// both may be there if they agree (READ-10). A map with the tag `config:"rest"` takes the objects that no field names.
//
// The fields apiVersion and kind of the document need no field in the struct. A null is as good as
// an absent field.
func (d *Document) Decode(into any) error { return d.decode(into, false) }

// DecodeKnown is Decode for a document of another program, which may be newer: it ignores fields that
// the struct does not have.
func (d *Document) DecodeKnown(into any) error { return d.decode(into, true) }

func (d *Document) decode(into any, open bool) error {
	f := &status.Fields{}
	for _, path := range d.duplicates {
		f.At(path).Forbidden("duplicate field")
	}
	c := decoder{f, open}
	if object, ok := d.tree.(map[string]any); ok {
		c.object(f.At(), object, reflect.ValueOf(into).Elem(), "apiVersion", "kind")
	} else {
		f.At().TypeInvalid(d.tree, "must be an object")
	}
	return Problems(f.Errors())
}

// Fill fills the struct that into points to from a part of a document, as Decode does. Problems are
// added to f.
func Fill(f *status.Fields, at status.Field, from, into any) {
	if from != nil {
		decoder{fields: f}.value(at, from, reflect.ValueOf(into).Elem())
	}
}

// decoder fills Go values from a tree and collects what is wrong.
type decoder struct {
	fields *status.Fields
	open   bool // unknown fields are ignored
}

// hidden stands for a secret value in errors.
const hidden = "<secret>"

// option is what the tag config of a field says.
type option struct {
	secret   bool   // the value is kept out of errors
	required bool   // the field must be there
	also     string // another spelling of its name
	rest     bool   // a map of the objects that no other field names
}

func optionOf(field reflect.StructField) (o option) {
	for word := range strings.SplitSeq(field.Tag.Get("config"), ",") {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "secret":
			o.secret = true
		case "required":
			o.required = true
		case "also":
			o.also = value
		case "rest":
			o.rest = true
		}
	}
	return o
}

// object fills a struct, and those embedded in it. The members in also are known beside its fields.
func (c decoder) object(at status.Field, from map[string]any, to reflect.Value, also ...string) {
	known := also
	var rest reflect.Value
	for _, field := range reflect.VisibleFields(to.Type()) {
		o := optionOf(field)
		if o.rest {
			rest = to.FieldByIndex(field.Index)
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		v := from[name]
		known = append(known, name)
		if o.also != "" {
			known = append(known, o.also)
			if other := from[o.also]; v == nil {
				v = other
			} else if other != nil && !reflect.DeepEqual(v, other) {
				at.Child(o.also).Forbidden("says something else than " + name)
			}
		}
		switch {
		case v != nil:
			c.member(at.Child(name), v, to.FieldByIndex(field.Index), o.secret)
		case o.required:
			at.Child(name).Required("")
		}
	}
	c.unknown(at, from, rest, known)
}

// unknown reports members that are not known. Objects among them are kept in rest, if there is one, unless
// their name was probably meant to be another one.
func (c decoder) unknown(at status.Field, from map[string]any, rest reflect.Value, known []string) {
	if c.open {
		return
	}
	kept := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if slices.Contains(known, name) {
			continue
		}
		why, meant := "unknown field", nearly.Name(name, known)
		if _, object := from[name].(map[string]any); object && rest.IsValid() && meant == "" {
			kept[name] = from[name]
			continue
		}
		if meant != "" {
			why += fmt.Sprintf(", did you mean %q?", meant)
		}
		at.Child(name).Forbidden(why)
	}
	if len(kept) > 0 {
		c.fill(kept, rest, at.Child)
	}
}

// member fills a field of a struct.
func (c decoder) member(at status.Field, from any, to reflect.Value, secret bool) {
	if !secret {
		c.value(at, from, to)
		return
	}
	inner := &status.Fields{}
	decoder{inner, c.open}.value(inner.In(at.Path()), from, to)
	for _, e := range inner.Errors() {
		e.Value = hidden
		c.fields.Add(e)
	}
}

func (c decoder) value(at status.Field, from any, to reflect.Value) {
	if c.custom(at, from, to) {
		return
	}
	switch to.Kind() {
	case reflect.Pointer:
		if from != nil {
			to.Set(reflect.New(to.Type().Elem()))
			c.value(at, from, to.Elem())
		}
	case reflect.Interface:
		to.Set(reflect.ValueOf(from))
	case reflect.Struct:
		if object, ok := from.(map[string]any); ok {
			c.object(at, object, to)
		} else {
			at.TypeInvalid(from, "must be an object")
		}
	case reflect.Map:
		c.entries(at, from, to)
	case reflect.Slice:
		c.items(at, from, to)
	default:
		c.scalar(at, from, to)
	}
}

// custom fills a value of a type that reads itself.
func (c decoder) custom(at status.Field, from any, to reflect.Value) bool {
	var err error
	switch custom := to.Addr().Interface().(type) {
	case interface{ UnmarshalJSON([]byte) error }:
		var data []byte
		if data, err = json.AppendTree(nil, from); err == nil {
			err = custom.UnmarshalJSON(data)
		}
	case encoding.TextUnmarshaler:
		s, ok := from.(string)
		if !ok {
			at.TypeInvalid(from, "must be a string")
			return true
		}
		err = custom.UnmarshalText([]byte(s))
	default:
		return false
	}
	if err != nil {
		at.Invalid(from, err.Error())
	}
	return true
}

func (c decoder) entries(at status.Field, from any, to reflect.Value) {
	object, ok := from.(map[string]any)
	if !ok {
		at.TypeInvalid(from, "must be an object")
		return
	}
	c.fill(object, to, at.Key)
}

// fill fills a map. field returns the field of a member.
func (c decoder) fill(object map[string]any, to reflect.Value, field func(name string) status.Field) {
	out := reflect.MakeMapWithSize(to.Type(), len(object))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		v, item := object[name], reflect.New(to.Type().Elem()).Elem()
		c.value(field(name), v, item)
		out.SetMapIndex(reflect.ValueOf(name).Convert(to.Type().Key()), item)
	}
	to.Set(out)
}

func (c decoder) items(at status.Field, from any, to reflect.Value) {
	if to.Type().Elem().Kind() == reflect.Uint8 {
		c.bytes(at, from, to)
		return
	}
	list, ok := from.([]any)
	if !ok {
		at.TypeInvalid(from, "must be a list")
		return
	}
	out := reflect.MakeSlice(to.Type(), len(list), len(list))
	for i, v := range list {
		c.value(at.Index(i), v, out.Index(i))
	}
	to.Set(out)
}

// bytes fills a slice of bytes, which a document has in base64.
func (c decoder) bytes(at status.Field, from any, to reflect.Value) {
	s, ok := from.(string)
	data, err := base64.StdEncoding.DecodeString(s)
	if !ok || err != nil {
		at.TypeInvalid(from, "must be a string in base64")
		return
	}
	to.SetBytes(data)
}

func (c decoder) scalar(at status.Field, from any, to reflect.Value) {
	switch to.Kind() {
	case reflect.String:
		s, ok := from.(string)
		if !ok {
			at.TypeInvalid(from, "must be a string")
		}
		to.SetString(s)
	case reflect.Bool:
		b, ok := from.(bool)
		if !ok {
			at.TypeInvalid(from, "must be true or false")
		}
		to.SetBool(b)
	case reflect.Int, reflect.Int32, reflect.Int64:
		n, ok := from.(int64)
		if !ok || to.OverflowInt(n) {
			at.TypeInvalid(from, "must be a whole number")
			return
		}
		to.SetInt(n)
	case reflect.Float32, reflect.Float64:
		switch n := from.(type) {
		case float64:
			to.SetFloat(n)
		case int64:
			to.SetFloat(float64(n))
		default:
			at.TypeInvalid(from, "must be a number")
			to.SetFloat(math.NaN())
		}
	default:
		panic(fmt.Sprintf("config: a struct for documents has a field of type %s", to.Type()))
	}
}
