package openapi_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/random"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/status"
)

func build(t require.TestingT, s openapi.Schema) *openapi.Schema {
	out, err := openapi.New(&s)
	require.NoError(t, err)
	return out
}

// field returns the schema of an object with one field v.
func field(t require.TestingT, s openapi.Schema) *openapi.Schema {
	return build(t, openapi.Schema{Type: openapi.Object, Properties: []openapi.Property{{Name: "v", Schema: &s}}})
}

func number(n int64) *int64 { return &n }

func TestCanonical_Rule8(t *testing.T) {
	integer := openapi.Schema{Type: openapi.Integer}
	for _, c := range []struct {
		schema   openapi.Schema
		in, want string
	}{
		{integer, `{"v":1.0}`, `{"v":1}`},
		{integer, `{"v":1E2}`, `{"v":100}`},
		{integer, `{"v":-0.0}`, `{"v":0}`},
		{integer, `{"v":9223372036854775807}`, `{"v":9223372036854775807}`},
		{integer, `{"v":null,"w":null}`, `{"w":null}`},
		{openapi.Schema{Type: openapi.Integer, Nullable: true}, `{"v":null}`, `{"v":null}`},
		{openapi.Schema{Type: openapi.Number}, `{"v":1.50}`, `{"v":1.5}`},
		{openapi.Schema{Type: openapi.Number}, `{"v":2.0}`, `{"v":2}`},
		{openapi.Schema{Type: openapi.Number}, `{"v":9007199254740993}`, `{"v":9007199254740992}`},
		{openapi.Schema{Type: openapi.Number, Format: "float"}, `{"v":0.123456789}`, `{"v":0.12345679}`},
		{openapi.Schema{Type: openapi.Number, Format: "float"}, `{"v":16777217}`, `{"v":16777216}`},
		{openapi.Schema{Type: openapi.Number, Format: "double"}, `{"v":0.123456789}`, `{"v":0.123456789}`},
		{openapi.Schema{IntOrString: true}, `{"v":8.0e1}`, `{"v":80}`},
		{openapi.Schema{IntOrString: true}, `{"v":"80"}`, `{"v":"80"}`},
		{openapi.Schema{Type: openapi.String, Notation: openapi.NotationTime}, `{"v":"2020-01-01T01:02:03.9+01:00"}`, `{"v":"2020-01-01T00:02:03Z"}`},
		{openapi.Schema{Type: openapi.String, Notation: openapi.NotationMicroTime}, `{"v":"2020-01-01T00:00:00Z"}`, `{"v":"2020-01-01T00:00:00.000000Z"}`},
		{openapi.Schema{Type: openapi.String, Notation: openapi.NotationDuration}, `{"v":"90m"}`, `{"v":"1h30m0s"}`},
		{openapi.Schema{Type: openapi.String, Notation: openapi.NotationBytes}, `{"v":"YW\r\nI="}`, `{"v":"YWI="}`},
		{openapi.Schema{Type: openapi.String, Format: "date-time"}, `{"v":"2020-01-01T01:00:00+01:00"}`, `{"v":"2020-01-01T01:00:00+01:00"}`},
		{openapi.Schema{Type: openapi.Array, Items: &integer}, `{"v":[]}`, `{"v":[]}`},
		{openapi.Schema{Type: openapi.Array, Items: &integer}, `{"v":[1.0,2]}`, `{"v":[1,2]}`},
		{openapi.Schema{Type: openapi.Object, AdditionalProperties: &integer}, `{"v":{}}`, `{"v":{}}`},
		{openapi.Schema{Type: openapi.Object, AdditionalProperties: &integer}, `{"v":{"a":null,"b":3.0}}`, `{"v":{"b":3}}`},
		{openapi.Schema{Type: openapi.Object, AdditionalProperties: &openapi.Schema{Type: openapi.String}}, `{"v":{"a":null,"b":"c"}}`, `{"v":{"a":"","b":"c"}}`},
		{openapi.Schema{Type: openapi.Object, AdditionalProperties: &openapi.Schema{Type: openapi.String, Notation: openapi.NotationBytes}}, `{"v":{"a":null}}`, `{"v":{"a":""}}`},
		{openapi.Schema{PreserveUnknown: true}, `{"v":{"a":null,"b":[null,3.5]}}`, `{"v":{"a":null,"b":[null,3.5]}}`},
		{openapi.Schema{PreserveUnknown: true}, `{"v":null}`, `{"v":null}`},
		{integer, `{"unknown":{"a":1.5,"b":null}}`, `{"unknown":{"a":1.5,"b":null}}`},
	} {
		got, errs := field(t, c.schema).Canonical(tree(t, c.in))
		require.Empty(t, errs, c.in)
		require.Equal(t, c.want, encode(t, got))
	}
}

func TestCanonical_GoTypesWriteThemselves(t *testing.T) {
	type T struct {
		Amount Quantity    `json:"amount"`
		Ptr    *Quantity   `json:"ptr,omitempty"`
		Port   IntOrString `json:"port"`
		Long   LongOrText  `json:"long,omitzero"`
	}
	s, err := openapi.FromType(reflect.TypeFor[T]())
	require.NoError(t, err)
	got, errs := s.Canonical(tree(t, `{"amount":"5000m","ptr":7,"port":80.0}`))
	require.Empty(t, errs)
	require.Equal(t, `{"amount":"5","port":80,"ptr":"7"}`, encode(t, got))

	got, errs = s.Canonical(tree(t, `{"amount":"5","port":"80","long":2147483648}`))
	require.Empty(t, errs)
	require.Equal(t, `{"amount":"5","long":2147483648,"port":"80"}`, encode(t, got))
	for _, port := range []string{"2147483648", "-2147483649", "3e9"} {
		_, errs = s.Canonical(tree(t, `{"amount":"5","port":`+port+`}`))
		require.Len(t, errs, 1, port)
		require.Contains(t, errs[0].String(), "does not fit in 32 bits", port)
	}

	_, errs = s.Canonical(tree(t, `{"amount":"x","ptr":true,"port":[]}`))
	require.Equal(t, []string{
		`amount: Invalid value: "x": is not a valid Quantity: quantities must match [0-9]+m?`,
		`port: Invalid value: "array": port in body must be of type integer or string: "array"`,
		`ptr: Invalid value: "boolean": ptr in body must be of type string or number: "boolean"`,
	}, texts(errs))
}

