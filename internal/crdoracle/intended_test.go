package crdoracle

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// difference is one that is meant. The rules in differences_test.go leave it out of the comparison,
// or the generator does not make it.
type difference struct {
	reason, schema, object string
	theirs, ours           []string
}

var differences = []difference{
	{
		"a problem with branches names its field (0007)",
		`{"type":"string","anyOf":[{"pattern":"a"},{"pattern":"b"}]}`, `{"v":"c"}`,
		[]string{
			`FieldValueInvalid <nil>: Invalid value: "": "v" must validate at least one schema (anyOf)`,
			`FieldValueInvalid v: Invalid value: "c": v in body should match 'a'`,
		},
		[]string{
			`FieldValueInvalid v: Invalid value: "c": v in body must validate at least one schema (anyOf)`,
			`FieldValueInvalid v: Invalid value: "c": v in body should match 'a'`,
		},
	},
	{
		"allOf is no problem by itself (0007)",
		`{"type":"string","allOf":[{"pattern":"a"}]}`, `{"v":"c"}`,
		[]string{
			`FieldValueInvalid v: Invalid value: "c": v in body should match 'a'`,
			`FieldValueInvalid <nil>: Invalid value: "": "v" must validate all the schemas (allOf). None validated`,
		},
		[]string{`FieldValueInvalid v: Invalid value: "c": v in body should match 'a'`},
	},
	{
		"names with dots are in brackets (0007)",
		`{"type":"object","additionalProperties":{"type":"string"}}`, `{"v":{"a.b":1}}`,
		[]string{`FieldValueTypeInvalid v.a.b: Invalid value: "integer": v.a.b in body must be of type string: "integer"`},
		[]string{`FieldValueTypeInvalid v[a.b]: Invalid value: "integer": v[a.b] in body must be of type string: "integer"`},
	},
	{
		"lengths are measured in characters, and reported in characters (0007)",
		`{"type":"string","maxLength":1}`, `{"v":"ab"}`,
		[]string{`FieldValueTooLong v: Too long: may not be more than 1 byte`},
		[]string{`FieldValueTooLong v: Too long: may not be more than 1 character`},
	},
	{
		"a number that does not fit names its field",
		`{"type":"integer","format":"int32"}`, `{"v":2147483648}`,
		[]string{`FieldValueInvalid <nil>: Invalid value: "": Checked value must be of type integer with format int32 in v`},
		[]string{`FieldValueInvalid v: Invalid value: 2147483648: does not fit in 32 bits`},
	},
	{
		"a bound outside of the range of the type is no reason to refuse every value",
		`{"type":"integer","minimum":0.5}`, `{"v":1}`,
		[]string{`FieldValueInvalid <nil>: Invalid value: "": Minimum boundary value must be of type integer (default format) in v`},
		[]string{},
	},
	{
		"bounds are not truncated to integers",
		`{"type":"number","minimum":0.5}`, `{"v":0}`,
		[]string{},
		[]string{`FieldValueInvalid v: Invalid value: 0: v in body should be greater than or equal to 0.5`},
	},
	{
		"a list is not a text, whatever the format of the text is",
		`{"type":"string","format":"date"}`, `{"v":[]}`,
		[]string{},
		[]string{`FieldValueTypeInvalid v: Invalid value: "array": v in body must be of type string: "array"`},
	},
	{
		"beside a format, too, a value of a wrong type is reported with its type",
		`{"type":"string","format":"date"}`, `{"v":1}`,
		[]string{`FieldValueTypeInvalid v: Invalid value: "int64": v in body must be of type date: "int64"`},
		[]string{`FieldValueTypeInvalid v: Invalid value: "integer": v in body must be of type string: "integer"`},
	},
	{
		"numbers of addresses have no leading zeros, which some readers take for octal ones (0007)",
		`{"type":"string","format":"ipv4"}`, `{"v":"01.2.3.4"}`,
		[]string{},
		[]string{`FieldValueTypeInvalid v: Invalid value: "01.2.3.4": v in body must be of type ipv4: "01.2.3.4"`},
	},
	{
		"names in embedded metadata are reported in the words of package meta, as for all objects",
		`{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}`,
		`{"v":{"apiVersion":"v1","kind":"K","metadata":{"name":"a/b"}}}`,
		[]string{`FieldValueInvalid v.metadata.name: Invalid value: "a/b": may not contain '/'`},
		[]string{`FieldValueInvalid v.metadata.name: Invalid value: "a/b": must not contain '/'`},
	},
}

