package openapi

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// An Option changes what [FromType] makes of a type.
type Option func(*goReader)

// Overlay holds struct tags for fields of types that cannot be edited, by "Type.field" (the Go name of the struct and the
// JSON name of the field) or, where that would be ambiguous, by "import/path.Type.field". They come before the tags in
// the source. A default for a key of a keyed list, for example, is `"ContainerPort.protocol": `+"`default:\"TCP\"`".
type Overlay map[string]reflect.StructTag

// WithOverlay adds tags to fields. Entries that name no field of the type are an error, so that none is lost to a typo.
func WithOverlay(o Overlay) Option { return func(r *goReader) { r.overlay = o } }

// RequiredWhenTagged makes only those fields required whose tag says so. It is for types whose servers never insisted on
// what their Go form suggests, such as those of k8s.io/api.
func RequiredWhenTagged() Option { return func(r *goReader) { r.onlyTagged = true } }

// FromType makes the schema of a Go struct. Fields are those that JSON has, with the meaning of encoding/json. A field is
// required when it is no pointer and has neither omitempty nor omitzero. The struct's metadata field, whatever its type,
// gets [ObjectMeta], and apiVersion and kind are added if missing.
//
// Struct tags, one for each keyword, say the rest; they apply to the field they are on, not to the items of a list:
//
//	doc:"…"               description
//	default:"blue"        for lists and objects, JSON
//	enum:"red,green"
//	minimum:"1" maximum:"9" multipleOf:"2"
//	exclusiveMinimum:"0"  greater than; likewise exclusiveMaximum
//	minLength:"1" maxLength:"9" pattern:"^a" format:"ipv4"
//	minItems:"1" maxItems:"9"
//	minProperties:"1" maxProperties:"9"
//	nullable:""           null is a value; otherwise it means absent
//	preserveUnknown:""    fields that the Go type lacks stay; cuts a type that contains itself
//	embedded:""           a whole object of any kind
//	list:"map,key=name"   or "set" or "atomic"; more keys with more key=
//	map:"atomic"
//	selectable:""         field selectors may name it
//	column:"Size"         or "Size,priority=1"; shown in tables
//	required:"" optional:""
//
// The patchStrategy and patchMergeKey tags and the SwaggerDoc, OpenAPISchemaType, OpenAPISchemaFormat and
// OpenAPIV3OneOfTypes methods of Kubernetes types are understood.
//
// A type that JSON cannot hold, one that contains itself, and a tag that makes no sense or is spelt almost like one of the
// above are problems. The error tells of all of them, each with type, field and tag.
func FromType(t reflect.Type, options ...Option) (*Schema, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("openapi: Go type %s is no struct", t)
	}
	r := goReader{structs: map[reflect.Type]*Schema{}, usedOverlay: map[string]bool{}}
	for _, option := range options {
		option(&r)
	}
	s, err := r.structSchema(t, place{text: t.Name(), root: true})
	if r.report(err); len(r.problems) > 0 {
		return nil, fmt.Errorf("openapi: %s", strings.Join(r.problems, "; "))
	}
	for _, key := range slices.Sorted(maps.Keys(r.overlay)) {
		if !r.usedOverlay[key] {
			r.report(fmt.Errorf("overlay %q names no field of %s", key, t))
		}
	}
	if len(r.problems) > 0 {
		return nil, fmt.Errorf("openapi: %s", strings.Join(r.problems, "; "))
	}
	return s, nil
}

// maxTypeProblems bounds how many problems of one type an error tells of.
const maxTypeProblems = 100

// report notes what is wrong with a type, each problem once: a struct may be read in several places.
func (r *goReader) report(err error) {
	if err == nil {
		return
	}
	for text := range strings.SplitSeq(err.Error(), "\n") {
		if len(r.problems) < maxTypeProblems && !slices.Contains(r.problems, text) {
			r.problems = append(r.problems, text)
		}
	}
}

// goReader reads Go types.
type goReader struct {
	overlay     Overlay
	usedOverlay map[string]bool
	onlyTagged  bool
	structs     map[reflect.Type]*Schema // nil while one is being read
	problems    []string
}

// place is where in the type the reader is, for errors and for tags that make sense in some places only.
type place struct {
	text     string // "Widget.spec.size"
	root     bool
	repeated bool // inside a list or a map
}

func (p place) field(name string) place {
	return place{text: p.text + "." + name, repeated: p.repeated}
}

func (p place) item() place { return place{text: p.text + "[]", repeated: true} }

func (p place) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: "+format, append([]any{p.text}, args...)...)
}