// S22: a few bytes that stand for a number of millions of digits never reach the Go type.
func TestS22_AmountsOfManyDigits(t *testing.T) {
	type T struct {
		Amount Counted `json:"amount"`
	}
	s, err := openapi.FromType(reflect.TypeFor[T]())
	require.NoError(t, err)
	digits := strings.Repeat("9", 1000)
	for text, problem := range map[string]string{
		"1e1001": "an exponent", "1E-1001": "an exponent", " -1e10000000": "an exponent", "1.5e99999999999999999999": "an exponent",
		digits + "9": "more than 1000 digits", "0." + digits: "more than 1000 digits", "+" + digits + "1Mi": "more than 1000 digits",
	} {
		_, errs := s.Canonical(map[string]any{"amount": text})
		require.Len(t, errs, 1, "%.20s", text)
		require.Contains(t, errs[0].String(), problem, "%.20s", text)
	}
	for _, text := range []string{"1e1000", "-1E-1000", "1e+3", "1E", "1Ei", digits, "1eE5", "", "x", "1e1_0"} {
		got, errs := s.Canonical(map[string]any{"amount": text})
		require.Empty(t, errs, "%.20s", text)
		require.Equal(t, map[string]any{"amount": "counted"}, got, "what is short is the type's to judge: %.20s", text)
	}
}

func texts(errs []status.FieldError) []string {
	out := []string{}
	for _, e := range errs {
		out = append(out, e.String())
	}
	return out
}

func TestCanonical_ReportsEveryWrongType(t *testing.T) {
	in := tree(t, `{"metadata":{"labels":{"a":1},"creationTimestamp":"x"},"spec":{"size":"1","color":3,"parts":[{"name":1},null,"p"],"notes":[],"limit":null}}`)
	out, errs := widget(t).Canonical(in)
	require.Equal(t, []string{
		"metadata.creationTimestamp", "metadata.labels.a", "spec.color", "spec.notes", "spec.parts[0].name", "spec.parts[1]",
		"spec.parts[2]", "spec.size",
	}, fields(errs))
	require.Equal(t, meta.CauseFieldValueTypeInvalid, errs[1].Type)
	require.NotContains(t, encode(t, out), "limit", "the rest is canonical all the same")

	all := widget(t).Validate(out)
	for _, e := range errs {
		require.Contains(t, all, e, "what Canonical reports, Validate reports")
	}
}

func fields(errs []status.FieldError) []string {
	out := []string{}
	for _, e := range errs {
		out = append(out, e.Field)
	}
	return out
}

func TestPrune_NamesUnknownFields(t *testing.T) {
	in := tree(t, `{"apiVersion":"v1","extra":1,"metadata":{"name":"a","nam":"b","ownerReferences":[{"uid":"u","x":1}],"managedFields":[{"fieldsV1":{"f:a":{}}}]},
		"spec":{"size":1,"sise":2,"parts":[{"name":"a"},{"name":"b","label[x]":1}],"notes":{"any":"thing"},"rest":{"what":{"ever":1}},"limit":"wrong type"}}`)
	before := encode(t, in)
	out, unknown := widget(t).Prune(in)
	require.Equal(t, []string{"extra", "metadata.nam", "metadata.ownerReferences[0].x", "spec.parts[1][label[x]]", "spec.sise"}, unknown)
	require.Equal(t, `{"apiVersion":"v1","metadata":{"managedFields":[{"fieldsV1":{"f:a":{}}}],"name":"a","ownerReferences":[{"uid":"u"}]},`+
		`"spec":{"limit":"wrong type","notes":{"any":"thing"},"parts":[{"name":"a"},{"name":"b"}],"rest":{"what":{"ever":1}},"size":1}}`, encode(t, out))
	require.Equal(t, before, encode(t, in))

	again, unknown := widget(t).Prune(out)
	require.Empty(t, unknown)
	require.True(t, sameMap(out, again), "nothing to do, nothing copied")
}

func sameMap(a, b map[string]any) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

func TestPrune_KindsOfObjects(t *testing.T) {
	known := []openapi.Property{{Name: "known", Schema: &openapi.Schema{Type: openapi.Object, Properties: []openapi.Property{{Name: "a", Schema: &openapi.Schema{Type: openapi.String}}}}}}
	for _, c := range []struct {
		schema   openapi.Schema
		in, want string
	}{
		{openapi.Schema{Type: openapi.Object}, `{"v":{"x":1}}`, `{"v":{}}`},
		{openapi.Schema{Type: openapi.Object, PreserveUnknown: true, Properties: known}, `{"v":{"x":{"y":1},"known":{"a":"1","b":2}}}`, `{"v":{"known":{"a":"1"},"x":{"y":1}}}`},
		{openapi.Schema{Type: openapi.Object, EmbeddedObject: true, Properties: known}, `{"v":{"x":1,"kind":"K","apiVersion":"v1","metadata":{"z":1}}}`, `{"v":{"apiVersion":"v1","kind":"K","metadata":{"z":1}}}`},
		{openapi.Schema{Type: openapi.Object, AdditionalProperties: known[0].Schema}, `{"v":{"x":{"a":"1","b":2}}}`, `{"v":{"x":{"a":"1"}}}`},
		{openapi.Schema{Type: openapi.String}, `{"v":{"x":1}}`, `{"v":{"x":1}}`},
		{openapi.Schema{IntOrString: true}, `{"v":{"x":1}}`, `{"v":{"x":1}}`},
	} {
		got, _ := field(t, c.schema).Prune(tree(t, c.in))
		require.Equal(t, c.want, encode(t, got))
	}
}

func TestPrune_ReportIsBounded(t *testing.T) {
	in := map[string]any{}
	for i := range 5000 {
		in[fmt.Sprintf("%04d%s", i, strings.Repeat("x", 500))] = int64(i)
	}
	out, unknown := widget(t).Prune(in)
	require.Empty(t, out)
	require.Len(t, unknown, 100)
	require.True(t, slices.IsSorted(unknown))
	require.Less(t, len(unknown[0]), 100)
}

