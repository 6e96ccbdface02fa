package json

import (
	"encoding"
	"reflect"
	"slices"
	"strings"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
)

// A structure converts between trees and values of one Go type without going through text. Where it
// cannot, it reports false, and the text decides what comes out and which error there is.
type structure struct {
	// fill sets a value, which is addressable and zero, from a tree.
	fill func(v reflect.Value, tree any, depth int) bool
	// show returns the tree of a value, which is addressable.
	show func(v reflect.Value, depth int) (any, bool)
}

// maxStructureDepth is how deep values may be in others. A value that holds itself is deeper.
const maxStructureDepth = DefaultMaxDepth

// byText is the structure of a type that only the JSON library knows how to convert.
func byText() structure { return structure{fill: fillByText, show: showByText} }

// structures holds the *structure of each type that was asked for, by its reflect.Type.
var structures sync.Map

// structureOf returns the structure of a type.
func structureOf(t reflect.Type) *structure {
	if s, ok := structures.Load(t); ok {
		return s.(*structure)
	}
	c := compiler{}
	s := c.structure(t)
	for t, s := range c {
		structures.LoadOrStore(t, s)
	}
	return s
}

// A compiler makes structures. It holds those that are complete, and those that refer to
// themselves and are being made.
type compiler map[reflect.Type]*structure

func (c compiler) structure(t reflect.Type) *structure {
	if s, ok := c[t]; ok {
		return s
	}
	if s, ok := structures.Load(t); ok {
		return s.(*structure)
	}
	s := new(structure)
	c[t] = s
	*s = c.compile(t)
	return s
}

func (c compiler) compile(t reflect.Type) structure {
	if t.Kind() == reflect.Pointer && t.Name() == "" { // methods of a pointer are those of what it points to
		elem := c.structure(t.Elem())
		return structure{fillPointer(t, elem), showPointer(elem)}
	}
	if convertsItself(t) || t.PkgPath() == "time" {
		return byMethods(t)
	}
	switch t.Kind() {
	case reflect.Bool:
		return structure{fillBool, showBool}
	case reflect.String:
		return structure{fillString, showString}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return structure{fillInt, showInt}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return structure{fillUint, showUint}
	case reflect.Float64:
		return structure{fillFloat, showByText}
	case reflect.Slice:
		return c.slice(t)
	case reflect.Map:
		return c.mapping(t)
	case reflect.Struct:
		if fields, ok := c.fields(t, nil, nil); ok {
			return structure{fillStruct(fields), showStruct(fields)}
		}
	default: // interfaces, arrays, and what JSON has no form for
	}
	return byText()
}

// byMethods returns the structure of a type that has methods. Those of encoding/json are called as the
// JSON library would.
func byMethods(t reflect.Type) structure {
	s, p := byText(), reflect.PointerTo(t)
	if p.Implements(reflect.TypeFor[jsonv2.Unmarshaler]()) && !p.Implements(reflect.TypeFor[jsonv2.UnmarshalerFrom]()) {
		s.fill = fillByMethod
	}
	if p.Implements(reflect.TypeFor[jsonv2.Marshaler]()) && !p.Implements(reflect.TypeFor[jsonv2.MarshalerTo]()) {
		s.show = showByMethod
	}
	return s
}

func (c compiler) slice(t reflect.Type) structure {
	switch {
	case t == reflect.TypeFor[[]byte]():
		return structure{fillBytes, showBytes}
	case t == reflect.TypeFor[[]string]():
		return structure{fillStrings, showStrings}
	case t.Elem().Kind() == reflect.Uint8:
		return byText()
	}
	elem := c.structure(t.Elem())
	return structure{fillSlice(t, elem), showSlice(elem)}
}

func (c compiler) mapping(t reflect.Type) structure {
	switch key := t.Key(); {
	case t == reflect.TypeFor[map[string]string]():
		return structure{fillTexts, showTexts}
	case key.Kind() != reflect.String, convertsItself(key), needsAddress(t.Elem()):
		return byText()
	}
	elem := c.structure(t.Elem())
	return structure{fillMap(t, elem), showMap(t, elem)}
}

