package openapi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/openapi"
)

// described reads a schema whose field v is described by a document.
func described(t *testing.T, v string) *openapi.Schema {
	t.Helper()
	s, errs := openapi.FromTree(tree(t, `{"type":"object","properties":{"v":`+v+`}}`))
	require.Empty(t, errs)
	return s
}

// conform returns what a write makes of an object.
func conform(t *testing.T, s *openapi.Schema, in string) map[string]any {
	t.Helper()
	out, _ := s.Prune(tree(t, in))
	out, _ = s.Canonical(out)
	return s.Default(out)
}

// Objects under schemas from documents become what they become in kube-apiserver. The module
// internal/crdoracle compares more of them.
//
// Source: CRD-08, CRD-09.
func TestDocument_Objects(t *testing.T) {
	const embedded = `{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}`
	for _, c := range []struct{ why, schema, in, want string }{
		{"additionalProperties: true keeps names", `{"type":"object","additionalProperties":true}`, `{"v":{"a":1,"b":{"c":1},"d":[{"e":1}],"f":null}}`, `{"v":{"a":1,"b":{},"d":[{}],"f":null}}`},
		{"objects in the place of others are pruned", `{"type":"string"}`, `{"v":{"a":1}}`, `{"v":{}}`},
		{"objects in lists, too", `{"type":"object","properties":{"a":{"type":"string"}}}`, `{"v":[{"a":1,"b":1}]}`, `{"v":[{}]}`},
		{"null without a type", `{"x-kubernetes-preserve-unknown-fields":true}`, `{"v":null}`, `{}`},
		{"null with a default in a map", `{"type":"object","additionalProperties":{"type":"string","default":"x"}}`, `{"v":{"a":null}}`, `{"v":{"a":"x"}}`},
		{"null with a default in a list", `{"type":"array","items":{"type":"string","default":"x"}}`, `{"v":[null]}`, `{"v":["x"]}`},
		{"nullable null stays", `{"type":"array","items":{"type":"string","default":"x","nullable":true}}`, `{"v":[null]}`, `{"v":[null]}`},
		{"large numbers keep their digits", `{"type":"number"}`, `{"v":9007199254740993}`, `{"v":9007199254740993}`},
		{
			"metadata of an embedded object is written as its struct writes it", embedded,
			`{"v":{"apiVersion":"v1","kind":"K","metadata":{"name":"","labels":{},"finalizers":[],"generation":0,"creationTimestamp":null,"odd":1,"uid":"u"}}}`,
			`{"v":{"apiVersion":"v1","kind":"K","metadata":{"uid":"u"}}}`,
		},
		{"metadata of a wrong type is left for the report", embedded, `{"v":{"metadata":{"labels":[],"name":{}}}}`, `{"v":{"metadata":{"labels":[],"name":{}}}}`},
	} {
		require.Equal(t, c.want, encode(t, conform(t, described(t, c.schema), c.in)), c.why)
	}
}

// Source: CRD-10, CRD-13.
func TestDocument_Problems(t *testing.T) {
	const keyed = `{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"}}}}`
	for _, c := range []struct {
		why, schema, in string
		want            []string
	}{
		{"a wrong type does not hide other problems", `{"type":"object","enum":[{}]}`, `{"v":"a"}`, []string{
			`v: Invalid value: "string": v in body must be of type object: "string"`, `v: Unsupported value: "a": supported values: "{}"`,
		}},
		{"no enum has null", `{"type":"string","nullable":true,"enum":["a",null]}`, `{"v":null}`, []string{`v: Unsupported value: null: supported values: "a", "null"`}},
		{"both types of int-or-string", `{"x-kubernetes-int-or-string":true}`, `{"v":true}`, []string{`v: Invalid value: "boolean": v in body must be of type integer,string: "boolean"`}},
		{"formats of texts are those of texts", `{"type":"integer","format":"uuid"}`, `{"v":"a"}`, []string{`v: Invalid value: "string": v in body must be of type integer: "string"`}},
		{"the third duplicate is not reported", `{"type":"array","x-kubernetes-list-type":"set","items":{"type":"boolean"}}`, `{"v":[true,true,true]}`, []string{`v[1]: Duplicate value: true`}},
		{"items that are no objects", keyed, `{"v":["a","a"]}`, []string{
			`v[0]: Invalid value: "string": v[0] in body must be of type object: "string"`, `v[1]: Invalid value: "string": v[1] in body must be of type object: "string"`,
			`v[0]: Invalid value: "a": must be an object for an array of list-type map`,
		}},
		{"a text that is too short is not matched", `{"type":"string","minLength":2,"pattern":"b"}`, `{"v":"a"}`, []string{`v: Invalid value: "a": v in body should be at least 2 chars long`}},
	} {
		require.Equal(t, c.want, texts(described(t, c.schema).Validate(tree(t, c.in))), c.why)
	}
}