func TestDefault(t *testing.T) {
	for in, want := range map[string]string{
		`{}`:                                 `{}`,
		`{"spec":{}}`:                        `{"spec":{"color":"blue","replicas":1}}`,
		`{"spec":{"color":null}}`:            `{"spec":{"color":"blue","replicas":1}}`,
		`{"spec":{"color":"","replicas":0}}`: `{"spec":{"color":"","replicas":0}}`,
		`{"spec":{"color":"red","replicas":2,"limit":{}}}`:                                `{"spec":{"color":"red","limit":{"cpu":"100m"},"replicas":2}}`,
		`{"spec":{"color":"red","replicas":2,"parts":[{"name":"a"},{"count":0},null,3]}}`: `{"spec":{"color":"red","parts":[{"count":1,"name":"a"},{"count":0},null,3],"replicas":2}}`,
		`{"spec":"wrong type"}`: `{"spec":"wrong type"}`,
	} {
		object := tree(t, in)
		before := encode(t, object)
		got := widget(t).Default(object)
		require.Equal(t, want, encode(t, got))
		require.Equal(t, before, encode(t, object))
		again := widget(t).Default(got)
		require.True(t, sameMap(got, again), "defaulting twice does nothing")
	}
}

func TestDefault_OfObjectsAndMaps(t *testing.T) {
	inner := openapi.Schema{Type: openapi.Object, Properties: []openapi.Property{
		{Name: "a", Schema: &openapi.Schema{Type: openapi.String, DefaultValue: "x"}},
		{Name: "n", Schema: &openapi.Schema{Type: openapi.String, DefaultValue: "y", Nullable: true}},
	}}
	own := inner
	own.DefaultValue = map[string]any{"n": nil}
	s := build(t, openapi.Schema{Type: openapi.Object, Properties: []openapi.Property{
		{Name: "plain", Schema: &inner},
		{Name: "own", Schema: &own},
		{Name: "map", Schema: &openapi.Schema{Type: openapi.Object, AdditionalProperties: &inner}},
	}})
	require.Equal(t, `{"own":{"a":"x","n":null}}`, encode(t, s.Default(tree(t, `{}`))))
	require.Equal(t, `{"map":{"k":{"a":"x","n":null},"l":1},"own":{"a":"x","n":"y"},"plain":{"a":"x","n":"y"}}`,
		encode(t, s.Default(tree(t, `{"map":{"k":{"n":null},"l":1},"own":{},"plain":{}}`))))

	// Defaults are copied: changing the object must not change the schema.
	first := s.Default(tree(t, `{}`))
	first["own"].(map[string]any)["a"] = "changed"
	require.Equal(t, `{"own":{"a":"x","n":null}}`, encode(t, s.Default(tree(t, `{}`))))
}

// Defaults must not turn a small request into an object of gigabytes.
func TestDefault_AmplificationIsBounded(t *testing.T) {
	s := field(t, openapi.Schema{Type: openapi.Array, Items: &openapi.Schema{Type: openapi.Object, Properties: []openapi.Property{
		{Name: "big", Schema: &openapi.Schema{Type: openapi.String, DefaultValue: strings.Repeat("x", 4096)}},
	}}})
	items := make([]any, 100_000)
	for i := range items {
		items[i] = map[string]any{}
	}
	out := s.Default(map[string]any{"v": items})
	require.Less(t, len(encode(t, out)), 18<<20)
	require.Greater(t, len(encode(t, out)), 15<<20)
}

func TestValidate_EveryProblemAtOnce(t *testing.T) {
	s := widget(t)
	require.Empty(t, s.Validate(tree(t, `{"metadata":{"name":"a"},"spec":{"size":1}}`)))
	errs := s.Validate(tree(t, `{"metadata":{"ownerReferences":[{"name":"o"}]},"spec":{"color":"pink","owner":"A b","replicas":-1,
		"parts":[{"name":"a","tags":["x","y","x"]},{"name":""},{"name":"a","count":3},{},{}],"notes":{"a/b":1}}}`))
	require.Equal(t, []string{
		`metadata.ownerReferences[0].apiVersion: Required value`,
		`metadata.ownerReferences[0].kind: Required value`,
		`metadata.ownerReferences[0].uid: Required value`,
		`spec.size: Required value`,
		`spec.color: Unsupported value: "pink": supported values: "red", "green", "blue"`,
		`spec.notes[a/b]: Invalid value: "integer": spec.notes[a/b] in body must be of type string: "integer"`,
		`spec.owner: Invalid value: "A b": spec.owner in body should match '^[a-z]*$'`,
		`spec.parts: Too many: 5: must have at most 4 items`,
		`spec.parts[0].tags[2]: Duplicate value: "x"`,
		`spec.parts[1].name: Invalid value: "": spec.parts[1].name in body should be at least 1 chars long`,
		`spec.parts[3].name: Required value`,
		`spec.parts[4].name: Required value`,
		`spec.parts[2]: Duplicate value: {"name":"a"}`,
		`spec.parts[4]: Duplicate value: {}`,
		`spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0`,
	}, texts(errs))
	require.Equal(t, meta.CauseFieldValueRequired, errs[0].Type)
	require.Equal(t, meta.CauseFieldValueNotSupported, errs[4].Type)
	require.Equal(t, meta.CauseFieldValueTypeInvalid, errs[5].Type)
	require.Equal(t, meta.CauseFieldValueTooMany, errs[7].Type)
	require.Equal(t, meta.CauseFieldValueDuplicate, errs[8].Type)
}

