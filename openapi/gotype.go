package openapi

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// An Option changes how the schema of a Go type is made.
type Option func(*goReader)

// WithOverlay adds the tags of an overlay to those of the types.
func WithOverlay(o *Overlay) Option {
	return func(r *goReader) {
		r.overlay, r.onlyTagged, r.advisory = o, r.onlyTagged || o != nil && o.onlyTagged, o != nil && o.advisory
	}
}

// RequiredWhenTagged makes a field required only if a tag says so. It is meant for types whose
// servers never enforced what the Go fields suggest, such as those of k8s.io/api. See
// Schema.Expected and Schema.PatchTagged.
func RequiredWhenTagged() Option { return func(r *goReader) { r.onlyTagged = true } }

// FromType makes the schema of a Go struct. It has the fields that encoding/json writes. A field is
// required unless it is a pointer or has omitempty or omitzero. The struct's metadata field gets
// [ObjectMeta], whatever its Go type is. The fields apiVersion and kind are added if they are
// missing.
//
// Struct tags supply everything else. There is one tag per keyword. It applies to the field itself,
// not to the items of a list:
//
//	doc:"…"               description
//	default:"blue"        JSON for lists and objects
//	enum:"red,green"
//	minimum:"1" maximum:"9" multipleOf:"2"
//	exclusiveMinimum:"0"  greater than; also exclusiveMaximum
//	minLength:"1" maxLength:"9" pattern:"^a" format:"ipv4"
//	minItems:"1" maxItems:"9"
//	minProperties:"1" maxProperties:"9"
//	nullable:""           null is a value; otherwise it means absent
//	preserveUnknown:""    keeps fields that the Go type lacks; ends the schema of a recursive type
//	embedded:""           a complete object of any kind
//	list:"map,key=name"   or "set" or "atomic"; repeat key= for more keys;
//	                      ",repeats" accepts items with equal keys
//	map:"atomic"
//	selectable:""         allows the field in field selectors
//	column:"Size"         or "Size,priority=1"; shown in tables
//	required:"" optional:""
//	expected:""           see Schema.Expected
//	rule:"self > 0" message:"must be positive"
//
// The tag rule is an expression that package cel evaluates on every write. A rule for a struct as a
// whole is the tag of a blank field:
//
//	_ struct{} `rule:"self.min <= self.max"`
//
// FromType also reads the patchStrategy and patchMergeKey tags of Kubernetes types and their
// methods SwaggerDoc, OpenAPIModelName, OpenAPISchemaType, OpenAPISchemaFormat and
// OpenAPIV3OneOfTypes. An [Overlay] supplies what these types only state in comments.
//
// A type may contain itself. Its schema then contains itself, too. Fields below it cannot be
// selectable or columns, because one object could contain many of them.
//
// FromType rejects types without a JSON form, time.Duration (use [meta.Duration]), json.Number,
// unsigned integers of 64 bits, tags that do not fit their field, tags at a field that encoding/json
// leaves out, and tags that look like a misspelt keyword or like rules of another library. A field
// may keep such rules (validate, binding, kubebuilder) if it also has one of the tags above. The error
// reports all problems, each with type, field and tag.
func FromType(t reflect.Type, options ...Option) (*Schema, error) {
	if t == nil {
		return nil, errors.New("openapi: FromType: the type is nil")
	}
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

// maxTypeProblems limits how many problems of one type an error reports.
const maxTypeProblems = 100

// report records the problems of a type. A struct may be read in several places, so duplicates are
// dropped.
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

// place is the reader's position in a type. Error messages name it, and some tags are only allowed
// in certain places.
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

// mustReady prepares a schema that the program itself defines, as opposed to one from a request.
func (s *Schema) mustReady(at place) (*Schema, error) {
	if s.ready != nil {
		return s, nil
	}
	// Each type is limited in cost, but all of them together are not: the developer of the server
	// chooses how many there are.
	if problems := s.prepare(&costs{}); len(problems) > 0 {
		return nil, at.errorf("%s: %s", problems[0].keyword, problems[0].detail)
	}
	return s, nil
}

// knownType returns the schema of a type of this module or of the standard library, or nil.
func knownType(t reflect.Type) *Schema {
	switch t {
	case reflect.TypeFor[meta.Time]():
		return &Schema{Type: String, Format: "date-time", Notation: NotationTime}
	case reflect.TypeFor[meta.MicroTime]():
		return &Schema{Type: String, Format: "date-time", Notation: NotationMicroTime}
	case reflect.TypeFor[meta.Duration]():
		return &Schema{Type: String, Notation: NotationDuration}
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

// describedType handles types with their own JSON methods. It uses the methods that describe the
// JSON type. Without these, the type must be written as text.
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
		s.IntOrString, s.Format, s.int32OrText = true, "", !holds64Bits(t)
	case slices.Equal(types, []string{"number", "string"}):
		s.Type, s.OrNumber, s.codec = String, true, newCodec(t)
		s.codec.amount = true
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

// holds64Bits reports whether a type that is an integer or a string in JSON can hold any integer.
// IntOrString of Kubernetes cannot. The methods do not tell, so it decodes one.
func holds64Bits(t reflect.Type) bool {
	return json.Unmarshal([]byte("9007199254740993"), reflect.New(t).Interface()) == nil
}

// isRaw recognises structs that hold an object of any kind in its encoded form, such as
// RawExtension and FieldsV1 of Kubernetes. They have JSON methods, and their fields are excluded
// from JSON.
func isRaw(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || !has(t, jsonMarshaler) {
		return false
	}
	raw, ok := t.FieldByName("Raw")
	return ok && raw.Tag.Get("json") == "-" && raw.Type == reflect.TypeFor[[]byte]()
}

// writesText reports whether a type with both JSON and text methods is written as a JSON string.
// time.Time is; big.Int is not. The methods do not tell, so it encodes a zero value.
func writesText(t reflect.Type) bool {
	if !has(t, textMarshaler) {
		return false
	}
	zero, err := json.Marshal(reflect.New(t).Interface())
	return err == nil && len(zero) > 0 && zero[0] == '"'
}

func newCodec(t reflect.Type) *codec { return &codec{name: t.PkgPath() + "." + t.Name(), goType: t} }

// wideType rejects types whose values need not fit in the integers of an API, which have 64 bits
// with a sign, and json.Number, which is text to Go and a number in JSON.
func wideType(t reflect.Type, at place) error {
	if t.Name() == "Number" && t.PkgPath() == "encoding/json" {
		return at.errorf("Go type %s may be a number or text: use int64, float64, string or meta.RawJSON", t)
	}
	switch t.Kind() {
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return at.errorf(`Go type %s has values that no API can hold: use uint32, or int64 with the tag minimum:"0"`, t)
	}
	return nil
}

// scalarType returns the schema of a bool, number or string type, or nil for other types. Minimum
// and maximum reflect the range of the Go type, since a value outside it could not be decoded.
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
	case reflect.Float32:
		return &Schema{Type: Number, Format: "float"}
	case reflect.Float64:
		return &Schema{Type: Number, Format: "double"}
	}
	return nil
}