// Definitions in use repeat large classes of characters.
func TestDocument_PatternOfLargeClasses(t *testing.T) {
	s := described(t, `{"type":"string","pattern":"^([a-z0-9\\p{S}\\p{L}]((-?[a-z0-9\\p{S}\\p{L}]{0,62})?)|([a-z0-9\\p{S}\\p{L}]([a-z0-9\\p{S}\\p{L}-]{0,61}\\.)?){1,3}[a-z\\p{L}]{2,63})$"}`)
	require.Empty(t, s.Validate(tree(t, `{"v":"münchen.de"}`)))
	require.Len(t, s.Validate(tree(t, `{"v":"."}`)), 1)
}

// Unchanged problems do not block an update. The rules of embedded objects do, and lists with
// duplicates are accepted if there were duplicates anywhere before.
//
// Source: CRD-12, CRD-13.
func TestDocument_Updates(t *testing.T) {
	s, errs := openapi.FromTree(tree(t, `{"type":"object","properties":{
		"a":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}, "b":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
		"o":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"size":{"type":"integer","minimum":1}}}, "v":{"type":"string"}}}`))
	require.Empty(t, errs)
	require.Empty(t, s.ValidateUpdate(tree(t, `{"a":["y","y"],"b":["x","x"]}`), tree(t, `{"a":["x","x"]}`)))
	require.Equal(t, []string{`b[1]: Duplicate value: "x"`}, texts(s.ValidateUpdate(tree(t, `{"b":["x","x"]}`), tree(t, `{"b":["x"]}`))))
	require.Equal(t, []string{`v: Invalid value: "integer": v in body must be of type string: "integer"`},
		texts(s.ValidateUpdate(tree(t, `{"b":["x","x"],"v":1}`), tree(t, `{"b":["y","y"]}`))))

	old := `{"o":{"apiVersion":"v1","metadata":{"generation":-1},"size":0}}`
	want := []string{`o.kind: Required value`, `o.metadata.generation: Invalid value: -1: must be greater than or equal to 0`}
	require.Equal(t, want, texts(s.ValidateUpdate(tree(t, old), tree(t, old))))
	require.Equal(t, want, texts(s.ValidateUpdate(tree(t, `{"o":{"apiVersion":"v2","metadata":{"generation":-1},"size":0}}`), tree(t, old))))
}

// What a document says of the unknown fields of a list is about those of its items, and not about what is
// known there: as in kube-apiserver, where scrapeConfigs of the OpenTelemetry operator are such a list.
//
// Source: CRD-08.
func TestPrune_ListsThatKeepUnknownFields(t *testing.T) {
	s, errs := openapi.FromTree(tree(t, `{"type":"object","properties":{
		"free":{"type":"array","x-kubernetes-preserve-unknown-fields":true,"items":{"type":"object","properties":{"known":{"type":"object"}}}},
		"lists":{"type":"array","x-kubernetes-preserve-unknown-fields":true,"items":{"type":"array","items":{"type":"object"}}},
		"maps":{"type":"array","x-kubernetes-preserve-unknown-fields":true,"items":{"type":"object","additionalProperties":{"type":"object"}}},
		"closed":{"type":"array","items":{"type":"object"}}}}`))
	require.Empty(t, errs)
	out, unknown := s.Prune(tree(t, `{"free":[{"a":{"b":1},"known":{"c":1}}],"lists":[[{"a":1}]],"maps":[{"a":{"b":1}}],"closed":[{"a":1}]}`))
	require.Equal(t, `{"closed":[{}],"free":[{"a":{"b":1},"known":{}}],"lists":[[{"a":1}]],"maps":[{"a":{}}]}`, encode(t, out))
	require.Equal(t, []string{"closed[0].a", "free[0].known.c", "maps[0].a.b"}, unknown)
}