func TestValidate_Keywords(t *testing.T) {
	str := func(s openapi.Schema) openapi.Schema { s.Type = openapi.String; return s }
	num := func(s openapi.Schema) openapi.Schema { s.Type = openapi.Number; return s }
	many := make([]any, 100)
	for i := range many {
		many[i] = int64(i)
	}
	text, integer := &openapi.Schema{Type: openapi.String}, &openapi.Schema{Type: openapi.Integer}
	for _, c := range []struct {
		schema   openapi.Schema
		in, want string
	}{
		{str(openapi.Schema{MaxLength: number(2)}), `{"v":"éé"}`, ``},
		{str(openapi.Schema{MaxLength: number(2)}), `{"v":"abc"}`, `v: Too long: may not be more than 2 characters`},
		{str(openapi.Schema{Pattern: "b"}), `{"v":"abc"}`, ``},
		{num(openapi.Schema{Minimum: 0.5, Maximum: int64(2)}), `{"v":0.5}`, ``},
		{num(openapi.Schema{Minimum: 0.5}), `{"v":0.4}`, `v: Invalid value: 0.4: v in body should be greater than or equal to 0.5`},
		{num(openapi.Schema{Minimum: int64(1), ExclusiveMinimum: true}), `{"v":1}`, `v: Invalid value: 1: v in body should be greater than 1`},
		{num(openapi.Schema{Maximum: int64(1), ExclusiveMaximum: true}), `{"v":1.0}`, `v: Invalid value: 1: v in body should be less than 1`},
		{num(openapi.Schema{Maximum: int64(9223372036854775807)}), `{"v":9.3e18}`, `v: Invalid value: 9.3e+18: v in body should be less than or equal to 9.223372036854776e+18`},
		{num(openapi.Schema{MultipleOf: 0.1}), `{"v":0.3}`, ``},
		{num(openapi.Schema{MultipleOf: 0.1}), `{"v":0.35}`, `v: Invalid value: 0.35: v in body should be a multiple of 0.1`},
		{num(openapi.Schema{MultipleOf: int64(7)}), `{"v":49}`, ``},
		{num(openapi.Schema{Format: "float"}), `{"v":1e39}`, `v: Invalid value: 1e+39: is beyond the range of a 32-bit float`},
		{openapi.Schema{Type: openapi.Integer, Format: "int32"}, `{"v":2147483648}`, `v: Invalid value: 2147483648: does not fit in 32 bits`},
		{openapi.Schema{Type: openapi.Integer}, `{"v":1.5}`, `v: Invalid value: "number": v in body must be of type integer: "number"`},
		{openapi.Schema{Type: openapi.Integer, Enum: []any{int64(1), int64(2)}}, `{"v":2.0}`, ``},
		{openapi.Schema{Type: openapi.Integer, Enum: many}, `{"v":99.0}`, ``},
		{openapi.Schema{Type: openapi.Integer, Enum: many}, `{"v":100}`, `v: Unsupported value: 100: supported values: "0", "1", "2"`},
		{openapi.Schema{Type: openapi.Boolean}, `{"v":"true"}`, `v: Invalid value: "string": v in body must be of type boolean: "string"`},
		{openapi.Schema{Type: openapi.String}, `{"v":null}`, `v: Invalid value: "null": v in body must be of type string: "null"`},
		{openapi.Schema{Type: openapi.String, Nullable: true, Enum: []any{"a"}}, `{"v":null}`, ``},
		{openapi.Schema{Type: openapi.Array, MinItems: number(1), Items: text}, `{"v":[]}`, `v: Invalid value: 0: v in body should have at least 1 items`},
		{openapi.Schema{Type: openapi.Object, MinProperties: number(1), AdditionalProperties: text}, `{"v":{}}`, `v: Invalid value: 0: v in body should have at least 1 properties`},
		{openapi.Schema{Type: openapi.Object, MaxProperties: number(1), AdditionalProperties: text}, `{"v":{"a":"","b":""}}`, `v: Too many: 2: must have at most 1 item`},
		{openapi.Schema{PreserveUnknown: true, AnyOf: []*openapi.Schema{text, integer}}, `{"v":1}`, ``},
		{openapi.Schema{PreserveUnknown: true, AnyOf: []*openapi.Schema{text, integer}}, `{"v":true}`, `v: Invalid value: true: v in body must validate at least one schema (anyOf)`},
		{openapi.Schema{Type: openapi.Integer, OneOf: []*openapi.Schema{{Minimum: int64(1)}, {Maximum: int64(3)}}}, `{"v":2}`, `v: Invalid value: 2: v in body must validate one and only one schema (oneOf)`},
		{openapi.Schema{Type: openapi.Integer, OneOf: []*openapi.Schema{{Minimum: int64(1)}, {Maximum: int64(3)}}}, `{"v":4}`, ``},
		{openapi.Schema{Type: openapi.Integer, AllOf: []*openapi.Schema{{Minimum: int64(1)}, {Maximum: int64(3)}}}, `{"v":4}`, `v: Invalid value: 4: v in body should be less than or equal to 3`},
		{openapi.Schema{Type: openapi.String, Not: &openapi.Schema{Enum: []any{"a"}}}, `{"v":"a"}`, `v: Invalid value: "a": v in body must not validate the schema (not)`},
		{openapi.Schema{Type: openapi.String, Not: &openapi.Schema{Enum: []any{"a"}}}, `{"v":"b"}`, ``},
		{openapi.Schema{Type: openapi.Object, PreserveUnknown: true, AnyOf: []*openapi.Schema{{Required: []string{"a"}}, {Required: []string{"b"}}}}, `{"v":{"b":1}}`, ``},
	} {
		got := strings.Join(texts(field(t, c.schema).Validate(tree(t, c.in))), "; ")
		if c.want == "" {
			require.Empty(t, got, c.in)
		} else {
			require.Contains(t, got, c.want)
		}
	}
}

