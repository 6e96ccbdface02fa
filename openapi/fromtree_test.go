package openapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/openapi"
)

const structural = `{
	"type": "object", "description": "A widget.", "required": ["spec"],
	"properties": {
		"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
		"spec": {
			"type": "object",
			"properties": {
				"size": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 9, "exclusiveMaximum": true, "multipleOf": 2},
				"color": {"type": "string", "enum": ["red", "blue"], "default": "blue", "minLength": 1, "maxLength": 9, "pattern": "^[a-z]+$"},
				"ports": {"type": "array", "minItems": 0, "maxItems": 3, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
					"items": {"type": "object", "required": ["port"], "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}}}},
				"labels": {"type": "object", "additionalProperties": {"type": "string", "nullable": true}, "maxProperties": 5, "minProperties": 0, "x-kubernetes-map-type": "atomic"},
				"free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
				"open": {"type": "object", "additionalProperties": true},
				"shut": {"type": "object", "additionalProperties": false},
				"target": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
				"object": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
				"ratio": {"type": "number", "x-something": {"of": "others"}, "title": "ignored"}
			},
			"anyOf": [{"required": ["size"]}, {"properties": {"color": {"enum": ["red"]}}, "required": ["color"]}],
			"not": {"required": ["never"]},
			"x-kubernetes-validations": [{"rule": "self.size > 0", "message": "m", "messageExpression": "e", "reason": "r", "fieldPath": ".size", "optionalOldSelf": true}]
		}
	}
}`

func TestFromTree(t *testing.T) {
	s, errs := openapi.FromTree(tree(t, structural))
	require.Empty(t, errs)
	require.Equal(t, []openapi.Rule{{Rule: "self.size > 0", Message: "m", MessageExpression: "e", Reason: "r", FieldPath: ".size", OptionalOldSelf: true}}, must(s.Lookup("spec")).Rules)
	require.Same(t, must(s.Lookup("metadata", "labels")), must(s.Lookup("metadata", "labels")))
	require.NotNil(t, must(s.Lookup("metadata", "uid")))
	require.NotNil(t, must(s.Lookup("spec", "object", "metadata", "uid")))

	in := tree(t, `{"apiVersion":"v1","metadata":{"name":"a","x":1},"spec":{"size":4.0,"ports":[{"port":53},{"port":53,"protocol":"UDP"}],"labels":{"a":null},
		"free":{"x":1},"open":{"x":{"y":1}},"shut":{"x":1},"target":80,"object":{"apiVersion":"v1","kind":"K","metadata":{"name":"b","bad":1},"x":1},"y":1}}`)
	canonical, errs := s.Canonical(in)
	require.Empty(t, errs)
	pruned, unknown := s.Prune(canonical)
	require.Equal(t, []string{"metadata.x", "spec.object.metadata.bad", "spec.shut.x", "spec.y"}, unknown)
	full := s.Default(pruned)
	require.Equal(t, `{"color":"blue","free":{"x":1},"labels":{"a":null},"object":{"apiVersion":"v1","kind":"K","metadata":{"name":"b"},"x":1},"open":{"x":{"y":1}},`+
		`"ports":[{"port":53,"protocol":"TCP"},{"port":53,"protocol":"UDP"}],"shut":{},"size":4,"target":80}`, encode(t, full["spec"]))
	require.Empty(t, s.Validate(full))
	require.Equal(t, []string{
		`spec: Invalid value: {"color":"blue","never":1}: spec in body must validate at least one schema (anyOf)`,
		`spec: Invalid value: {"color":"blue","never":1}: spec in body must not validate the schema (not)`,
	}, texts(s.Validate(tree(t, `{"spec":{"color":"blue","never":1}}`))))
}

