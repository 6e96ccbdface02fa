package openapi_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/protowire"
	"github.com/kindwright/kindwright/internal/random"
	"github.com/kindwright/kindwright/openapi"
)

// FuzzFromTree reads arbitrary bytes as a schema document and as an object.
func FuzzFromTree(f *testing.F) {
	f.Add([]byte(structural), []byte(`{"spec":{"size":4,"ports":[{"port":1}]}}`), []byte(`{"spec":{"size":40}}`))
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":"array","items":{"type":"number","format":"float"}}}}`), []byte(`{"a":[1.5,null,"x"]}`), []byte(`{}`))
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":"object","additionalProperties":{"type":"string","default":"x","nullable":true}}}}`), []byte(`{"a":{"b":null}}`), []byte(`{"a":{}}`))
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"v":{"type":"integer","maximum":1}}}}}}`),
		[]byte(`{"a":[{"k":"x","v":2},{"k":"x"},{"v":3}]}`), []byte(`{"a":[{"k":"x","v":2}]}`))
	f.Add([]byte(`{"type":"object","properties":{"o":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true},"p":{"x-kubernetes-int-or-string":true,"allOf":[{"anyOf":[{"type":"integer"},{"type":"string"}]},{"not":{"maximum":3}}]}}}`),
		[]byte(`{"o":{"kind":"","metadata":{"name":"/","labels":{" ":" "}}},"p":2}`), []byte(`{"o":null}`))
	f.Add([]byte(`{"type":"object","properties":{"metadata":{"type":"object","properties":{"name":{"type":"string","pattern":"^a"}}}}}`), []byte(`{"metadata":{"name":"b"}}`), []byte(`{}`))
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":"object","additionalProperties":{"type":"object","properties":{"x":{"type":"object","default":{"u":1,"v":"s"},"properties":{"v":{"type":"integer"}}}}}},
		"e":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"kind":{"type":"string","default":"K"},"metadata":{"type":"object","default":{"name":"x"},"properties":{"labels":{"type":"object","default":{"a":"b"},"maxProperties":2}}}}}}}`),
		[]byte(`{"a":{"b":{},"c":{"x":null}},"e":{"metadata":{"labels":{"c":"d"}}}}`), []byte(`{"e":{}}`))
	f.Add([]byte(`{"type":"object","properties":{"kind":{"type":"string","enum":["A"]},"a":{"type":"string","x-kubernetes-int-or-string":true,"minimum":3,"maximum":1},"b":{"type":"integer","multipleOf":0,"enum":["x"]},"c":{"type":"object","properties":{"d":{"type":"string"}},"additionalProperties":true}}}`),
		[]byte(`{"kind":"B","a":2,"b":4,"c":{"d":"e","f":{"g":1}}}`), []byte(`{"b":0}`))
	for _, format := range openapi.Formats() {
		f.Add(fmt.Appendf(nil, `{"type":"object","properties":{"a":{"type":"string","format":%q}}}`, format), []byte(`{"a":"rgb(1,2,3) 978-0321751041"}`), []byte(`{}`))
	}
	decode := func(data []byte) map[string]any {
		v, err := json.DecodeTree(data, json.TreeOptions{Duplicates: func(string) {}})
		object, _ := v.(map[string]any)
		if err != nil {
			return nil
		}
		return object
	}
	f.Fuzz(func(t *testing.T, schema, object, earlier []byte) {
		definition, in, old := decode(schema), decode(object), decode(earlier)
		if definition == nil || in == nil {
			return
		}
		before := encode(t, definition)
		s, errs := openapi.FromTree(definition)
		require.Equal(t, before, encode(t, definition))
		require.Equal(t, s == nil, len(errs) > 0)
		if s != nil {
			requireLaws(t, s, in, old)
		}
	})
}