func TestValidate_Formats(t *testing.T) {
	good := map[string][]string{
		"byte": {"YWI="}, "date": {"2020-02-29"}, "date-time": {"2020-01-01T00:00:00Z", "2020-01-01t00:00:00z", "2020-01-01T00:00:00.5+01:00"},
		"datetime": {"2020-01-01T00:00:00Z"}, "duration": {"1h", "1.5s", "22 ns", "3 days", "1 week, 2 hours", "5d3h"}, "cidr": {"10.0.0.0/8", "::/0"}, "ipv4": {"10.0.0.1"}, "ipv6": {"::1"},
		"mac": {"00:00:5e:00:53:01"}, "hostname": {"example.dev", "a", "a-b", "münchen.de"}, "email": {"a@example.dev", "A <a@b.c>"}, "uri": {"http://x/y", "/y"},
		"uuid": {"5d3c2b1a-0000-4000-8000-123456789ABC", "5d3c2b1a00004000800012345678abcd"}, "password": {"", "any"}, "made-up": {"any"},
		"uuid3": {"5d3c2b1a-0000-3000-0000-123456789abc"}, "uuid4": {"5d3c2b1a-0000-4000-b000-123456789abc"}, "uuid5": {"5d3c2b1a-0000-5000-A000-123456789abc"},
		"bsonobjectid": {"0123456789abcdefABCDEF01"}, "isbn": {"0321751043", "978-0321751041"}, "isbn10": {"0-321-75104-3", "080442957X"}, "isbn13": {"978-0-321-75104-1"},
		"creditcard": {"4111 1111 1111 1111", "378282246310005"}, "ssn": {"123-45-6789", "123 45 6789", "123-45 6789"}, "hexcolor": {"#fff", "00FF7f"},
		"rgbcolor": {"rgb(1,2,255)", "rgb( 0, 0, 0 )"}, "k8s-short-name": {"a-1"}, "k8s-long-name": {"a.b-c.d"}, "date-time-": {"2020-01-01T00:00:00Z"},
	}
	bad := map[string][]string{
		"byte": {"", "?", "YWI", "YW\nI="}, "date": {"2021-02-29", "2020"}, "date-time": {"2020-01-01"}, "datetime": {""}, "duration": {"1", "", "days", "3 moons", "3 days!", "1.5 days"},
		"cidr": {"10.0.0.0", "10.0.0.0/33"}, "ipv4": {"::1", "10.0.0", "010.0.0.1"}, "ipv6": {"10.0.0.1", "fe80::1%eth0"}, "mac": {"00"},
		"hostname": {"", "-a", "a..b", "1.2.3.4", "a-b-c", "a.b", strings.Repeat("a.", 130) + "a"}, "email": {"a"}, "uri": {"x"},
		"uuid":  {"", "5d3c2b1a", "5d3c2b1a-0000-4000-8000-123456789abg", "5d3c2b1a00000-4000-8000-123456789abc", "5d3c2b1a--0000-4000-8000-123456789abc", "5d3c2b1a-0000-4000-8000-123456789abc-"},
		"uuid3": {"5d3c2b1a-0000-4000-8000-123456789abc"}, "uuid4": {"5d3c2b1a-0000-4000-7000-123456789abc"}, "uuid5": {"5d3c2b1a-0000-4000-8000-123456789abc"},
		"bsonobjectid": {"0123456789abcdef", "0123456789abcdefABCDEF0x"}, "isbn": {"1", "032175104X"}, "isbn10": {"080442957x", "0321751044", "X321751043", "03217510430"}, "isbn13": {"978-0321751042"},
		"creditcard": {"4111111111111112", "41", "4111x11111111111"}, "ssn": {"123456789", "12-345-6789", "123-456789", "123-45-67x9"}, "hexcolor": {"#ff", "#gggggg"},
		"rgbcolor": {"rgb(01,2,3)", "rgb(1,2)", "rgb(1,2,256)", "1,2,3", "rgb(1,2,3", "rgb(,1,2)", "rgb(1,2,-3)"}, "k8s-short-name": {"", "-a", "a.b", "A"}, "k8s-long-name": {"a..b", "A"},
	}
	for format, values := range good {
		for _, v := range values {
			require.Empty(t, field(t, openapi.Schema{Type: openapi.String, Format: format}).Validate(map[string]any{"v": v}), "%s %q", format, v)
		}
	}
	for format, values := range bad {
		require.Contains(t, openapi.Formats(), format)
		for _, v := range values {
			errs := field(t, openapi.Schema{Type: openapi.String, Format: format}).Validate(map[string]any{"v": v})
			require.Len(t, errs, 1, "%s %q", format, v)
			require.Contains(t, errs[0].String(), "v in body must be of type "+format)
		}
	}
}

func TestValidate_ReportIsBoundedAndStable(t *testing.T) {
	items := make([]any, 50_000)
	for i := range items {
		items[i] = "wrong"
	}
	s := field(t, openapi.Schema{Type: openapi.Array, Items: &openapi.Schema{Type: openapi.Integer}})
	_, errs := s.Canonical(map[string]any{"v": items})
	for _, errs := range [][]status.FieldError{s.Validate(map[string]any{"v": items}), errs} {
		require.Len(t, errs, 1000)
		require.Equal(t, "v[998]", errs[998].Field)
		require.Equal(t, "Too many: 50000: problems; only the first 999 are listed", errs[999].String())
	}

	in := tree(t, `{"metadata":{"labels":{"a":1,"b":2,"c":3,"d":4,"e":5}}}`)
	first := widget(t).Validate(in)
	for range 20 {
		require.Equal(t, first, widget(t).Validate(in))
	}
}

// Kubernetes drops null only where the document describes a field. It decodes the metadata of an
// embedded object as a Go struct, where a label that is null is the empty text.
//
// Source: CRD-08, CRD-09.
func TestCanonical_NullInEmbeddedObjects(t *testing.T) {
	s, errs := openapi.FromTree(tree(t, `{"type":"object","properties":{
		"own":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true,
			"default":{"apiVersion":"v1","kind":"K","metadata":{"creationTimestamp":null}}},
		"described":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"apiVersion":{"type":"string"},"kind":{"type":"string"}}}}}`))
	require.Empty(t, errs)
	for _, c := range []struct{ in, want, why string }{
		{`{"own":{"apiVersion":null,"kind":"K"}}`, `{"own":{"apiVersion":null,"kind":"K"}}`, `own.apiVersion: Invalid value: null: must be a string`},
		{`{"own":{"apiVersion":"v1","kind":null}}`, `{"own":{"apiVersion":"v1","kind":null}}`, `own.kind: Invalid value: null: must be a string`},
		{`{"described":{"apiVersion":null,"kind":null}}`, `{"described":{}}`, ""},
		{`{"own":{"metadata":{"labels":{"a":null},"annotations":{"a":null}}}}`, `{"own":{"metadata":{"annotations":{"a":""},"labels":{"a":""}}}}`, ""},
		{
			`{"own":{"metadata":{"generation":0.5}}}`, `{"own":{"metadata":{"generation":0.5}}}`,
			`own.metadata: Invalid value: {"generation":0.5}: json: cannot unmarshal number 0.5 into Go struct field ObjectMeta.generation of type int64`,
		},
	} {
		out, problems := s.Canonical(tree(t, c.in))
		require.Equal(t, c.want, encode(t, out))
		require.Equal(t, c.why, s.Undecodable(out))
		require.Equal(t, c.why == "", len(problems) == 0, c.in)
	}
}