func TestIntended(t *testing.T) {
	for _, d := range differences {
		document := []byte(`{"type":"object","properties":{"v":` + d.schema + `}}`)
		theirs, problems, err := newKubernetes(document)
		require.NoError(t, err)
		require.Empty(t, problems, d.reason)
		ours, problems, err := newKindwright(document)
		require.NoError(t, err)
		require.Empty(t, problems, d.reason)
		their, err := theirs.conform([]byte(d.object))
		require.NoError(t, err)
		our, err := ours.conform([]byte(d.object))
		require.NoError(t, err)
		require.Equal(t, text(their), text(our), d.reason)
		require.ElementsMatch(t, d.theirs, causeTexts(theirs.create(their)), d.reason)
		require.ElementsMatch(t, d.ours, causeTexts(ours.create(our)), d.reason)
	}
}

// An update does not have to repair what it leaves as it was. Kubernetes does not see that a part is
// unchanged below a list that is replaced as a whole, nor if it has fields that the schema does not
// describe.
func TestIntended_Updates(t *testing.T) {
	document := []byte(`{"type":"object","properties":{"v":{"type":"object","minProperties":5,"x-kubernetes-preserve-unknown-fields":true}}}`)
	theirs, _, err := newKubernetes(document)
	require.NoError(t, err)
	ours, _, err := newKindwright(document)
	require.NoError(t, err)
	old, next := map[string]any{"v": map[string]any{"free": "x"}, "other": "a"}, map[string]any{"v": map[string]any{"free": "x"}, "other": "b"}
	ratcheted, others := theirs.update(next, old)
	require.Equal(t, []string{`FieldValueInvalid v: Invalid value: 1: v in body should have at least 5 properties`}, causeTexts(ratcheted))
	require.Empty(t, others)
	require.Empty(t, ours.update(next, old))
}

// A keyed list that has an item twice, in place of another, has changed, so all that is wrong with it is said. Kubernetes
// looks up each new item among the old ones and finds all of them.
func TestIntended_ItemsTwice(t *testing.T) {
	document := []byte(`{"type":"object","properties":{"v":{"type":"array","maxItems":1,"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],` +
		`"items":{"type":"object","required":["k"],"properties":{"k":{"type":"integer"}}}}}}`)
	theirs, _, err := newKubernetes(document)
	require.NoError(t, err)
	ours, _, err := newKindwright(document)
	require.NoError(t, err)
	list := func(keys ...int64) map[string]any {
		var items []any
		for _, k := range keys {
			items = append(items, map[string]any{"k": k})
		}
		return map[string]any{"v": items}
	}
	old, next := list(1, 2), list(1, 1)
	ratcheted, others := theirs.update(next, old)
	require.Empty(t, ratcheted)
	require.Equal(t, []string{`FieldValueDuplicate v[1]: Duplicate value: {"k":1}`}, causeTexts(others))
	require.Equal(t, []string{"FieldValueTooMany v: Too many: 2: must have at most 1 item", `FieldValueDuplicate v[1]: Duplicate value: {"k":1}`}, causeTexts(ours.update(next, old)))
}

// A default is judged as the same value in an object is. Kubernetes ignores formats in objects that are not for
// the type of a value, and not in defaults.
func TestIntended_Defaults(t *testing.T) {
	for _, format := range []string{"email", "double", "int32", "int64", "odd"} {
		schema := fmt.Sprintf(`{"type":"object","properties":{"v":{"x-kubernetes-int-or-string":true,"format":%q`, format)
		_, problems, err := newKubernetes([]byte(schema + `,"default":1}}}`))
		require.NoError(t, err)
		require.Len(t, problems, 1, format)
		require.True(t, refusedDefault(problems[0]), "%v", problems)
		_, problems, err = newKindwright([]byte(schema + `,"default":1}}}`))
		require.NoError(t, err)
		require.Empty(t, problems, format)
		theirs, _, err := newKubernetes([]byte(schema + `}}}`))
		require.NoError(t, err)
		require.Empty(t, theirs.create(map[string]any{"v": int64(1)}), format)
	}
}

func causeTexts(causes []cause) []string {
	out := make([]string, len(causes))
	for i, c := range causes {
		out[i] = c.String()
	}
	return out
}
