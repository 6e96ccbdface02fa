package openapi_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/random"
	"github.com/kindwright/kindwright/openapi"
)

// ratcheted has one rule of every sort. The objects below violate all of them.
func ratcheted(t require.TestingT) *openapi.Schema {
	text := func(s openapi.Schema) *openapi.Schema { s.Type = openapi.String; return &s }
	item := openapi.Schema{Type: openapi.Object, Required: []string{"name"}, Properties: []openapi.Property{
		{Name: "name", Schema: text(openapi.Schema{})},
		{Name: "image", Schema: text(openapi.Schema{Pattern: "^[a-z]+$"})},
		{Name: "size", Schema: &openapi.Schema{Type: openapi.Integer, Maximum: int64(9)}},
	}}
	short := text(openapi.Schema{MaxLength: number(1)})
	return build(t, openapi.Schema{Type: openapi.Object, Properties: []openapi.Property{
		{Name: "color", Schema: text(openapi.Schema{Enum: []any{"red"}})},
		{Name: "free", Schema: &openapi.Schema{Type: openapi.Integer}},
		{Name: "keyed", Schema: &openapi.Schema{Type: openapi.Array, ListType: openapi.ListMap, ListMapKeys: []string{"name"}, MaxItems: number(20), Items: &item}},
		{Name: "atomic", Schema: &openapi.Schema{Type: openapi.Array, Items: short}},
		{Name: "set", Schema: &openapi.Schema{Type: openapi.Array, ListType: openapi.ListSet, Items: short}},
		{Name: "labels", Schema: &openapi.Schema{Type: openapi.Object, AdditionalProperties: short}},
		{Name: "any", Schema: &openapi.Schema{Type: openapi.Object, PreserveUnknown: true, AnyOf: []*openapi.Schema{{Properties: []openapi.Property{{Name: "a", Schema: short}}}}}},
		{Name: "one", Schema: &openapi.Schema{Type: openapi.Object, PreserveUnknown: true, OneOf: []*openapi.Schema{
			{Properties: []openapi.Property{{Name: "a", Schema: short}}}, {Required: []string{"b"}},
		}}},
		{Name: "all", Schema: &openapi.Schema{Type: openapi.Object, PreserveUnknown: true, AllOf: []*openapi.Schema{{Properties: []openapi.Property{{Name: "a", Schema: short}}}}}},
		{Name: "not", Schema: &openapi.Schema{Type: openapi.Object, PreserveUnknown: true, Not: &openapi.Schema{Required: []string{"a"}}}},
		{Name: "object", Schema: &openapi.Schema{Type: openapi.Object, EmbeddedObject: true, PreserveUnknown: true}},
		{Name: "must", Schema: &openapi.Schema{Type: openapi.Object, PreserveUnknown: true, Required: []string{"there"}}},
	}})
}