func TestValidate_EmbeddedObjects(t *testing.T) {
	s, errs := openapi.FromTree(tree(t, `{"type":"object","properties":{"objects":{"type":"array","items":{
		"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true,"properties":{"spec":{"type":"object","required":["a"]}}}}}}`))
	require.Empty(t, errs)
	require.Empty(t, s.Validate(tree(t, `{"objects":[{"apiVersion":"v1","kind":"Pod"},{"apiVersion":"apps/v1","kind":"Deployment","free":1,
		"metadata":{"name":"Any:Name","generateName":"a-","namespace":"b","labels":{"a/b":"c"},"annotations":{"x.dev/Y":"any thing"},"finalizers":["x.dev/f"]}}]}`)))
	require.Equal(t, []string{
		`objects[0].apiVersion: Required value`,
		`objects[0].kind: Required value`,
		`objects[1].apiVersion: Invalid value: "": must not be empty`,
		`objects[1].kind: Invalid value: "": must not be empty`,
		`objects[2].apiVersion: Invalid value: "a/b/c": ` + parseError(t, "a/b/c"),
		`objects[2].kind: Invalid value: "x y": may have capital letters, but otherwise ` + meta.CheckDNS1035Label("x y"),
		`objects[2].metadata.name: Invalid value: "a/b": must not contain '/'`,
		`objects[2].metadata.generateName: Invalid value: "%": must not contain '%'`,
		`objects[2].metadata.namespace: Invalid value: "A": ` + meta.CheckDNSLabel("A"),
		`objects[2].metadata.labels: Invalid value: "a b": ` + meta.CheckLabelKey("a b"),
		`objects[2].metadata.labels.ok: Invalid value: "b c": ` + meta.CheckLabelValue("b c"),
		`objects[2].metadata.annotations: Invalid value: "": ` + meta.CheckAnnotationKey(""),
		`objects[2].metadata.finalizers: Invalid value: "a b": ` + meta.CheckQualifiedName("a b"),
		`objects[2].spec.a: Required value`,
		`objects[3].apiVersion: Invalid value: "integer": objects[3].apiVersion in body must be of type string: "integer"`,
		`objects[3].metadata: Invalid value: "array": objects[3].metadata in body must be of type object: "array"`,
		`objects[4]: Invalid value: "string": objects[4] in body must be of type object: "string"`,
	}, texts(s.Validate(tree(t, `{"objects":[{},{"apiVersion":"","kind":""},{"apiVersion":"a/b/c","kind":"x y","spec":{},
		"metadata":{"name":"a/b","generateName":"%","namespace":"A","labels":{"a b":"c","ok":"b c"},"annotations":{"":"x"},"finalizers":["x.dev/f","a b"]}},
		{"apiVersion":1,"kind":"K","metadata":[]},"x"]}`))))
}

func parseError(t *testing.T, text string) string {
	_, err := meta.ParseGroupVersion(text)
	require.Error(t, err)
	return err.Error()
}

// Errors only repeat short values. A thousand errors about three megabytes would be three
// gigabytes.
func TestValidate_LargeValuesAreNotRepeated(t *testing.T) {
	s := field(t, openapi.Schema{Type: openapi.Array, Items: &openapi.Schema{Type: openapi.Integer}, AnyOf: []*openapi.Schema{{MaxItems: number(1)}}})
	require.Equal(t, []string{`v: Invalid value: [1,2]: v in body must validate at least one schema (anyOf)`, "v: Too many: 2: must have at most 1 item"}, texts(s.Validate(tree(t, `{"v":[1,2]}`))))
	errs := s.Validate(map[string]any{"v": slices.Repeat([]any{int64(1)}, 1000)})
	require.Equal(t, "array", errs[0].Value)
}

// A schema with many conditions and an object with many values must be rejected instead of being
// validated for minutes.
func TestValidate_WorkIsBounded(t *testing.T) {
	branch := &openapi.Schema{Items: &openapi.Schema{MinLength: number(1)}}
	branches := make([]*openapi.Schema, 900)
	required := make([]string, 50_000)
	for i := range required {
		branches[i%900], required[i] = branch, fmt.Sprint(i)
	}
	words, objects := make([]any, 50_000), make([]any, 50_000)
	for i := range words {
		words[i], objects[i] = "x", map[string]any{}
	}
	cases := []struct {
		schema openapi.Schema
		value  []any
		want   string
	}{
		{openapi.Schema{Type: openapi.Array, Items: &openapi.Schema{Type: openapi.String}, AnyOf: []*openapi.Schema{{AllOf: branches}}}, words, `Forbidden: the object takes too much work to validate`},
		{openapi.Schema{Type: openapi.Array, Items: &openapi.Schema{Type: openapi.Object, Required: required}}, objects, `Too many: 9950001: problems; only the first 999 are listed`},
	}
	for _, c := range cases[:effort.Of(len(cases))] {
		s := field(t, c.schema)
		errs := s.Validate(map[string]any{"v": c.value})
		require.Contains(t, strings.Join(texts(errs), "; "), c.want)
	}
}

// The cost of a pattern is bounded by the length of the text that it is matched against.
func TestValidate_PatternCost(t *testing.T) {
	s := field(t, openapi.Schema{Type: openapi.String, Pattern: "^(a|b|c|d){0,900}[a-z]{0,100}$"})
	require.Empty(t, s.Validate(map[string]any{"v": "abcd"}))
	errs := s.Validate(map[string]any{"v": strings.Repeat("a", 1<<20)})
	require.Len(t, errs, 1)
	require.Contains(t, errs[0].String(), "because of its pattern")
}

