package openapi_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/effort"
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
			"x-kubernetes-validations": [{"rule": "self.size > 0", "message": "m", "messageExpression": "e", "reason": "FieldValueForbidden", "fieldPath": ".size", "optionalOldSelf": true}]
		}
	}
}`

func TestFromTree(t *testing.T) {
	s, errs := openapi.FromTree(tree(t, structural))
	require.Empty(t, errs)
	require.Equal(t, []openapi.Rule{{Rule: "self.size > 0", Message: "m", MessageExpression: "e", Reason: "FieldValueForbidden", FieldPath: ".size", OptionalOldSelf: true}}, must(s.Lookup("spec")).Rules)
	require.Same(t, must(s.Lookup("metadata", "labels")), must(s.Lookup("metadata", "labels")))
	require.NotNil(t, must(s.Lookup("metadata", "uid")))
	require.NotNil(t, must(s.Lookup("spec", "object", "metadata", "uid")))

	in := tree(t, `{"apiVersion":"v1","metadata":{"name":"a","x":1},"spec":{"size":4.0,"ports":[{"port":53},{"port":53,"protocol":"UDP"}],"labels":{"a":null},
		"free":{"x":1},"open":{"x":{"y":1}},"shut":{"x":1},"target":80,"object":{"apiVersion":"v1","kind":"K","metadata":{"name":"b","bad":1},"x":1},"y":1}}`)
	canonical, errs := s.Canonical(in)
	require.Empty(t, errs)
	pruned, unknown := s.Prune(canonical)
	require.Equal(t, []string{"metadata.x", "spec.object.metadata.bad", "spec.open.x.y", "spec.shut.x", "spec.y"}, unknown)
	full := s.Default(pruned)
	require.Equal(t, `{"color":"blue","free":{"x":1},"labels":{"a":null},"object":{"apiVersion":"v1","kind":"K","metadata":{"name":"b"},"x":1},"open":{"x":{}},`+
		`"ports":[{"port":53,"protocol":"TCP"},{"port":53,"protocol":"UDP"}],"shut":{},"size":4,"target":80}`, encode(t, full["spec"]))
	require.Empty(t, s.Validate(full))
	require.Equal(t, []string{
		`spec: Invalid value: {"color":"blue","never":1}: spec in body must validate at least one schema (anyOf)`,
		`spec.color: Unsupported value: "blue": supported values: "red"`,
		`spec: Invalid value: {"color":"blue","never":1}: spec in body must not validate the schema (not)`,
	}, texts(s.Validate(tree(t, `{"spec":{"color":"blue","never":1}}`))))
}

// Each document of the file has exactly the problems that the file says.
func TestCRD_07_DocumentsLikeKubernetes(t *testing.T) {
	data, err := os.ReadFile("testdata/documents.txt")
	require.NoError(t, err)
	cases := strings.Split(string(data), "\n== ")[1:]
	require.Len(t, cases, 99)
	for _, c := range cases {
		lines := strings.Split(strings.TrimSpace(c), "\n")
		name, document, want := lines[0], lines[1], lines[2:]
		reader := openapi.TreeReader{Status: strings.HasSuffix(name, "(status)")}
		if stored, ok := strings.CutPrefix(strings.Join(want[:min(1, len(want))], ""), "stored "); ok {
			reader.Stored, want = openapi.Breaches(tree(t, stored)), want[1:]
		}
		s, errs := reader.Read(tree(t, document))
		require.ElementsMatch(t, want, texts(errs), name)
		require.Equal(t, len(errs) == 0, s != nil, name)
	}
}

// The position of the document comes before the position of each problem.
func TestTreeReader_Position(t *testing.T) {
	reader := openapi.TreeReader{Position: "spec.versions[1].schema.openAPIV3Schema"}
	_, errs := reader.Read(tree(t, `{"type":"object","anyOf":[{"properties":{"b":{"minLength":1}}}],"default":{"a":1}}`))
	require.Equal(t, []string{
		"spec.versions[1].schema.openAPIV3Schema.properties[b]: Required value: " +
			"because it is defined in spec.versions[1].schema.openAPIV3Schema.anyOf[0].properties[b]",
	}, texts(errs))
	_, errs = reader.Read(tree(t, `{"type":"object","$schema":"x"}`))
	require.Equal(t, []string{`spec.versions[1].schema.openAPIV3Schema: Invalid value: "": OpenAPIV3Schema 'schema' is not supported`}, texts(errs))
}

// Values that a keyword cannot have are reported, all of them, before anything else.
func TestFromTree_Types(t *testing.T) {
	wrap := func(field string) string { return `{"type":"object","properties":{"a":` + field + `}}` }
	for source, want := range map[string]string{
		wrap(`3`):                                                         `properties[a]: Invalid value: "integer": properties[a] in body must be of type object: "integer"`,
		wrap(`{"type":3}`):                                                `properties[a].type in body must be of type string: "integer"`,
		wrap(`{"type":"integer","minimum":"1"}`):                          `properties[a].minimum in body must be of type number: "string"`,
		wrap(`{"type":"string","maxLength":1.5}`):                         `properties[a].maxLength in body must be of type integer: "number"`,
		wrap(`{"type":"string","nullable":"yes"}`):                        `properties[a].nullable in body must be of type boolean`,
		wrap(`{"type":"string","enum":{}}`):                               `properties[a].enum in body must be of type array`,
		wrap(`{"type":"object","required":[1]}`):                          `properties[a].required[0] in body must be of type string`,
		wrap(`{"type":"object","properties":[]}`):                         `properties[a].properties in body must be of type object: "array"`,
		wrap(`{"type":"object","dependencies":1}`):                        `properties[a].dependencies in body must be of type object: "integer"`,
		wrap(`{"type":"object","additionalProperties":1}`):                `properties[a].additionalProperties in body must be of type object`,
		wrap(`{"type":"string","anyOf":{}}`):                              `properties[a].anyOf in body must be of type array`,
		wrap(`{"type":"string","allOf":[1]}`):                             `properties[a].allOf[0] in body must be of type object`,
		wrap(`{"type":"object","x-kubernetes-validations":[1]}`):          `must be of type object`,
		wrap(`{"type":"object","x-kubernetes-validations":[{"rule":1}]}`): `properties[a].x-kubernetes-validations[0].rule in body must be of type string`,
	} {
		s, errs := openapi.FromTree(tree(t, source))
		require.Nil(t, s, source)
		require.Len(t, errs, 1, source)
		require.Contains(t, errs[0].String(), want, source)
	}
}

// A definition that breaks a later rule may go on to do so, and only that rule.
func TestBreaches(t *testing.T) {
	wrap := func(field string) map[string]any { return tree(t, `{"type":"object","properties":{"a":`+field+`}}`) }
	documents := []map[string]any{
		wrap(`{"type":"strange"}`),
		wrap(`{"type":"object","default":{"unknown":1}}`),
		wrap(`{"type":"array","x-kubernetes-list-type":"set","items":{"type":"object"}}`),
		wrap(`{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string","nullable":true}}`),
	}
	require.Zero(t, openapi.Breaches(wrap(`{"type":"string"}`), nil))
	for i, stored := range documents {
		reader := openapi.TreeReader{Stored: openapi.Breaches(wrap(`{"type":"string"}`), stored)}
		for j, document := range documents {
			s, errs := reader.Read(document)
			require.Equal(t, i == j, len(errs) == 0, "%d %d %v", i, j, errs)
			require.Equal(t, i == j, s != nil)
		}
	}
	all := openapi.TreeReader{Stored: openapi.Breaches(documents...)}
	for _, document := range documents {
		_, errs := all.Read(document)
		require.Empty(t, errs)
	}
}