// requireLaws checks the properties that hold for every schema and every object.
func requireLaws(t require.TestingT, s *openapi.Schema, in, old map[string]any) {
	given := encode(t, in)
	canonical, _ := s.Canonical(in)
	pruned, _ := s.Prune(canonical)
	full := s.Default(pruned)
	require.Equal(t, given, encode(t, in), "nothing changes its argument")

	whole := encode(t, full)
	again, _ := s.Canonical(full)
	require.Equal(t, whole, encode(t, again), "canonical twice")
	again, unknown := s.Prune(full)
	require.Empty(t, unknown)
	require.Equal(t, whole, encode(t, again), "pruned twice")
	require.Equal(t, whole, encode(t, s.Default(full)), "defaulted twice")

	all := s.Validate(full)
	require.Equal(t, all, s.Validate(full), "the same report")
	require.LessOrEqual(t, len(all), 1000)
	for _, e := range s.ValidateUpdate(full, json.Clone(full).(map[string]any)) {
		require.Regexp(t, everyObject, e.Field, "what does not change is not refused, except in embedded objects")
	}
	if some := s.ValidateUpdate(full, old); len(all) < 1000 {
		for _, e := range some {
			require.Contains(t, all, e, "an update is refused for nothing that a creation is not refused for")
		}
	}

	published := openapi.Document{Version: "v1", Kinds: []openapi.KindDoc{{Kind: "K", Plural: "ks", Schema: s}}}
	_, err := published.JSON()
	require.NoError(t, err)
	message, err := openapi.Swagger{Documents: []openapi.Document{published}}.Protobuf()
	require.NoError(t, err)
	for len(message) > 0 {
		_, message, err = protowire.Next(message)
		require.NoError(t, err)
	}
}

// everyObject matches the fields that every object has, at any depth.
var everyObject = regexp.MustCompile(`(^|\.)(apiVersion|kind|metadata)\b`)

// There are few names, so that schemas and objects share them.
var names = random.SampledFrom([]string{"a", "b", "c", "name", "metadata", "kind"})

// scalars of all types, shared by rules and objects.
var scalars = random.OneOf(
	random.Just[any](nil), random.Bool().AsAny(), random.Range[int64](-3, 3).AsAny(),
	random.SampledFrom([]float64{0.5, 1.5, 2, 1e18, 1e19, -0.1}).AsAny(),
	random.SampledFrom([]string{"", "a", "bb", "1h", "YWI=", "10.0.0.1", "ü", "2020-01-01T00:00:00+01:00"}).AsAny(),
)

// trees draws values of any type.
func trees(depth int) random.Generator[any] {
	return random.Custom(func(t *random.T) any {
		if depth == 0 || random.Range(0, 3).Draw(t, "leaf") == 0 {
			return scalars.Draw(t, "scalar")
		}
		if random.Bool().Draw(t, "list") {
			return random.SliceOf(trees(depth-1), 0, 3).Draw(t, "items")
		}
		return random.MapOf(names, trees(depth-1), 4).Draw(t, "members")
	})
}

// rules adds keywords that are allowed both in the structure and in conditions.
func rules(t *random.T, out map[string]any, depth int) {
	count := random.Range[int64](0, 3).AsAny()
	bound := random.Range[int64](-2, 3).AsAny()
	keywords := map[string]random.Generator[any]{
		"minimum": bound, "maximum": bound, "minLength": count, "maxLength": count, "minItems": count, "maxItems": count,
		"minProperties": count, "maxProperties": count, "multipleOf": random.Just[any](0.5),
		"exclusiveMinimum": random.Just[any](true), "pattern": random.Just[any]("^[a-z]*$"),
		"format":   random.SampledFrom([]string{"int32", "float", "duration", "ipv4", "byte", "date-time"}).AsAny(),
		"required": random.Map(names, func(s string) any { return []any{s} }),
		"enum":     random.SliceOf(scalars, 1, 3).AsAny(),
	}
	for _, name := range slices.Sorted(maps.Keys(keywords)) { // the same draws in each run
		if random.Range(0, 9).Draw(t, name) == 0 {
			out[name] = keywords[name].Draw(t, "value")
		}
	}
	if depth == 0 {
		return
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf", "not"} {
		if random.Range(0, 9).Draw(t, keyword) > 0 {
			continue
		}
		branch := map[string]any{}
		rules(t, branch, depth-1)
		if properties, ok := out["properties"].(map[string]any); ok && random.Bool().Draw(t, "fields") {
			within := map[string]any{}
			for _, name := range slices.Sorted(maps.Keys(properties)) {
				inner := map[string]any{}
				rules(t, inner, 0)
				within[name] = inner
			}
			branch["properties"] = within
		}
		if out[keyword] = any([]any{branch}); keyword == "not" {
			out[keyword] = branch
		}
	}
}