func TestUnpreparedSchemaAcceptsNothing(t *testing.T) {
	s := &openapi.Schema{Type: openapi.Object}
	require.Len(t, s.Validate(map[string]any{}), 1)
	_, errs := s.Canonical(map[string]any{})
	require.Equal(t, meta.CauseInternalError, errs[0].Type)
	require.Zero(t, s.Fingerprint())
	in := map[string]any{"x": int64(1)}
	out, unknown := s.Prune(in)
	require.Equal(t, in, out)
	require.Empty(t, unknown)
	require.Equal(t, in, s.Default(in))
}

func TestNew_Problems(t *testing.T) {
	self := &openapi.Schema{Type: openapi.Object}
	self.Properties = []openapi.Property{{Name: "self", Schema: self}}
	for _, c := range []struct {
		schema openapi.Schema
		want   []string
	}{
		{*self, []string{"contains itself"}},
		{openapi.Schema{Type: "text"}, []string{`type: Invalid value: "text": unknown type`}},
		{openapi.Schema{Type: openapi.Object, Properties: []openapi.Property{{Name: "a"}}}, []string{`properties: Required value: property "a" needs a schema`}},
		{openapi.Schema{Type: openapi.Object, Properties: []openapi.Property{
			{Name: "a", Schema: &openapi.Schema{Type: openapi.String, Pattern: "("}},
			{Name: "a", Schema: &openapi.Schema{Type: openapi.Integer, Minimum: "x", MinLength: number(-1)}},
			{Name: "b", Schema: &openapi.Schema{Type: openapi.Array, Items: &openapi.Schema{Type: openapi.Integer, DefaultValue: "x"}}},
			{Name: "c", Schema: &openapi.Schema{Type: openapi.Integer, Enum: []any{int64(1), "x", int32(3)}, MultipleOf: int64(0)}},
		}}, []string{
			`properties[a].pattern: Invalid value: "("`, `properties[a].minimum: Invalid value: "x": not a number`, `properties: Invalid value: "a": duplicate name`,
			`properties[b].items.default: Invalid value: "x"`, `properties[c].enum: Invalid value: "x": must be of type integer`, `properties[c].enum: Invalid value: "3": json:`,
			`properties[c].multipleOf: Invalid value: 0: must be greater than 0`,
		}},
		{openapi.Schema{Type: openapi.Array, ListType: openapi.ListMap, ListMapKeys: []string{"a"}, Items: &openapi.Schema{Type: openapi.String}}, []string{"objects"}},
	} {
		_, err := openapi.New(&c.schema)
		for _, want := range c.want {
			require.ErrorContains(t, err, want)
		}
		var bad *openapi.Error
		require.ErrorAs(t, err, &bad)
		require.Len(t, bad.Problems, len(c.want))
	}
}

func TestNew_CopiesItsArgument(t *testing.T) {
	in := &openapi.Schema{Type: openapi.Object, Properties: []openapi.Property{{Name: "v", Schema: &openapi.Schema{Type: openapi.Integer}}}}
	s, err := openapi.New(in)
	require.NoError(t, err)
	in.Properties[0].Schema.Type = openapi.String
	require.Empty(t, s.Validate(map[string]any{"v": int64(1)}))
	require.NotEmpty(t, (&openapi.Schema{}).Validate(nil))
}

func TestFingerprint_ChangesWithMeaning(t *testing.T) {
	base := func() openapi.Schema {
		return openapi.Schema{Type: openapi.Object, Properties: []openapi.Property{
			{Name: "a", Schema: &openapi.Schema{Type: openapi.String}},
			{Name: "b", Schema: &openapi.Schema{Type: openapi.Array, Items: &openapi.Schema{Type: openapi.Integer}}},
		}}
	}
	fingerprint := func(change func(*openapi.Schema)) uint64 {
		s := base()
		change(&s)
		return build(t, s).Fingerprint()
	}
	original := fingerprint(func(*openapi.Schema) {})
	seen := map[uint64]int{original: -1}
	for i, change := range []func(*openapi.Schema){
		func(s *openapi.Schema) { s.Properties = s.Properties[:1] },
		func(s *openapi.Schema) { s.Properties[0].Name = "c" },
		func(s *openapi.Schema) { s.Properties[0].Schema.Type = openapi.Integer },
		func(s *openapi.Schema) { s.Properties[0].Schema.DefaultValue = "x" },
		func(s *openapi.Schema) { s.Properties[0].Schema.DefaultValue = "y" },
		func(s *openapi.Schema) { s.Properties[0].Schema.Nullable = true },
		func(s *openapi.Schema) { s.Properties[0].Schema.Notation = openapi.NotationTime },
		func(s *openapi.Schema) { s.Properties[0].Schema.Notation = openapi.NotationMicroTime },
		func(s *openapi.Schema) { s.Properties[1].Schema.Items.Type = openapi.String },
		func(s *openapi.Schema) { s.Properties[1].Schema.Items.Format = "int32" },
		func(s *openapi.Schema) { s.PreserveUnknown = true },
		func(s *openapi.Schema) { s.AdditionalProperties = &openapi.Schema{Type: openapi.String} },
		func(s *openapi.Schema) { s.Properties[0].Schema.Type, s.Properties[0].Schema.IntOrString = "", true },
	} {
		f := fingerprint(change)
		other, dup := seen[f]
		require.False(t, dup, "changes %d and %d look alike", i, other)
		seen[f] = i
	}
	for _, same := range []func(*openapi.Schema){
		func(s *openapi.Schema) { s.Properties[0].Schema.Description = "words" },
		func(s *openapi.Schema) { s.Properties[0].Schema.Pattern = "^a" },
		func(s *openapi.Schema) { s.Properties[0].Schema.Format = "email" },
		func(s *openapi.Schema) { s.Required = []string{"a"} },
		func(s *openapi.Schema) { slices.Reverse(s.Properties) },
		func(s *openapi.Schema) { s.Properties[0].Schema.Column = &openapi.ColumnTag{Name: "A"} },
	} {
		require.Equal(t, original, fingerprint(same))
	}
	require.Equal(t, uint64(0xdf5d37e4e98ecea8), original, "the same in every process: it is stored with each record")
}