func TestUnknownFormats(t *testing.T) {
	require.Equal(t, []string{"x", "int32", "date", "y"}, openapi.UnknownFormats(tree(t, `{"type":"object","format":"x","properties":{
		"a":{"type":"string","format":"int32"},"b":{"type":"integer","format":"date"},"c":{"type":"integer","format":"int32"},
		"d":{"type":"string","format":"date-time"},"e":{"type":"string","format":"password"},"f":{"type":"number","format":"double"},
		"g":{"x-kubernetes-int-or-string":true,"anyOf":[{"format":"y"},{"format":"k8s-short-name"}]}}}`)))
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

// The keys of a list of objects may be fields that every object has.
func TestFromTree_ListsOfObjects(t *testing.T) {
	s, errs := openapi.FromTree(tree(t, `{"type":"object","properties":{"a":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["kind"],"items":{
		"type":"object","x-kubernetes-embedded-resource":true,"required":["kind"],"properties":{
			"kind":{"type":"string","enum":["A","B"]},"metadata":{"type":"object","properties":{"name":{"type":"string","default":"n"}}}}}}}}`))
	require.Empty(t, errs)
	full := s.Default(tree(t, `{"a":[{"kind":"A","apiVersion":"v1","metadata":{}}]}`))
	require.Equal(t, `{"a":[{"apiVersion":"v1","kind":"A","metadata":{"name":"n"}}]}`, encode(t, full))
	require.Empty(t, s.Validate(full))
	require.Len(t, s.Validate(tree(t, `{"a":[{"kind":"C","apiVersion":"v1","metadata":{}}]}`)), 1)
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
	patternsOf := func(n int, pattern string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"p%d":{"type":"string","pattern":"%s%d"},`, i, pattern, i)
		}
		return `{"type":"object","properties":{` + b.String() + `"z":{"type":"string"}}}`
	}
	patterns := func(n int) string { return patternsOf(n, "^[a-z]{1,99}") }
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
		"thousand levels": {strings.Repeat(`{"type":"object","properties":{"a":`, 400) + `{"type":"string"}` + strings.Repeat(`}}`, 400), "more than 100 levels deep"},
		"megabyte":        {properties(1, `{"type":"string","pattern":"`+strings.Repeat("a", 1<<20)+`"}`), "longer than 4096 bytes"},
		"case folding":    {patternsOf(300, `(?i)`+strings.Repeat(`\\pL`, 1000)), "patterns of the schema together are too large"},
		"many problems":   {properties(50_000, `{}`), "only the first 999 are listed"},
		"work":            {properties(1, `{"type":"array","default":[`+strings.Repeat(`"x",`, 3000)+`"x"],"items":{"type":"string"},"allOf":[`+strings.Repeat(`{"items":{"minLength":1}},`, 900)+`{}]}`), "too much work"},
		"branches":        {properties(1, `{"type":"string","anyOf":[`+strings.Repeat(`{"minLength":1},`, 1500)+`{}]}`), "more than 1000 branches"},
	} {
		o := json.TreeOptions{MaxDepth: 5000}
		v, err := json.DecodeTree([]byte(c.source), o)
		require.NoError(t, err)
		_, errs := openapi.FromTree(v.(map[string]any))
		require.NotEmpty(t, errs, name)
		require.Contains(t, strings.Join(texts(errs), "; "), c.want, name)
	}
}

// Programs write null for the time of a creation that has not been. In a default, that is no text of a wrong type,
// wherever the embedded object is and whether or not its metadata is described.
func TestFromTree_NullInTheMetadataOfDefaults(t *testing.T) {
	const object = `{"apiVersion":"v1","kind":"Thing","metadata":{"creationTimestamp":null,"name":"a"}}`
	for _, described := range []string{"", `,"properties":{"metadata":{"type":"object"}}`} {
		embedded := `"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true` + described
		for _, schema := range []string{
			`{` + embedded + `,"default":` + object + `}`,
			`{"type":"object","default":{"x":` + object + `},"properties":{"x":{` + embedded + `}}}`,
			`{"type":"array","default":[` + object + `],"items":{` + embedded + `}}`,
		} {
			s, problems := openapi.FromTree(tree(t, `{"type":"object","properties":{"v":`+schema+`}}`))
			require.Empty(t, problems, schema)
			require.Empty(t, s.Validate(s.Default(tree(t, `{}`))), schema)
		}
		_, problems := openapi.FromTree(tree(t, `{"type":"object","properties":{"v":{`+embedded+`,"default":{"apiVersion":"v1","kind":"Thing","metadata":{"name":1}}}}}`))
		require.NotEmpty(t, problems)
	}
}

// A document of small nodes takes what its nodes take, and nothing besides for each.
func TestCRD_07_SmallNodes(t *testing.T) {
	const nodes = 900
	branches := make([]any, nodes)
	for i := range branches {
		branches[i] = map[string]any{"maximum": int64(i)}
	}
	document := map[string]any{"type": "object", "allOf": branches}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, problems := openapi.FromTree(document)
	runtime.ReadMemStats(&after)
	require.Empty(t, problems)
	limit := uint64(1_200)
	if effort.Raced { // pools lose what they keep
		limit += limit / 4
	}
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/nodes, limit, "bytes for each node")
}