// definitions draws structural schemas. Some are slightly invalid and are rejected.
func definitions(t *random.T, depth int) map[string]any {
	kinds := []string{"string", "integer", "number", "boolean", "any", "int-or-string"}
	if depth > 0 {
		kinds = append(kinds, "object", "object", "object", "map", "array", "array", "keyed", "embedded")
	}
	out := map[string]any{}
	properties := func() map[string]any {
		fields := map[string]any{}
		for _, name := range random.Distinct(names, 1, 4, random.ID).Draw(t, "fields") {
			fields[name] = definitions(t, depth-1)
		}
		return fields
	}
	switch kind := random.SampledFrom(kinds).Draw(t, "kind"); kind {
	case "any":
		out["x-kubernetes-preserve-unknown-fields"] = true
	case "int-or-string":
		out["x-kubernetes-int-or-string"] = true
	case "object":
		out["type"], out["properties"] = "object", properties()
		if random.Bool().Draw(t, "preserve") {
			out["x-kubernetes-preserve-unknown-fields"] = true
		}
	case "map":
		out["type"], out["additionalProperties"] = "object", definitions(t, depth-1)
	case "embedded":
		out["type"], out["x-kubernetes-embedded-resource"], out["x-kubernetes-preserve-unknown-fields"] = "object", true, true
	case "array":
		out["type"], out["items"] = "array", definitions(t, depth-1)
		out["x-kubernetes-list-type"] = random.SampledFrom([]string{"atomic", "set"}).Draw(t, "list")
	case "keyed":
		item := map[string]any{"type": "object", "properties": properties(), "required": []any{"name"}}
		item["properties"].(map[string]any)["name"] = map[string]any{"type": random.SampledFrom([]string{"string", "integer"}).Draw(t, "key")}
		out["type"], out["items"], out["x-kubernetes-list-type"], out["x-kubernetes-list-map-keys"] = "array", item, "map", []any{"name"}
	default:
		out["type"] = kind
	}
	if random.Range(0, 4).Draw(t, "default") == 0 {
		out["default"] = trees(depth).Draw(t, "value")
	}
	if random.Range(0, 4).Draw(t, "nullable") == 0 {
		out["nullable"] = true
	}
	rules(t, out, min(depth, 1))
	return out
}

// laws draws a schema and objects and checks the properties.
func laws(t *random.T) {
	fields := map[string]any{}
	for _, name := range random.Distinct(random.SampledFrom([]string{"a", "b", "c"}), 1, 3, random.ID).Draw(t, "fields") {
		one := map[string]any{"type": "object", "properties": map[string]any{name: definitions(t, 3)}}
		if _, errs := openapi.FromTree(one); len(errs) == 0 {
			fields[name] = one["properties"].(map[string]any)[name]
		}
	}
	s, errs := openapi.FromTree(map[string]any{"type": "object", "properties": fields})
	require.Empty(t, errs, "each of them was fine")
	object := random.MapOf(random.SampledFrom([]string{"a", "b", "c", "x"}), trees(4), 4)
	requireLaws(t, s, object.Draw(t, "object"), object.Draw(t, "old"))
}

func TestSchemas_Laws(t *testing.T) { random.Check(t, laws) }

// FuzzSchemas is the same test guided by coverage.
func FuzzSchemas(f *testing.F) {
	f.Add([]byte("a schema and an object"))
	f.Fuzz(random.Fuzz(laws))
}