// schema returns the schema of a type. It is ready and shared: who adds tags copies it.
func (r *goReader) schema(t reflect.Type, at place) (*Schema, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s := knownType(t); s != nil {
		return s.mustReady(at)
	}
	if has(t, jsonMarshaler) || has(t, textMarshaler) || has(t, reflect.TypeFor[openAPITyped]()) {
		return describedType(t, at)
	}
	switch t.Kind() {
	case reflect.Struct:
		return r.structSchema(t, at)
	case reflect.Slice, reflect.Array:
		return r.listSchema(t, at)
	case reflect.Map:
		return r.mapSchema(t, at)
	}
	s := scalarType(t)
	if s == nil {
		return nil, at.errorf("Go type %s has no JSON form", t)
	}
	return s.mustReady(at)
}

// mustReady prepares a schema that the code itself wrote.
func (s *Schema) mustReady(at place) (*Schema, error) {
	if s.ready != nil {
		return s, nil
	}
	// Types are written by those who build the server: what each costs is bounded, what they cost together is theirs.
	if problems := s.prepare(&costs{}); len(problems) > 0 {
		return nil, at.errorf("%s: %s", problems[0].keyword, problems[0].detail)
	}
	return s, nil
}

// knownType is about the types that the library itself offers, and those of the standard library.
func knownType(t reflect.Type) *Schema {
	switch t {
	case reflect.TypeFor[meta.Time]():
		return &Schema{Type: String, Format: "date-time", Form: FormTime}
	case reflect.TypeFor[meta.MicroTime]():
		return &Schema{Type: String, Format: "date-time", Form: FormMicroTime}
	case reflect.TypeFor[meta.Duration]():
		return &Schema{Type: String, Form: FormDuration}
	case reflect.TypeFor[meta.RawJSON]():
		return &Schema{PreserveUnknown: true}
	case reflect.TypeFor[time.Time]():
		return &Schema{Type: String, Format: "date-time", codec: &codec{name: "time.Time", goType: t}}
	case reflect.TypeFor[meta.ObjectMeta]():
		return ObjectMeta()
	}
	switch {
	case t.Kind() == reflect.Interface && t.NumMethod() == 0:
		return &Schema{PreserveUnknown: true}
	case t.Name() == "ObjectMeta" && strings.HasSuffix(t.PkgPath(), "/apis/meta/v1"):
		return ObjectMeta()
	case t.Name() == "RawMessage" && strings.HasSuffix(t.PkgPath(), "json"), t.Name() == "Value" && strings.HasSuffix(t.PkgPath(), "jsontext"):
		return &Schema{PreserveUnknown: true}
	}
	return nil
}

// describedType is about types that write their own JSON: by their own description, or as text when they write text.
func describedType(t reflect.Type, at place) (*Schema, error) {
	typed, ok := as[openAPITyped](t)
	if !ok && isRaw(t) {
		return (&Schema{Type: Object, PreserveUnknown: true}).mustReady(at)
	}
	if !ok {
		if has(t, jsonMarshaler) && !writesText(t) {
			return nil, at.errorf("Go type %s writes its own JSON: give it the method OpenAPISchemaType() []string", t)
		}
		return (&Schema{Type: String, codec: newCodec(t)}).mustReady(at)
	}
	types, format := typed.OpenAPISchemaType(), ""
	if f, ok := as[openAPIForm](t); ok {
		format = f.OpenAPISchemaFormat()
	}
	if o, ok := as[openAPIOneOf](t); ok && len(o.OpenAPIV3OneOfTypes()) > 0 {
		types = o.OpenAPIV3OneOfTypes()
	}
	types = slices.Sorted(slices.Values(types))
	s := &Schema{Format: format}
	switch {
	case slices.Equal(types, []string{"integer", "string"}):
		s.IntOrString, s.Format = true, ""
	case slices.Equal(types, []string{"number", "string"}):
		s.Type, s.OrNumber, s.codec = String, true, newCodec(t)
	case len(types) != 1:
		s = &Schema{PreserveUnknown: true}
	case types[0] == string(Object):
		s.Type, s.PreserveUnknown = Object, true
	case types[0] == string(Array):
		s.Type, s.Items = Array, &Schema{PreserveUnknown: true}
		if _, err := s.Items.mustReady(at); err != nil {
			return nil, err
		}
	default:
		s.Type, s.codec = Type(types[0]), newCodec(t)
	}
	return s.mustReady(at)
}

// isRaw recognises structs that hold an object of any kind as it was sent, as RawExtension and FieldsV1 of Kubernetes do:
// they write their own JSON, and their fields have none.
func isRaw(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || !has(t, jsonMarshaler) {
		return false
	}
	raw, ok := t.FieldByName("Raw")
	return ok && raw.Tag.Get("json") == "-" && raw.Type == reflect.TypeFor[[]byte]()
}

// writesText tells of a type with both kinds of methods whether its JSON is text, as that of time.Time is and that of
// big.Int is not.
func writesText(t reflect.Type) bool {
	if !has(t, textMarshaler) {
		return false
	}
	zero, err := json.Marshal(reflect.New(t).Interface())
	return err == nil && len(zero) > 0 && zero[0] == '"'
}