// An update is not rejected for a value that it does not change.
//
// Source: KEP-4008.
func TestValidateUpdate_UnchangedProblemsDoNotBlock(t *testing.T) {
	s := ratcheted(t)
	for name, c := range map[string]struct {
		old, new string
		want     []string
	}{
		"scalar":            {`{"color":"blue"}`, `{"color":"blue","free":1}`, nil},
		"changed scalar":    {`{"color":"blue"}`, `{"color":"green"}`, []string{`color: Unsupported value: "green": supported values: "red"`}},
		"new scalar":        {`{}`, `{"color":"green"}`, []string{`color: Unsupported value: "green": supported values: "red"`}},
		"beside":            {`{"color":"blue"}`, `{"color":"blue","free":"x"}`, []string{`free: Invalid value: "string": free in body must be of type integer: "string"`}},
		"wrong type before": {`{"free":"x"}`, `{"free":"x","color":"red"}`, nil},
		"keyed, other item": {`{"keyed":[{"name":"a","image":"A"},{"name":"b"}]}`, `{"keyed":[{"name":"c"},{"name":"b","size":3},{"name":"a","image":"A"}]}`, nil},
		"keyed, other field of the item": {
			`{"keyed":[{"name":"a","image":"A","size":10}]}`, `{"keyed":[{"name":"a","image":"A","size":11}]}`,
			[]string{`keyed[0].size: Invalid value: 11: keyed[0].size in body should be less than or equal to 9`},
		},
		"keyed, other key": {`{"keyed":[{"name":"a","image":"A"}]}`, `{"keyed":[{"name":"b","image":"A"}]}`, []string{`keyed[0].image: Invalid value: "A": keyed[0].image in body should match '^[a-z]+$'`}},
		"keyed, without key": {
			`{"keyed":[{"image":"A"}]}`, `{"keyed":[{"image":"A"},{"name":"b"}]}`, nil,
		},
		"keyed, twice": {`{"keyed":[{"name":"a"},{"name":"a"}]}`, `{"keyed":[{"name":"a"},{"name":"a"}],"free":1}`, nil},
		"keyed, twice and one more": {
			`{"keyed":[{"name":"a"},{"name":"a"}]}`, `{"keyed":[{"name":"a"},{"name":"a"},{"name":"b"}]}`, []string{`keyed[1]: Duplicate value: {"name":"a"}`},
		},
		"atomic":               {`{"atomic":["xx"]}`, `{"atomic":["xx"],"free":1}`, nil},
		"atomic, another item": {`{"atomic":["xx"]}`, `{"atomic":["xx","y"]}`, []string{`atomic[0]: Too long: may not be more than 1 character`}},
		"set, another item":    {`{"set":["xx"]}`, `{"set":["xx","y"]}`, []string{`set[0]: Too long: may not be more than 1 character`}},
		"map":                  {`{"labels":{"a":"xx"}}`, `{"labels":{"a":"xx","b":"y"}}`, nil},
		"anyOf":                {`{"any":{"a":"xx"}}`, `{"any":{"a":"xx","b":1}}`, nil},
		"anyOf, changed":       {`{"any":{"a":"xx"}}`, `{"any":{"a":"yy"}}`, []string{`any: Invalid value: {"a":"yy"}: any in body must validate at least one schema (anyOf)`, "any.a: Too long: may not be more than 1 character"}},
		"oneOf, none before":   {`{"one":{"a":"xx"}}`, `{"one":{"a":"xx","c":1}}`, nil},
		"allOf":                {`{"all":{"a":"xx"}}`, `{"all":{"a":"xx","b":1}}`, nil},
		"not":                  {`{"not":{"a":1}}`, `{"not":{"a":1},"free":1}`, nil},
		"not, in a new object": {`{"not":{"a":1}}`, `{"not":{"a":1,"b":2}}`, []string{`not: Invalid value: {"a":1,"b":2}: not in body must not validate the schema (not)`}},
		"embedded":             {`{"object":{"kind":"x y","metadata":{"name":"/"}}}`, `{"object":{"kind":"x y","metadata":{"name":"/"},"apiVersion":"v1"}}`, nil},
		"embedded, changed":    {`{"object":{"kind":"K","apiVersion":"v1","metadata":{"name":"/"}}}`, `{"object":{"kind":"K","apiVersion":"v1","metadata":{"name":"//"}}}`, []string{`object.metadata.name: Invalid value: "//": must not contain '/'`}},
		"required":             {`{"must":{"x":1}}`, `{"must":{"x":1},"free":1}`, nil},
		"required, changed":    {`{"must":{"x":1}}`, `{"must":{"x":2}}`, []string{`must.there: Required value`}},
		"nothing before":       {`null`, `{"color":"green"}`, []string{`color: Unsupported value: "green": supported values: "red"`}},
	} {
		t.Run(name, func(t *testing.T) {
			var old map[string]any
			if c.old != "null" {
				old = tree(t, c.old)
			}
			got := s.ValidateUpdate(tree(t, c.new), old)
			if c.want == nil {
				require.Empty(t, texts(got))
				require.NotEmpty(t, s.Validate(tree(t, c.new)), "without the earlier object it would be refused")
				return
			}
			require.Equal(t, c.want, texts(got))
		})
	}
	require.Len(t, (&openapi.Schema{}).ValidateUpdate(nil, nil), 1)
}