func TestFromTree_Problems(t *testing.T) {
	wrap := func(field string) string { return `{"type":"object","properties":{"a":` + field + `}}` }
	for source, want := range map[string]string{
		`{}`: `type: Invalid value: "": must be object at the root`,
		`{"type":"array","items":{"type":"string"}}`: `must be object at the root`,
		wrap(`3`):                              `properties.a: Invalid value: "integer": properties.a in body must be of type object: "integer"`,
		wrap(`{}`):                             `properties.a.type: Required value: must be set for each node`,
		wrap(`{"type":"strange"}`):             `properties.a.type: Invalid value: "strange": unknown type`,
		wrap(`{"type":3}`):                     `properties.a.type in body must be of type string: "integer"`,
		wrap(`{"$ref":"#/x","type":"string"}`): `properties.a.$ref: Forbidden: this keyword is not allowed in a structural schema`,
		wrap(`{"type":"object","patternProperties":{}}`):                                   `properties.a.patternProperties: Forbidden`,
		wrap(`{"type":"object","definitions":{}}`):                                         `Forbidden`,
		wrap(`{"type":"array"}`):                                                           `properties.a.items: Required value`,
		wrap(`{"type":"array","uniqueItems":true,"items":{"type":"string"}}`):              `properties.a.uniqueItems: Forbidden: comparing all items`,
		wrap(`{"type":"object","properties":{},"additionalProperties":{"type":"string"}}`): `properties.a.additionalProperties: Forbidden: must not be combined with properties`,
		wrap(`{"type":"string","x-kubernetes-int-or-string":true}`):                        `properties.a.type: Forbidden`,
		wrap(`{"type":"string","x-kubernetes-embedded-resource":true}`):                    `can only be set on objects`,
		wrap(`{"type":"string","pattern":"("}`):                                            `properties.a.pattern: Invalid value: "(": missing closing )`,
		wrap(`{"type":"integer","default":"x"}`):                                           `properties.a.default: Invalid value: "x"`,
		wrap(`{"type":"integer","minimum":"1"}`):                                           `properties.a.minimum in body must be of type number: "string"`,
		wrap(`{"type":"integer","minimum":3,"maximum":1}`):                                 `properties.a.minimum: Invalid value: 3: must not be above maximum 1`,
		wrap(`{"type":"string","maxLength":1.5}`):                                          `properties.a.maxLength in body must be of type integer: "number"`,
		wrap(`{"type":"string","nullable":"yes"}`):                                         `properties.a.nullable in body must be of type boolean`,
		wrap(`{"type":"string","enum":{}}`):                                                `properties.a.enum in body must be of type array`,
		wrap(`{"type":"string","enum":[1]}`):                                               `properties.a.enum: Invalid value: 1: must be of type string`,
		wrap(`{"type":"object","required":[1]}`):                                           `properties.a.required[0] in body must be of type string`,
		wrap(`{"type":"object","properties":[]}`):                                          `properties.a.properties in body must be of type object: "array"`,
		wrap(`{"type":"object","additionalProperties":1}`):                                 `properties.a.additionalProperties in body must be of type object`,
		wrap(`{"type":"string","anyOf":{}}`):                                               `properties.a.anyOf in body must be of type array`,
		wrap(`{"type":"string","allOf":[1]}`):                                              `properties.a.allOf[0] in body must be of type object`,
		wrap(`{"type":"object","x-kubernetes-validations":[1]}`):                           `must be of type object`,
		wrap(`{"type":"object","x-kubernetes-map-type":"x"}`):                              `properties.a.x-kubernetes-map-type: Invalid value: "x"`,
	} {
		s, errs := openapi.FromTree(tree(t, source))
		require.Nil(t, s, source)
		require.Contains(t, strings.Join(texts(errs), "; "), want, source)
	}
	_, errs := openapi.FromTree(tree(t, `{"type":"object","properties":{"a":{},"b":{"type":1},"c":{"$ref":"x"}}}`))
	require.Len(t, errs, 5, "all of them: %v", errs)
}