// A field is a member of a struct, or of a struct that is embedded in it.
type field struct {
	name  string
	index []int
	of    *structure
	// omit reports whether a value is left out. Nil means never.
	omit func(v reflect.Value) bool
}

// fields appends the fields of a struct. It reports false for a struct with tags that are not those
// of Kubernetes-style types: the JSON library knows more of them.
func (c compiler) fields(t reflect.Type, at []int, all []field) ([]field, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		if tag == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		index := append(slices.Clone(at), i)
		if f.Anonymous && name == "" {
			if !f.IsExported() || f.Type.Kind() != reflect.Struct || convertsItself(f.Type) || options != "" && options != "inline" {
				return nil, false
			}
			var ok bool
			if all, ok = c.fields(f.Type, index, all); !ok {
				return nil, false
			}
			continue
		}
		omit, ok := omission(f.Type, options)
		if name == "" {
			name = f.Name
		}
		same := func(other field) bool { return other.name == name }
		if !ok || !f.IsExported() || !plainName(name) || slices.ContainsFunc(all, same) {
			return nil, false
		}
		all = append(all, field{name, index, c.structure(f.Type), omit})
	}
	return all, len(all) > 0 || t.NumField() == 0
}

// omission returns what decides whether a member is left out, by the options of its tag.
func omission(t reflect.Type, options string) (omit func(v reflect.Value) bool, ok bool) {
	switch options {
	case "":
		return nil, true
	case "omitempty":
		return isEmpty, true
	case "omitzero":
		omit = isZero(t)
		return omit, omit != nil
	case "omitempty,omitzero", "omitzero,omitempty":
		zero := isZero(t)
		return func(v reflect.Value) bool { return isEmpty(v) || zero(v) }, zero != nil
	default:
		return nil, false
	}
}

// isEmpty is the rule of omitempty in encoding/json.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String, reflect.Map, reflect.Slice, reflect.Array:
		return v.Len() == 0
	case reflect.Struct:
		return false
	default:
		return v.IsZero()
	}
}

type zeroer interface{ IsZero() bool }

// isZero returns the rule of omitzero for a type, or nil if only the JSON library knows it.
func isZero(t reflect.Type) func(v reflect.Value) bool {
	asks := reflect.TypeFor[zeroer]()
	switch {
	case t.Kind() == reflect.Interface || t.Kind() == reflect.Pointer && t.Implements(asks):
		return nil
	case reflect.PointerTo(t).Implements(asks):
		return func(v reflect.Value) bool { return v.Addr().Interface().(zeroer).IsZero() } //nolint:forcetypeassert // the case says so
	default:
		return reflect.Value.IsZero
	}
}

// convertsItself reports whether a type has methods that the JSON library calls.
func convertsItself(t reflect.Type) bool { return converts(t) || converts(reflect.PointerTo(t)) }

func converts(t reflect.Type) bool {
	return slices.ContainsFunc([]reflect.Type{
		reflect.TypeFor[jsonv2.Marshaler](), reflect.TypeFor[jsonv2.MarshalerTo](),
		reflect.TypeFor[jsonv2.Unmarshaler](), reflect.TypeFor[jsonv2.UnmarshalerFrom](),
		reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextAppender](),
		reflect.TypeFor[encoding.TextUnmarshaler](),
	}, t.Implements)
}

// needsAddress reports whether a type, or a field in it, has methods of its pointer alone. The JSON
// library does not call them on the values of a map, which have no address.
func needsAddress(t reflect.Type) bool {
	if convertsItself(t) {
		return !converts(t) || t.Kind() == reflect.Struct && !marshals(t)
	}
	if t.Kind() != reflect.Struct {
		return t.Kind() == reflect.Array
	}
	for i := range t.NumField() {
		if needsAddress(t.Field(i).Type) {
			return true
		}
	}
	return false
}

// marshals reports whether values of a type have a method that writes them.
func marshals(t reflect.Type) bool {
	return slices.ContainsFunc([]reflect.Type{
		reflect.TypeFor[jsonv2.Marshaler](), reflect.TypeFor[jsonv2.MarshalerTo](),
		reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextAppender](),
	}, t.Implements)
}