// Long lists are correlated with a map instead of pairwise. The outcome is the same.
func TestValidateUpdate_LongKeyedLists(t *testing.T) {
	s := ratcheted(t)
	items := func(n int) []any {
		out := make([]any, n)
		for i := range out {
			out[i] = map[string]any{"name": fmt.Sprint(i), "image": "WRONG", "size": int64(i % 5)}
		}
		return out
	}
	old, now := items(19), items(20)
	now[3], now[7] = now[7], now[3]
	now[5].(map[string]any)["size"] = int64(10)
	require.Equal(t, []string{"keyed[5].size", "keyed[19].image"}, fields(s.ValidateUpdate(map[string]any{"keyed": now}, map[string]any{"keyed": old})))
}

// For any change, an update reports only problems that a create would report. An update that
// changes nothing reports none.
func TestValidateUpdate_IsNeverStricter(t *testing.T) {
	s := ratcheted(t)
	texts := random.SampledFrom([]any{"red", "a", "xx", "A", nil, int64(1), int64(10)})
	object := random.Custom(func(t *random.T) map[string]any {
		out := map[string]any{}
		for _, name := range []string{"color", "free", "must", "any", "one", "all", "not", "labels", "object"} {
			if !random.Bool().Draw(t, name) {
				continue
			}
			if name == "color" || name == "free" {
				out[name] = texts.Draw(t, "v")
				continue
			}
			inner := map[string]any{}
			for _, member := range []string{"a", "b", "there", "kind"} {
				if random.Bool().Draw(t, member) {
					inner[member] = texts.Draw(t, "v")
				}
			}
			out[name] = inner
		}
		for _, name := range []string{"keyed", "set", "atomic"} {
			list := []any{}
			for range random.Range(0, 3).Draw(t, "n") {
				v := texts.Draw(t, "v")
				if name == "keyed" && v != nil {
					v = map[string]any{"name": v, "image": texts.Draw(t, "image")}
				}
				list = append(list, v)
			}
			out[name] = list
		}
		return out
	})
	random.Check(t, func(t *random.T) {
		old, now := object.Draw(t, "old"), object.Draw(t, "new")
		all, some := s.Validate(now), s.ValidateUpdate(now, old)
		for _, e := range some {
			require.Contains(t, all, e)
		}
		require.Empty(t, s.ValidateUpdate(now, json.Clone(now).(map[string]any)))
	})
}

// Two items with the keys of one earlier item are not what was there before, even if each is equal to it.
func TestValidateUpdate_AnItemThatIsThereTwiceIsNew(t *testing.T) {
	for _, more := range []int{0, 20} { // lists of many items are compared by an index
		item := func(name string) any { return map[string]any{"name": name} }
		old, next := []any{item("a"), item("b")}, []any{item("b"), item("b")}
		for i := range more {
			old, next = append(old, item(fmt.Sprint(i))), append(next, item(fmt.Sprint(i)))
		}
		s, problems := openapi.FromTree(map[string]any{"type": "object", "properties": map[string]any{"keyed": map[string]any{
			"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"name"},
			"items": map[string]any{"type": "object", "required": []any{"name"}, "properties": map[string]any{"name": map[string]any{"type": "string"}}},
		}}})
		require.Empty(t, problems)
		require.Equal(t, []string{`keyed[1]: Duplicate value: {"name":"b"}`},
			texts(s.ValidateUpdate(map[string]any{"keyed": next}, map[string]any{"keyed": old})))
	}
}