// Conditions cannot add fields, embedded objects have fixed fields, and metadata is the same for
// every kind.
func TestFromTree_StructuralRules(t *testing.T) {
	wrap := func(field string) string { return `{"type":"object","properties":{"a":` + field + `}}` }
	for _, c := range []struct{ source, want string }{
		{wrap(`{"type":"string","x-kubernetes-preserve-unknown-fields":false}`), `properties.a.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or omitted`},
		{wrap(`{"x-kubernetes-int-or-string":true,"x-kubernetes-preserve-unknown-fields":true}`), `properties.a.x-kubernetes-preserve-unknown-fields: Invalid value: true: must not be combined`},
		{wrap(`{"type":"object","x-kubernetes-embedded-resource":true}`), `properties.a.properties: Required value`},
		{wrap(`{"type":"object","x-kubernetes-embedded-resource":true,"additionalProperties":{"type":"string"}}`), `properties.a.additionalProperties: Forbidden: must not be set on the root or on an embedded object`},
		{`{"type":"object","additionalProperties":true}`, `additionalProperties: Forbidden: must not be set on the root or on an embedded object`},
		{wrap(`{"type":"string","anyOf":[{"type":"string"}]}`), `properties.a.anyOf[0].type: Forbidden: must not be used below`},
		{wrap(`{"type":"string","not":{"allOf":[{"default":"x"}]}}`), `properties.a.not.allOf[0].default: Forbidden`},
		{wrap(`{"type":"object","oneOf":[{"additionalProperties":{"type":"string"}}]}`), `properties.a.oneOf[0].additionalProperties: Forbidden`},
		{wrap(`{"type":"object","oneOf":[{"x-kubernetes-validations":[]}]}`), `properties.a.oneOf[0].x-kubernetes-validations: Forbidden`},
		{wrap(`{"type":"object","allOf":[{"properties":{"b":{"minLength":1}}}]}`), `properties.a.allOf[0].properties.b: Forbidden: the structure does not have this field`},
		{wrap(`{"type":"object","properties":{"b":{"type":"string"}},"allOf":[{"anyOf":[{"properties":{"b":{"properties":{"c":{}}}}}]}]}`), `properties.a.allOf[0].anyOf[0].properties.b.properties.c: Forbidden`},
		{wrap(`{"type":"object","not":{"items":{}}}`), `properties.a.not.items: Forbidden: the structure does not describe items here`},
		{`{"type":"object","properties":{"metadata":{"type":"string"}}}`, `properties.metadata.type: Invalid value: "string": must be object`},
		{`{"type":"object","properties":{"metadata":{"type":"object","properties":{"labels":{"type":"object"}}}}}`, `properties.metadata.properties: Forbidden`},
		{`{"type":"object","properties":{"metadata":{"type":"object","properties":{"name":{"type":"integer"}}}}}`, `properties.metadata.properties: Invalid value: "name": must be of type string`},
		{wrap(`{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k","k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"}}}}`), `duplicate key`},
	} {
		s, errs := openapi.FromTree(tree(t, c.source))
		require.Nil(t, s, c.source)
		require.Contains(t, strings.Join(texts(errs), "; "), c.want, c.source)
	}
}

// The redundant anyOf of integer and string is ignored; keywords next to it are kept.
func TestFromTree_IntOrString(t *testing.T) {
	const types = `[{"type":"integer"},{"type":"string"}]`
	for source, want := range map[string][]string{
		`{"x-kubernetes-int-or-string":true}`:                                                                         {"80", "x"},
		`{"x-kubernetes-int-or-string":true,"anyOf":` + types + `}`:                                                   {"80", "x"},
		`{"x-kubernetes-int-or-string":true,"allOf":[{"anyOf":` + types + `},{"maximum":9}]}`:                         {"x"},
		`{"x-kubernetes-int-or-string":true,"allOf":[{"anyOf":` + types + `,"pattern":"y"}],"anyOf":[{"minimum":1}]}`: {"80"},
	} {
		s, errs := openapi.FromTree(tree(t, `{"type":"object","properties":{"v":`+source+`}}`))
		require.Empty(t, errs, source)
		var good []string
		for text, v := range map[string]any{"80": int64(80), "x": "x"} {
			if len(s.Validate(map[string]any{"v": v})) == 0 {
				good = append(good, text)
			}
		}
		require.ElementsMatch(t, want, good, source)
	}
}

