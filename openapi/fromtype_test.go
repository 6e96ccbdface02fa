package openapi_test

import (
	"fmt"
	"maps"
	"math/big"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

// described resembles types of the Kubernetes libraries, which describe their JSON with methods.
type (
	Quantity    struct{ i int64 }
	Counted     struct{}
	IntOrString struct{ text string }
	LongOrText  struct{ any }
	Extension   struct{ Raw []byte }
	Anything    struct{ Raw []byte }
)

func (Quantity) OpenAPISchemaType() []string       { return []string{"string"} }
func (Quantity) OpenAPISchemaFormat() string       { return "" }
func (Quantity) OpenAPIV3OneOfTypes() []string     { return []string{"string", "number"} }
func (q Quantity) MarshalJSON() ([]byte, error)    { return fmt.Appendf(nil, `"%d"`, q.i), nil }
func (Counted) OpenAPISchemaType() []string        { return []string{"string"} }
func (Counted) OpenAPIV3OneOfTypes() []string      { return []string{"string", "number"} }
func (Counted) MarshalJSON() ([]byte, error)       { return []byte(`"counted"`), nil }
func (*Counted) UnmarshalJSON([]byte) error        { return nil }
func (IntOrString) OpenAPISchemaType() []string    { return []string{"string"} }
func (IntOrString) OpenAPISchemaFormat() string    { return "int-or-string" }
func (IntOrString) OpenAPIV3OneOfTypes() []string  { return []string{"integer", "string"} }
func (i IntOrString) MarshalJSON() ([]byte, error) { return []byte(i.text), nil }
func (LongOrText) OpenAPISchemaType() []string     { return []string{"integer", "string"} }
func (LongOrText) OpenAPISchemaFormat() string     { return "" }
func (l LongOrText) MarshalJSON() ([]byte, error)  { return json.Marshal(l.any) }
func (l *LongOrText) UnmarshalJSON(d []byte) error { return json.Unmarshal(d, &l.any) }
func (Extension) OpenAPISchemaType() []string      { return []string{"object"} }
func (Extension) MarshalJSON() ([]byte, error)     { return []byte("{}"), nil }
func (Anything) OpenAPISchemaType() []string       { return nil }

// UnmarshalJSON parses thousandths such as "1500m", which is all that the tests need of a quantity.
func (q *Quantity) UnmarshalJSON(data []byte) error {
	text := strings.Trim(string(data), `"`)
	n, milli := strings.CutSuffix(text, "m")
	if _, err := fmt.Sscanf(n, "%d", &q.i); err != nil || strings.ContainsAny(n, " .") {
		return fmt.Errorf("quantities must match %s", "[0-9]+m?")
	}
	if milli {
		q.i /= 1000
	}
	return nil
}

type Inner struct {
	A string `json:"a"`
}

type Base struct {
	Shared string `json:"shared,omitempty"`
	Hidden string `json:"name"`
}

func TestFromType_Types(t *testing.T) {
	type Color string
	type All struct {
		Base
		*Inner
		Bool      bool              `json:"bool"`
		Int       int               `json:"int"`
		Int8      int8              `json:"int8"`
		Int16     int16             `json:"int16"`
		Int32     int32             `json:"int32"`
		Int64     int64             `json:"int64"`
		Uint8     uint8             `json:"uint8"`
		Uint16    uint16            `json:"uint16"`
		Uint32    uint32            `json:"uint32"`
		Float32   float32           `json:"float32"`
		Float64   float64           `json:"float64"`
		String    string            `json:"string"`
		Named     Color             `json:"named"`
		Bytes     []byte            `json:"bytes"`
		Pointer   **int32           `json:"pointer"`
		Time      meta.Time         `json:"time"`
		Micro     *meta.MicroTime   `json:"micro"`
		Duration  meta.Duration     `json:"duration"`
		StdTime   time.Time         `json:"stdTime"`
		Addr      netip.Addr        `json:"addr"`
		Raw       meta.RawJSON      `json:"raw"`
		Any       any               `json:"any"`
		Quantity  Quantity          `json:"quantity"`
		IntStr    *IntOrString      `json:"intstr"`
		Extension Extension         `json:"extension"`
		Anything  Anything          `json:"anything"`
		Struct    Inner             `json:"struct"`
		Slice     []Inner           `json:"slice"`
		Array     [2]bool           `json:"array"`
		Map       map[Color][]int64 `json:"map"`
		Free      map[string]any    `json:"free"`
		Meta      meta.ObjectMeta   `json:"template"`
		NoName    string
		Skipped   chan int `json:"-"`
		private   chan int
	}
	_ = All{}.private
	s, err := openapi.FromType(reflect.TypeFor[*All]())
	require.NoError(t, err)
	want := map[string]string{
		"shared": "string", "a": "string", "name": "string",
		"bool": "boolean", "int": "integer int64", "int8": "integer int32 -128..127", "int16": "integer int32 -32768..32767",
		"int32": "integer int32", "int64": "integer int64", "uint8": "integer int32 0..255",
		"uint16": "integer int32 0..65535", "uint32": "integer int64 0..4294967295", "float32": "number float", "float64": "number double",
		"string": "string", "named": "string", "bytes": "string byte bytes", "pointer": "integer int32",
		"time": "string date-time time", "micro": "string date-time microtime", "duration": "string duration",
		"stdTime": "string date-time", "addr": "string", "raw": "any", "any": "any",
		"quantity": "string or number", "intstr": "int or string", "extension": "object any", "anything": "any",
		"struct": "object{a}", "slice": "array of object{a}", "array": "array of boolean", "map": "object of array of integer int64",
		"free": "object of any", "template": "object ObjectMeta", "NoName": "string",
	}
	got := map[string]string{}
	for _, p := range s.Properties {
		got[p.Name] = describe(p.Schema)
	}
	require.Equal(t, want, got)
	require.Equal(t, "shared", s.Properties[0].Name, "fields keep the order of their declaration")
	require.Equal(t, "NoName", s.Properties[len(s.Properties)-1].Name)
}

func describe(s *openapi.Schema) string {
	words := []string{string(s.Type)}
	switch {
	case strings.HasSuffix(s.Component, ".ObjectMeta"):
		return "object ObjectMeta"
	case s.IntOrString:
		return "int or string"
	case s.OrNumber:
		return "string or number"
	case s.Type == "" && s.PreserveUnknown:
		return "any"
	case s.PreserveUnknown:
		words = append(words, "any")
	case s.Items != nil:
		words = append(words, "of", describe(s.Items))
	case s.AdditionalProperties != nil:
		words = append(words, "of", describe(s.AdditionalProperties))
	case s.Type == openapi.Object:
		names := []string{}
		for _, p := range s.Properties {
			names = append(names, p.Name)
		}
		words[0] += "{" + strings.Join(names, ",") + "}"
	}
	if s.Format != "" {
		words = append(words, s.Format)
	}
	if s.Notation != "" {
		words = append(words, string(s.Notation))
	}
	if s.Minimum != nil || s.Maximum != nil {
		words = append(words, fmt.Sprintf("%v..%v", s.Minimum, s.Maximum))
	}
	return strings.Join(words, " ")
}

func TestFromType_Required(t *testing.T) {
	type T struct {
		Plain    string            `json:"plain"`
		Empty    string            `json:"empty,omitempty"`
		Zero     Inner             `json:"zero,omitzero"`
		Pointer  *string           `json:"pointer"`
		List     []string          `json:"list"`
		Map      map[string]string `json:"map"`
		Forced   *string           `json:"forced,omitempty" required:""`
		Excused  string            `json:"excused" optional:""`
		Default  string            `json:"default" default:"x"`
		Any      any               `json:"any"`
		Embedded *Base
	}
	s, err := openapi.FromType(reflect.TypeFor[T]())
	require.NoError(t, err)
	require.Equal(t, []string{"plain", "list", "map", "forced"}, s.Required)
	s, err = openapi.FromType(reflect.TypeFor[T](), openapi.RequiredWhenTagged())
	require.NoError(t, err)
	require.Equal(t, []string{"forced"}, s.Required)
}

// If several fields have the same name, the rules of encoding/json decide.
func TestFromType_EmbeddedFieldsAsJSONHasThem(t *testing.T) {
	type One struct {
		Twice string `json:"twice"`
		Outer int
	}
	type Two struct {
		Twice  string `json:"twice"`
		Tagged string `json:"Tie"`
	}
	type Three struct{ Tie bool }
	embedded := func(t reflect.Type) reflect.StructField {
		return reflect.StructField{Name: t.Name(), Type: t, Anonymous: true}
	}
	typ := reflect.StructOf([]reflect.StructField{
		embedded(reflect.TypeFor[One]()), embedded(reflect.TypeFor[Two]()), embedded(reflect.TypeFor[Three]()),
		{Name: "Outer", Type: reflect.TypeFor[string](), Tag: `json:"Outer"`},
		{Name: "Named", Type: reflect.TypeFor[One](), Tag: `json:"named"`},
	})
	s, err := openapi.FromType(typ)
	require.NoError(t, err)
	names := []string{}
	for _, p := range s.Properties {
		names = append(names, p.Name)
	}
	encoded, err := json.TreeOf(reflect.Zero(typ).Interface())
	require.NoError(t, err)
	require.ElementsMatch(t, slices.Collect(maps.Keys(encoded.(map[string]any))), names)
	require.Equal(t, openapi.String, must(s.Lookup("Outer")).Type)
	require.Equal(t, openapi.String, must(s.Lookup("Tie")).Type)
}

func must(s *openapi.Schema, ok bool) *openapi.Schema {
	if !ok {
		panic("no such field")
	}
	return s
}

func TestFromType_Tags(t *testing.T) {
	type T struct {
		Doc     string         `json:"doc" doc:"What it \"is\"."`
		Text    string         `json:"text" default:"a b" enum:"a b,c,,d" minLength:"1" maxLength:"9" pattern:"^a|c" format:"password"`
		Int     int64          `json:"int" default:"-3" enum:"1,-3" minimum:"-9223372036854775808" maximum:"9223372036854775807"`
		Float   *float64       `json:"float" default:"0.5" minimum:"-1.5" maximum:"2"`
		Bool    bool           `json:"bool" default:"true"`
		Set     []string       `json:"set" list:"set" minItems:"1" maxItems:"3" default:"[\"a\",\"b\"]"`
		Atomic  []Inner        `json:"atomic" list:"atomic"`
		Keyed   []WidgetPart   `json:"keyed" list:"map,key=name,key=count"`
		Map     map[string]int `json:"map" map:"atomic" default:"{\"a\":1.0}"`
		Struct  WidgetLimit    `json:"struct" default:"{}"`
		When    meta.Time      `json:"when" default:"2020-01-01T01:00:00+01:00"`
		IntStr  IntOrString    `json:"intstr" default:"80" enum:"80,http"`
		Amount  Quantity       `json:"amount" default:"5000m"`
		Patched []string       `json:"patched" patchStrategy:"merge" patchMergeKey:"name"`
		Above   float64        `json:"above" exclusiveMinimum:"0" exclusiveMaximum:"1.5" multipleOf:"0.5"`
		Few     map[string]int `json:"few" minProperties:"1" maxProperties:"2"`
		Null    *string        `json:"null" nullable:""`
		Loose   WidgetLimit    `json:"loose" preserveUnknown:""`
		Whole   Extension      `json:"whole" embedded:""`
		Any     meta.RawJSON   `json:"any" embedded:""`
	}
	s, err := openapi.FromType(reflect.TypeFor[T]())
	require.NoError(t, err)
	get := func(name string) *openapi.Schema { return must(s.Property(name)) }
	require.Equal(t, `What it "is".`, get("doc").Description)
	text := get("text")
	require.Equal(t, []any{"a b", "c", "", "d"}, text.Enum)
	require.Equal(t, "a b", text.DefaultValue)
	require.Equal(t, int64(1), *text.MinLength)
	require.Equal(t, int64(9), *text.MaxLength)
	require.Equal(t, "^a|c", text.Pattern)
	require.Equal(t, "password", text.Format)
	require.Equal(t, int64(-9223372036854775808), get("int").Minimum)
	require.Equal(t, int64(9223372036854775807), get("int").Maximum)
	require.Equal(t, []any{int64(1), int64(-3)}, get("int").Enum)
	require.Equal(t, -1.5, get("float").Minimum)
	require.Equal(t, int64(2), get("float").Maximum)
	require.Equal(t, 0.5, get("float").DefaultValue)
	require.Equal(t, true, get("bool").DefaultValue)
	require.Equal(t, openapi.ListSet, get("set").ListType)
	require.Equal(t, []any{"a", "b"}, get("set").DefaultValue)
	require.Equal(t, int64(1), *get("set").MinItems)
	require.Equal(t, int64(3), *get("set").MaxItems)
	require.Equal(t, openapi.ListAtomic, get("atomic").ListType)
	require.Equal(t, openapi.ListMap, get("keyed").ListType)
	require.Equal(t, []string{"name", "count"}, get("keyed").ListMapKeys)
	require.Equal(t, openapi.MapAtomic, get("map").MapType)
	require.Equal(t, map[string]any{"a": int64(1)}, get("map").DefaultValue, "defaults are canonical")
	require.Equal(t, map[string]any{"cpu": "100m"}, get("struct").DefaultValue, "and complete")
	require.Equal(t, "2020-01-01T00:00:00Z", get("when").DefaultValue)
	require.Equal(t, int64(80), get("intstr").DefaultValue)
	require.Equal(t, []any{int64(80), "http"}, get("intstr").Enum)
	require.Equal(t, "5", get("amount").DefaultValue)
	require.Equal(t, "merge", get("patched").PatchStrategy)
	require.Equal(t, "name", get("patched").PatchMergeKey)
	above := get("above")
	require.Equal(t, []any{int64(0), 1.5, true, true, 0.5}, []any{above.Minimum, above.Maximum, above.ExclusiveMinimum, above.ExclusiveMaximum, above.MultipleOf})
	require.Equal(t, []int64{1, 2}, []int64{*get("few").MinProperties, *get("few").MaxProperties})
	require.True(t, get("null").Nullable)
	require.True(t, get("loose").PreserveUnknown)
	require.NotNil(t, must(s.Lookup("loose", "cpu")))
	for _, name := range []string{"whole", "any"} {
		require.True(t, get(name).EmbeddedObject, name)
		require.Equal(t, openapi.Object, get(name).Type)
		require.NotNil(t, must(s.Lookup(name, "metadata", "uid")))
	}
}

// tree contains itself, like JSONSchemaProps of Kubernetes.
type hedge struct {
	Name     string           `json:"name"`
	Branches map[string]hedge `json:"branches,omitempty" preserveUnknown:"" doc:"More of the same."`
	Twigs    []hedge          `json:"twigs,omitempty" preserveUnknown:""`
	Root     *hedge           `json:"root,omitempty" preserveUnknown:""`
}

func TestFromType_PreserveUnknownCutsTypesThatContainThemselves(t *testing.T) {
	s, err := openapi.FromType(reflect.TypeFor[struct {
		H hedge `json:"h"`
	}]())
	require.NoError(t, err)
	require.Equal(t, "More of the same.", must(s.Lookup("h", "branches")).Description)
	in := tree(t, `{"h":{"name":"a","x":1,"branches":{"b":{"name":"b","y":1}},"twigs":[{"z":1}],"root":{"name":"c"}}}`)
	out, unknown := s.Prune(in)
	require.Equal(t, []string{"h.x"}, unknown)
	require.Equal(t, `{"h":{"branches":{"b":{"name":"b","y":1}},"name":"a","root":{"name":"c"},"twigs":[{"z":1}]}}`, encode(t, out))
	require.Equal(t, []string{`h.root: Invalid value: "string": h.root in body must be of type object: "string"`, `h.twigs: Invalid value: "object": h.twigs in body must be of type array: "object"`},
		texts(s.Validate(tree(t, `{"h":{"name":"a","twigs":{},"root":"r"}}`))))
}

// RawExtension has the structure of the Kubernetes type of the same name.
type RawExtension struct {
	Raw    []byte       `json:"-"`
	Object fmt.Stringer `json:"-"`
}

func (RawExtension) MarshalJSON() ([]byte, error) { return []byte("{}"), nil }

func TestFromType_RawObjects(t *testing.T) {
	s, err := openapi.FromType(reflect.TypeFor[struct {
		R *RawExtension `json:"r"`
	}]())
	require.NoError(t, err)
	require.Equal(t, "object any", describe(must(s.Lookup("r"))))
}

// Three invalid tags are reported at once.
func TestFromType_EveryBadTagAtOnce(t *testing.T) {
	type Part struct {
		Name  string `json:"name" minimum:"1" format:"ipv5"`
		Count int    `json:"count" minimun:"1" defalt:"3"`
	}
	type Thing struct {
		Spec struct {
			Parts []Part    `json:"parts" list:"map,key=name"`
			Size  int32     `json:"size" maxmum:"3" default:"0"`
			Wrong chan bool `json:"wrong"`
		} `json:"spec"`
		More []Part `json:"more"`
	}
	_, err := openapi.FromType(reflect.TypeFor[Thing]())
	require.Error(t, err)
	problems := strings.Split(strings.TrimPrefix(err.Error(), "openapi: "), "; ")
	for i, want := range []string{
		`Thing.spec.parts[].name: tag format:"ipv5": the format is not one of bsonobjectid`,
		`Thing.spec.parts[].name: tag minimum:"1": the tag applies to type integer, but the field has type string`,
		`Thing.spec.parts[].count: tag minimun:"1": did you mean minimum?`,
		`Thing.spec.parts[].count: tag defalt:"3": did you mean default?`,
		`Thing.spec.size: tag maxmum:"3": did you mean maximum?`,
		`Thing.spec.wrong: Go type chan bool has no JSON form`,
	} {
		require.True(t, strings.HasPrefix(problems[i], want), "%s\n%s", want, problems[i])
	}
	require.Len(t, problems, 6)
}

func TestFromType_TagsOfOthersAreTheirs(t *testing.T) {
	type T struct {
		A string `json:"a" yaml:"a" validate:"min=1" minLength:"1" form:"a" db:"a" gorm:"column:a" bson:"a" xml:"a" mapstructure:"a" example:"x" enums:"a,b" max:"3" min:"1" title:"A" swaggertype:"string" env:"A" url:"a" toml:"a"`
		B string `json:"b" protobuf:"bytes,1,opt,name=b" description:"b" binding:"required" required:"" query:"b" header:"b" sql:"b" msgpack:"b" long:"b" short:"b" desc:"b" csv:"b" hcl:"b" dynamodbav:"b" graphql:"b" schema:"b" uri:"b" label:"b" usage:"b"`
	}
	_, err := openapi.FromType(reflect.TypeFor[T]())
	require.NoError(t, err)
}

type (
	loopSelf struct{ *loopSelf }
)

// Every error names the Go type, the field and, if it is about a tag, the tag.
func TestFromType_Rules(t *testing.T) {
	type size struct {
		_   struct{} `rule:"self.min <= self.max" message:"min must not be above max"`
		_   struct{} `rule:"self.max < 100"`
		Min int32    `json:"min"`
		Max int32    `json:"max" rule:"self > 0"`
	}
	s, err := openapi.FromType(reflect.TypeFor[struct {
		Size  size   `json:"size" rule:"self == oldSelf" message:"cannot be changed"`
		Plain size   `json:"plain"`
		Name  string `json:"name" rule:"self != 'x'" maxLength:"5"`
	}]())
	require.NoError(t, err)
	own := []openapi.Rule{{Rule: "self.min <= self.max", Message: "min must not be above max"}, {Rule: "self.max < 100"}}
	require.Equal(t, own, must(s.Lookup("plain")).Rules)
	require.Equal(t, append(own, openapi.Rule{Rule: "self == oldSelf", Message: "cannot be changed"}), must(s.Lookup("size")).Rules)
	require.Equal(t, []openapi.Rule{{Rule: "self > 0"}}, must(s.Lookup("size", "max")).Rules)
	require.Equal(t, []openapi.Rule{{Rule: "self != 'x'"}}, must(s.Lookup("name")).Rules)

	_, err = openapi.FromType(reflect.TypeFor[struct {
		_ struct{} `rule:"true" minimum:"1"`
		A string   `json:"a" message:"m"`
	}]())
	require.ErrorContains(t, err, "a blank field can only have the tags rule and message")
	require.ErrorContains(t, err, `tag message:"m": has no effect without the tag rule`)
}

func TestFromType_BadTagsAndTypes(t *testing.T) {
	of := func(t reflect.Type, tag string) reflect.Type {
		return reflect.StructOf([]reflect.StructField{{Name: "F", Type: t, Tag: reflect.StructTag(`json:"f" ` + tag)}})
	}
	text, number, integer, flag := reflect.TypeFor[string](), reflect.TypeFor[float64](), reflect.TypeFor[int32](), reflect.TypeFor[bool]()
	list, structs, object, anything := reflect.TypeFor[[]string](), reflect.TypeFor[[]WidgetPart](), reflect.TypeFor[map[string]string](), reflect.TypeFor[any]()
	for _, c := range []struct {
		typ       reflect.Type
		tag, want string
	}{
		{integer, `minimum:"abc"`, `tag minimum:"abc": "abc" is not a 64-bit integer`},
		{integer, `minimum:"1.5"`, `tag minimum:"1.5": "1.5" is not an integer`},
		{integer, `maximum:"99999999999999999999"`, `not a 64-bit integer`},
		{number, `maximum:"x"`, `tag maximum:"x": "x" is not a number`},
		{text, `minimum:"1"`, `tag minimum:"1": the tag applies to type integer, but the field has type string`},
		{integer, `minimum:"3" maximum:"2"`, `tag minimum:"3": must not be above maximum 2`},
		{list, `minLength:"1"`, `the tag applies to type string, but the field has type array`},
		{text, `maxLength:"-1"`, `tag maxLength:"-1": "-1" is not a non-negative integer`},
		{text, `minLength:"3" maxLength:"2"`, `tag minLength:"3": must not be above maxLength 2`},
		{text, `maxItems:"1"`, `the tag applies to type array, but the field has type string`},
		{list, `minItems:"two"`, `tag minItems:"two"`},
		{text, `pattern:"("`, `tag pattern:"(": missing closing )`},
		{text, `pattern:"(a{1000}){1000}"`, `tag pattern:"(a{1000}){1000}": invalid repeat count`},
		{text, `pattern:"(abcdefghijklmn){999}"`, `too many repetitions`},
		{integer, `pattern:"a"`, `the tag applies to type string, but the field has type integer`},
		{text, `format:"ipv5"`, `tag format:"ipv5": the format is not one of bsonobjectid, byte`},
		{text, `format:"int32"`, `the format does not apply to type string`},
		{flag, `format:"date"`, `the tag applies to type string`},
		{text, `enum:"a,b,a"`, `tag enum:"a,b,a": "a" occurs twice`},
		{integer, `enum:"1,x"`, `tag enum:"1,x": "x" is not a 64-bit integer`},
		{list, `enum:"a"`, `the tag applies to type string, but the field has type array`},
		{text, `default:"x" enum:"a,b"`, `tag default:"x": Unsupported value: "x": supported values: "a", "b"`},
		{integer, `default:"0" minimum:"1"`, `tag default:"0": Invalid value: 0`},
		{integer, `default:"x"`, `tag default:"x"`},
		{integer, `default:"3000000000"`, `tag default:"3000000000": Invalid value: 3000000000: does not fit in 32 bits`},
		{flag, `default:"yes"`, `tag default:"yes": "yes" is neither true nor false`},
		{list, `default:"a"`, `tag default:"a": invalid JSON`},
		{list, `default:"[1]"`, `tag default:"[1]": [0]: Invalid value: "integer": [0] in body must be of type string`},
		{object, `default:"null"`, `null cannot be a default`},
		{structs, `default:"[{}]"`, `[0].name: Required value`},
		{structs, `default:"[{\"name\":\"a\",\"x\":1}]"`, `fields that are not in the schema`},
		{reflect.TypeFor[meta.Time](), `default:"now"`, `tag default:"now": Invalid value: "now": "now" is not an RFC 3339 time`},
		{reflect.TypeFor[Quantity](), `default:"many"`, `is not a valid Quantity`},
		{text, `list:"set"`, `the tag applies to type array`},
		{list, `list:"bag"`, `tag list:"bag": must be "atomic", "set" or "map"`},
		{list, `list:""`, `tag list:""`},
		{list, `list:"map"`, `tag list:"map": items of a keyed list must be objects`},
		{structs, `list:"map"`, `a keyed list needs at least one key`},
		{structs, `list:"map,name"`, `"name" is not in the form key=name`},
		{structs, `list:"map,key=id"`, `items do not have this field`},
		{structs, `list:"map,key=tags"`, `a key must be a scalar`},
		{reflect.TypeFor[[]WidgetLimit](), `list:"map,key=memory"`, `a key must be required or have a default`},
		{structs, `list:"set"`, `items of a set must be scalars or atomic`},
		{list, `list:"set,key=a"`, `must be "map" if keys are given`},
		{object, `map:"set"`, `tag map:"set": must be "granular" or "atomic"`},
		{list, `map:"atomic"`, `the tag applies to type object`},
		{list, `selectable:""`, `tag selectable:"": the field is not a scalar`},
		{text, `selectable:"no"`, `the tag does not take a value`},
		{anything, `selectable:""`, `not a scalar`},
		{text, `column:""`, `tag column:"": a column needs a name`},
		{text, `column:"A,prio=1"`, `"prio=1" is not in the form priority=1`},
		{text, `column:"A,priority=-1"`, `"priority=-1" is not in the form`},
		{object, `column:"A"`, `not a scalar`},
		{text, `required:"" optional:""`, `tags required, optional and expected contradict each other`},
		{text, `required:"no"`, `tag required:"no": the tag does not take a value`},
		{text, `minlength:"1"`, `tag minlength:"1": did you mean minLength?`},
		{text, `Doc:"x"`, `did you mean doc?`},
		{integer, `minimum:"1" exclusiveMinimum:"0"`, `tag exclusiveMinimum:"0": cannot be combined with the tag minimum`},
		{integer, `exclusiveMaximum:"x"`, `tag exclusiveMaximum:"x": "x" is not a 64-bit integer`},
		{text, `multipleOf:"2"`, `tag multipleOf:"2": the tag applies to type integer, but the field has type string`},
		{integer, `multipleOf:"0"`, `tag multipleOf:"0": must be greater than 0`},
		{list, `maxProperties:"2"`, `the tag applies to type object, but the field has type array`},
		{text, `nullable:"no"`, `tag nullable:"no": the tag does not take a value`},
		{list, `preserveUnknown:""`, `the tag applies to type object, but the field has type array`},
		{text, `embedded:""`, `the tag applies to type object, but the field has type string`},
		{structs, `list:"map,key=name,key=name"`, `duplicate key`},
		{integer, `minimun:"1"`, `tag minimun:"1": did you mean minimum?`},
		{text, `Lsit:"set"`, `did you mean list?`},
		{text, `maxlenght:"3"`, `did you mean maxLength?`},
		{text, `requird:""`, `did you mean required?`},
		{text, `doc:x`, `the value of doc is not in quotes`},
		{text, `doc`, `not in the form key:"value"`},
		{reflect.TypeFor[[]struct {
			A string `json:"a" selectable:""`
		}](), ``, `.f[].a: tag selectable:"": one object can contain this field several times`},
		{reflect.TypeFor[map[string]struct {
			A string `json:"a" column:"A"`
		}](), ``, `.f[].a: tag column:"A": one object can contain this field several times`},
		{reflect.TypeFor[chan int](), ``, `.f: Go type chan int has no JSON form`},
		{reflect.TypeFor[func()](), ``, `.f: Go type func() has no JSON form`},
		{reflect.TypeFor[complex128](), ``, `.f: Go type complex128 has no JSON form`},
		{reflect.TypeFor[fmt.Stringer](), ``, `.f: Go type fmt.Stringer has no JSON form`},
		{reflect.TypeFor[map[int]string](), ``, `.f: map keys must be strings, not int`},
		{reflect.TypeFor[map[netip.Addr]string](), ``, `.f: map keys must be strings`},
		{reflect.TypeFor[json.TypeError](), ``, `.f.Err: Go type error has no JSON form`},
		{reflect.TypeFor[loopSelf](), ``, `embeds itself`},
		{reflect.TypeFor[big.Int](), ``, `.f: Go type big.Int writes its own JSON: give it the method OpenAPISchemaType() []string`},
		{reflect.TypeFor[struct {
			meta.Time
			meta.MicroTime
		}](), ``, `embedded Go type meta.Time writes its own JSON: give the field a name`},
		{reflect.TypeFor[struct{ meta.UID }](), ``, `embedded Go type meta.UID is not a struct`},
		{reflect.TypeFor[struct {
			N int `json:"n,string"`
		}](), ``, `.f.n: tag json:"n,string": numbers in strings are not supported`},
		{reflect.StructOf([]reflect.StructField{
			{Name: "A", Type: text, Tag: `json:"x"`}, {Name: "B", Type: text, Tag: `json:"x"`},
		}), ``, `.f.x: two fields have this name`},
	} {
		_, err := openapi.FromType(of(c.typ, c.tag))
		require.ErrorContains(t, err, c.want, "%s %s", c.typ, c.tag)
		require.ErrorContains(t, err, ".f", "%s %s", c.typ, c.tag)
	}
	type Gadget struct {
		Spec struct {
			Parts []struct {
				Size int `json:"size" minimum:"abc"`
			} `json:"parts"`
		} `json:"spec"`
	}
	_, err := openapi.FromType(reflect.TypeFor[Gadget]())
	require.EqualError(t, err, `openapi: Gadget.spec.parts[].size: tag minimum:"abc": "abc" is not a 64-bit integer`)
	_, err = openapi.FromType(reflect.TypeFor[string]())
	require.EqualError(t, err, "openapi: Go type string is not a struct")
}

// A struct that is valid in one place must not be reused in a list if it has tags that are not
// allowed there.
func TestFromType_SharedStructKeepsPlaceRules(t *testing.T) {
	type Owner struct {
		Name string `json:"name" selectable:""`
	}
	type T struct {
		One  Owner   `json:"one"`
		Many []Owner `json:"many"`
	}
	_, err := openapi.FromType(reflect.TypeFor[T]())
	require.ErrorContains(t, err, `T.many[].name: tag selectable:"": one object can contain this field several times`)
}

type swaggeredMeta struct {
	Kind       string `json:"kind,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
}

func (swaggeredMeta) SwaggerDoc() map[string]string {
	return map[string]string{"kind": "Which kind it is."}
}

type Swaggered struct {
	swaggeredMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Field           string `json:"field"`
	Own             string `json:"own" doc:"from the tag"`
}

func (Swaggered) SwaggerDoc() map[string]string {
	return map[string]string{"": "the whole", "field": "from the method", "own": "not this"}
}

func TestFromType_SwaggerDoc(t *testing.T) {
	s, err := openapi.FromType(reflect.TypeFor[Swaggered]())
	require.NoError(t, err)
	require.Equal(t, "the whole", s.Description)
	require.Equal(t, "from the method", must(s.Lookup("field")).Description)
	require.Equal(t, "from the tag", must(s.Lookup("own")).Description)
	require.Equal(t, "Which kind it is.", must(s.Lookup("kind")).Description)
	require.NotEmpty(t, must(s.Lookup("apiVersion")).Description, "the library's, where the type has none")
}

func TestFromType_ObjectFields(t *testing.T) {
	s := widget(t)
	names := []string{}
	for _, p := range s.Properties {
		names = append(names, p.Name)
	}
	require.Equal(t, []string{"apiVersion", "kind", "metadata", "spec", "status"}, names)
	require.Equal(t, []string{"spec"}, s.Required)
	require.Equal(t, openapi.ObjectMeta().Component, must(s.Lookup("metadata")).Component)

	type ForeignMeta struct {
		Name string `json:"name"`
	}
	type Foreign struct {
		Metadata ForeignMeta `json:"metadata" doc:"mine"`
	}
	s, err := openapi.FromType(reflect.TypeFor[Foreign]())
	require.NoError(t, err)
	require.Len(t, s.Properties, 3)
	require.Empty(t, s.Required)
	require.Equal(t, "mine", must(s.Lookup("metadata")).Description)
	_, known := s.Lookup("metadata", "resourceVersion")
	require.True(t, known)

	s, err = openapi.FromType(reflect.TypeFor[meta.Status]())
	require.NoError(t, err)
	_, known = s.Lookup("metadata", "uid")
	require.False(t, known, "Status has metadata of lists")
}

func TestLookup(t *testing.T) {
	s := widget(t)
	require.Same(t, s, must(s.Lookup()))
	require.Equal(t, openapi.Integer, must(s.Lookup("spec", "parts", "[]", "count")).Type)
	require.Equal(t, openapi.String, must(s.Lookup("spec", "notes", "whatever")).Type)
	for _, path := range [][]string{{"spek"}, {"spec", "size", "x"}, {"spec", "parts", "count"}, {"spec", "parts", "0"}} {
		_, ok := s.Lookup(path...)
		require.False(t, ok, path)
	}
}

func TestColumnsAndSelectableFields(t *testing.T) {
	type T struct {
		meta.ObjectMeta `json:"metadata"`
		Z               int32     `json:"z" column:"Z" selectable:""`
		When            meta.Time `json:"when" column:"When"`
		Ok              bool      `json:"ok" column:"OK,priority=2" doc:"Whether."`
		A               struct {
			B IntOrString `column:"B" selectable:""`
		} `json:"a"`
		F float32 `json:"f" column:"F"`
	}
	s, err := openapi.FromType(reflect.TypeFor[T]())
	require.NoError(t, err)
	require.Equal(t, []openapi.Column{
		{Name: "Z", Type: "integer", Format: "int32", Path: []string{"z"}},
		{Name: "When", Type: "date", Path: []string{"when"}},
		{Name: "OK", Type: "boolean", Priority: 2, Description: "Whether.", Path: []string{"ok"}},
		{Name: "B", Type: "string", Path: []string{"a", "B"}},
		{Name: "F", Type: "number", Format: "float", Path: []string{"f"}},
	}, s.Columns())
	require.Equal(t, []string{"a.B", "z"}, s.SelectableFields())
}

type (
	twice[T any]   struct{ A, B T }
	doubled[T any] struct{ A, B twice[twice[twice[T]]] }
	nested[T any]  struct {
		A struct {
			A struct {
				A struct{ A struct{ A struct{ A T } } }
			}
		}
	}
	deep[T any] struct{ A nested[nested[nested[T]]] }
)

// Types that use each other twice per level would be huge if they were expanded.
func TestFromType_BoundedSize(t *testing.T) {
	_, err := openapi.FromType(reflect.TypeFor[doubled[doubled[doubled[doubled[doubled[string]]]]]]())
	require.ErrorContains(t, err, "more than 100000 nodes")
	_, err = openapi.FromType(reflect.TypeFor[deep[deep[deep[deep[deep[deep[string]]]]]]]())
	require.ErrorContains(t, err, "more than 100 levels deep")
	_, err = openapi.FromType(reflect.TypeFor[doubled[doubled[deep[deep[deep[string]]]]]]())
	require.NoError(t, err)
}

// A rule counts wherever its field is, also if it is the only one of the kind.
func TestCEL_01_ARuleOfOneField(t *testing.T) {
	type spec struct {
		Size int32 `json:"size" rule:"self > 5"`
	}
	for name, of := range map[string]reflect.Type{
		"a field": reflect.TypeFor[spec](),
		"a field of a field": reflect.TypeFor[struct {
			Spec spec `json:"spec"`
		}](),
		"a field of an item": reflect.TypeFor[struct {
			Specs []spec `json:"specs"`
		}](),
		"a field of a value": reflect.TypeFor[struct {
			Specs map[string]*spec `json:"specs"`
		}](),
	} {
		s, err := openapi.FromType(of)
		require.NoError(t, err, name)
		require.True(t, s.HasRules(), name)
	}
}