func newCodec(t reflect.Type) *codec { return &codec{name: t.PkgPath() + "." + t.Name(), goType: t} }

// scalarType is about bools, numbers and strings, named or not; nil for anything else.
func scalarType(t reflect.Type) *Schema {
	between := func(format string, low, high int64) *Schema {
		return &Schema{Type: Integer, Format: format, Minimum: low, Maximum: high}
	}
	switch t.Kind() {
	case reflect.Bool:
		return &Schema{Type: Boolean}
	case reflect.String:
		return &Schema{Type: String}
	case reflect.Int, reflect.Int64:
		return &Schema{Type: Integer, Format: "int64"}
	case reflect.Int32:
		return &Schema{Type: Integer, Format: "int32"}
	case reflect.Int16:
		return between("int32", -1<<15, 1<<15-1)
	case reflect.Int8:
		return between("int32", -1<<7, 1<<7-1)
	case reflect.Uint8:
		return between("int32", 0, 1<<8-1)
	case reflect.Uint16:
		return between("int32", 0, 1<<16-1)
	case reflect.Uint32:
		return between("int64", 0, 1<<32-1)
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return &Schema{Type: Integer, Format: "int64", Minimum: int64(0)}
	case reflect.Float32:
		return &Schema{Type: Number, Format: "float"}
	case reflect.Float64:
		return &Schema{Type: Number, Format: "double"}
	}
	return nil
}

func (r *goReader) listSchema(t reflect.Type, at place) (*Schema, error) {
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && !has(t.Elem(), jsonMarshaler) && !has(t.Elem(), textMarshaler) {
		return (&Schema{Type: String, Format: "byte", Form: FormBytes}).mustReady(at)
	}
	items, err := r.schema(t.Elem(), at.item())
	if err != nil {
		return nil, err
	}
	s := &Schema{Type: Array, Items: items}
	if t.Kind() == reflect.Array {
		n := int64(t.Len())
		s.MinItems, s.MaxItems = &n, &n
	}
	return s.mustReady(at)
}

func (r *goReader) mapSchema(t reflect.Type, at place) (*Schema, error) {
	if t.Key().Kind() != reflect.String || has(t.Key(), jsonMarshaler) || has(t.Key(), textMarshaler) {
		return nil, at.errorf("the keys of a map are strings, not %s", t.Key())
	}
	values, err := r.schema(t.Elem(), at.item())
	if err != nil {
		return nil, err
	}
	return (&Schema{Type: Object, AdditionalProperties: values}).mustReady(at)
}

// structSchema reads a struct, once: where it is used again, the schema is shared.
func (r *goReader) structSchema(t reflect.Type, at place) (*Schema, error) {
	if s, seen := r.structs[t]; seen {
		if s == nil {
			return nil, at.errorf("Go type %s %w, which a schema cannot; use meta.RawJSON in its place, or the tag preserveUnknown", t, errContainsItself)
		}
		// Tags that depend on the place are checked again where the struct is used again.
		if !at.repeated || !s.hasPlaced() {
			return s, nil
		}
	}
	r.structs[t] = nil
	s := &Schema{Type: Object}
	if docs, ok := as[swaggerDoc](t); ok {
		s.Description = docs.SwaggerDoc()[""]
	}
	fields, err := structFields(t, at)
	if err != nil {
		delete(r.structs, t)
		return nil, err
	}
	for _, f := range fields {
		property, required, err := r.field(f, at)
		r.report(err) // and go on, to tell of every problem at once
		if property.Schema == nil {
			continue
		}
		s.Properties = append(s.Properties, property)
		if required {
			s.Required = append(s.Required, property.Name)
		}
	}
	if at.root {
		s.makeObject()
	}
	if s, err = s.mustReady(at); err != nil {
		delete(r.structs, t)
		return nil, err
	}
	r.structs[t] = s
	return s, nil
}

var errContainsItself = errors.New("contains itself")

// hasPlaced tells of fields that make sense outside lists and maps only.
func (s *Schema) hasPlaced() (found bool) {
	s.eachField(nil, func(_ []string, field *Schema) { found = found || field.Selectable || field.Column != nil })
	return found
}

// makeObject gives a struct that has metadata the fields that every object has.
func (s *Schema) makeObject() {
	metadata, ok := s.Property("metadata")
	if !ok || metadata.Component != objectMetaComponent {
		return
	}
	own := func(p Property) bool { return p.Name == "apiVersion" || p.Name == "kind" }
	s.Properties = slices.Concat(typeMeta(), slices.DeleteFunc(s.Properties, own))
	s.Required = slices.DeleteFunc(s.Required, func(name string) bool { return name == "apiVersion" || name == "kind" || name == "metadata" })
}