func TestFromTree_RestrictsNames(t *testing.T) {
	s, errs := openapi.FromTree(tree(t, `{"type":"object","properties":{"metadata":{"type":"object","properties":{"name":{"type":"string","maxLength":3}}}}}`))
	require.Empty(t, errs)
	require.Equal(t, []string{"metadata.name: Too long: may not be more than 3 characters"}, texts(s.Validate(tree(t, `{"metadata":{"name":"abcd","labels":{"a":"b"}}}`))))
	plain, errs := openapi.FromTree(tree(t, `{"type":"object"}`))
	require.Empty(t, errs)
	require.Equal(t, plain.Fingerprint(), s.Fingerprint(), "a rule changes nothing about what is stored")
	require.NotNil(t, must(s.Lookup("metadata", "uid")))
}

// Schemas that are designed to be expensive are rejected, or turn out to be cheap.
func TestFromTree_C5_Bombs(t *testing.T) {
	properties := func(n int, of string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"p%d":%s,`, i, of)
		}
		return `{"type":"object","properties":{` + b.String() + `"z":{"type":"string"}}}`
	}
	wide := properties(50_000, `{"type":"string"}`)
	conditions := `{"type":"object","properties":{"a":` + wide[:len(wide)-1] + `,"anyOf":[` + strings.ReplaceAll(wide, `"type":"string"`, `"minLength":1`) + `]}}}`
	conditions = strings.Replace(conditions, `"anyOf":[{"type":"object",`, `"anyOf":[{`, 1)
	keys := `"k` + strings.Repeat(`","k`, 30_000) + `"`
	patterns := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"p%d":{"type":"string","pattern":"^[a-z]{1,99}%d$"},`, i, i)
		}
		return `{"type":"object","properties":{` + b.String() + `"z":{"type":"string"}}}`
	}
	enum := func(n int) string { return `{"type":"string","enum":["` + strings.Repeat(`x","`, n) + `y"]}` }
	deep := strings.Repeat(`{"type":"object","properties":{"a":`, 150) + `{"type":"string"}` + strings.Repeat(`}}`, 150)
	for name, c := range map[string]struct{ source, want string }{
		"many properties": {properties(100_001, `{"type":"string"}`), "more than 100000 nodes"},
		"deep":            {deep, "more than 100 levels deep"},
		"patterns":        {properties(1, `{"type":"string","pattern":"(a{1000}){1000}"}`), "pattern"},
		"long pattern":    {properties(1, `{"type":"string","pattern":"`+strings.Repeat("a", 5000)+`"}`), "longer than 4096 bytes"},
		"all patterns":    {patterns(4000), "patterns of the schema together are too large"},
		"all defaults":    {properties(100, `{"type":"array","default":[`+strings.Repeat(`{},`, 500)+`{}],"items":{"type":"object","properties":{"a":{"type":"string","default":"`+strings.Repeat("x", 500)+`"}}}}`), "defaults of the schema together are too large"},
		"conditions":      {conditions, "more than 100000 nodes"},
		"keys":            {properties(1, `{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":[`+keys+`],"items":{"type":"object","required":[`+keys+`],"properties":{"k":{"type":"string"}}}}`), "at most 100 keys"},
		"enum":            {properties(1, enum(20_000)), "at most 10000 values"},
		"branches":        {properties(1, `{"type":"string","anyOf":[`+strings.Repeat(`{"minLength":1},`, 1500)+`{}]}`), "more than 1000 branches"},
	} {
		o := json.TreeOptions{MaxDepth: 1000}
		v, err := json.DecodeTree([]byte(c.source), o)
		require.NoError(t, err)
		_, errs := openapi.FromTree(v.(map[string]any))
		require.NotEmpty(t, errs, name)
		require.Contains(t, strings.Join(texts(errs), "; "), c.want, name)
	}
}
