package openapi

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// An Option changes what is made of a Go type.
type Option func(*goReader)

// WithOverlay adds to what the tags of a type say.
func WithOverlay(o *Overlay) Option {
	return func(r *goReader) {
		r.overlay, r.onlyTagged, r.told = o, r.onlyTagged || o != nil && o.onlyTagged, o != nil && o.told
	}
}

// RequiredWhenTagged makes only those fields required whose tag says so. It is for types whose servers never insisted on
// what their Go form suggests, such as those of k8s.io/api: see Schema.Expected and Schema.PatchTagged.
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
//	preserveUnknown:""    fields that the Go type lacks stay; on a field that closes a circle, the schema ends there
//	embedded:""           a whole object of any kind
//	list:"map,key=name"   or "set" or "atomic"; more keys with more key=
//	map:"atomic"
//	selectable:""         field selectors may name it
//	column:"Size"         or "Size,priority=1"; shown in tables
//	required:"" optional:""
//	expected:""           see Schema.Expected
//
// The patchStrategy and patchMergeKey tags and the SwaggerDoc, OpenAPIModelName, OpenAPISchemaType, OpenAPISchemaFormat and
// OpenAPIV3OneOfTypes methods of Kubernetes types are understood; what those keep in comments, an [Overlay] says.
//
// A type may contain itself: its schema does, too. Fields below it cannot be selectable or columns, as an object can have many
// of them.
//
// A type that JSON cannot hold, and a tag that makes no sense or is spelt almost like one of the above are problems. The
// error tells of all of them, each with type, field and tag.
func FromType(t reflect.Type, options ...Option) (*Schema, error) {
	var types Types
	s, err := types.Schema(t, options...)
	if err == nil {
		err = types.Unused()
	}
	if err != nil {
		return nil, err
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