// values draws trees that resemble widgets, both valid and invalid.
func values() random.Generator[map[string]any] {
	scalar := random.OneOf(
		random.SampledFrom([]any{nil, true, 1.0, 1.5, int64(3), int64(1) << 60, 1e300, "blue", "", "1h", "2020-01-01T01:00:00+01:00", "YWI=", "5m"}),
		random.String().AsAny(), random.Number[int64]().AsAny(), random.Float64().AsAny(),
	)
	names := random.SampledFrom([]string{
		"apiVersion", "metadata", "spec", "status", "size", "color", "parts", "notes", "limit", "cpu", "rest", "made",
		"every", "ratio", "data", "name", "count", "tags", "labels", "creationTimestamp", "ownerReferences", "replicas", "unknown",
	})
	var value func(depth int) random.Generator[any]
	object := func(depth int) random.Generator[map[string]any] { return random.MapOf(names, value(depth-1), 8) }
	value = func(depth int) random.Generator[any] {
		if depth == 0 {
			return scalar
		}
		return random.OneOf(scalar, object(depth).AsAny(),
			random.SliceOf(value(depth-1), 0, 4).AsAny())
	}
	return object(4)
}

// For any input, each step leaves its argument unchanged, is idempotent, and does not undo another
// step.
func TestSteps_Properties(t *testing.T) {
	s := widget(t)
	random.Check(t, func(t *random.T) {
		in := values().Draw(t, "object")
		before := encode(t, in)

		canonical, errs := s.Canonical(in)
		again, errsAgain := s.Canonical(canonical)
		require.Equal(t, encode(t, canonical), encode(t, again))
		require.Equal(t, errs, errsAgain)
		require.True(t, sameMap(canonical, again))

		pruned, _ := s.Prune(canonical)
		prunedAgain, unknown := s.Prune(pruned)
		require.Empty(t, unknown)
		require.True(t, sameMap(pruned, prunedAgain))

		full := s.Default(pruned)
		require.True(t, sameMap(full, s.Default(full)))
		_, unknown = s.Prune(full)
		require.Empty(t, unknown, "defaults are known fields")
		fullAgain, errsFull := s.Canonical(full)
		require.Equal(t, encode(t, full), encode(t, fullAgain), "defaults are canonical")
		if len(errs) == 0 {
			require.Empty(t, errsFull, "and well typed")
		}

		problems := s.Validate(full)
		for _, e := range errsFull {
			require.Contains(t, problems, e)
		}
		require.Equal(t, before, encode(t, in), "the input is as it was")
	})
}

// An object that a client decodes into the Go type and sends back unchanged has the same bytes at
// rest.
func TestSteps_GoClientsChangeNothing(t *testing.T) {
	s := widget(t)
	text := random.String()
	at := func(t *random.T, label string) meta.Time {
		return meta.NewTime(time.Unix(random.Range[int64](0, 1<<33).Draw(t, label), random.Range[int64](0, 1e9-1).Draw(t, label+" fraction")))
	}
	rest := func(t *random.T, w *Widget) string {
		sent, err := json.TreeOf(w)
		require.NoError(t, err)
		canonical, errs := s.Canonical(sent.(map[string]any))
		require.Empty(t, errs)
		pruned, unknown := s.Prune(canonical)
		require.Empty(t, unknown)
		full := s.Default(pruned)
		require.Empty(t, s.Validate(full))
		return encode(t, full)
	}
	random.Check(t, func(t *random.T) {
		w := &Widget{ObjectMeta: meta.ObjectMeta{Name: "a", CreationTimestamp: at(t, "created"), Labels: random.MapOf(text, text, 10).Draw(t, "labels")}}
		w.Spec = WidgetSpec{
			Size: random.Range[int32](1, 1000).Draw(t, "size"), Color: random.SampledFrom([]string{"", "red"}).Draw(t, "color"),
			Notes: random.MapOf(text, text, 10).Draw(t, "notes"), Made: at(t, "made"), Ratio: random.Float64().Draw(t, "ratio"),
			Every: meta.NewDuration(time.Duration(random.Number[int64]().Draw(t, "every"))), Data: random.SliceOf(random.Number[byte](), 0, 60).Draw(t, "data"),
			Parts: random.Distinct(random.Custom(func(t *random.T) WidgetPart {
				return WidgetPart{Name: random.StringN(1, 9).Draw(t, "name"), Count: random.Number[int32]().Draw(t, "count"), Tags: random.Distinct(text, 0, 10, random.ID).Draw(t, "tags")}
			}), 0, 4, func(p WidgetPart) string { return p.Name }).Draw(t, "parts"),
		}
		if random.Bool().Draw(t, "limited") {
			w.Spec.Limit = &WidgetLimit{Memory: text.Draw(t, "memory")}
		}
		first := rest(t, w)
		var read Widget
		require.NoError(t, json.Unmarshal([]byte(first), &read))
		require.Equal(t, first, rest(t, &read))
	})
}

func TestConcurrentUse(t *testing.T) {
	s := widget(t)
	in := tree(t, `{"metadata":{"name":"a","x":1},"spec":{"size":3.0,"made":"2020-01-01T01:00:00+01:00","parts":[{"name":"a"}],"color":"pink"}}`)
	var want string
	run := func() string {
		canonical, errs := s.Canonical(in)
		pruned, unknown := s.Prune(canonical)
		full := s.Default(pruned)
		return fmt.Sprint(encode(t, full), errs, unknown, texts(s.Validate(full)), s.Fingerprint(), s.Columns(), s.SelectableFields())
	}
	want = run()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				if got := run(); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				if _, err := document(s).JSON(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

// Messages get into audit records. Bytes are the data of secrets.
func TestA5_D2_BytesAreNotRepeated(t *testing.T) {
	_, errs := field(t, openapi.Schema{Type: openapi.String, Notation: openapi.NotationBytes}).Canonical(tree(t, `{"v":"c2VjcmV0!"}`))
	require.Equal(t, []string{`v: Invalid value: "<redacted>": must be standard base64 with padding`}, texts(errs))
}
