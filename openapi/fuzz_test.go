package openapi_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/protowire"
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
	require.Empty(t, s.ValidateUpdate(full, json.Clone(full).(map[string]any)), "what does not change is not refused")
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

// There are few names, so that schemas and objects share them.
var names = rapid.SampledFrom([]string{"a", "b", "c", "name", "metadata", "kind"})

// scalars of all types, shared by rules and objects.
var scalars = rapid.OneOf(
	rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }), rapid.Map(rapid.Int64Range(-3, 3), func(i int64) any { return i }),
	rapid.Map(rapid.SampledFrom([]float64{0.5, 1.5, 2, 1e18, 1e19, -0.1}), func(f float64) any { return f }),
	rapid.Map(rapid.SampledFrom([]string{"", "a", "bb", "1h", "YWI=", "10.0.0.1", "ü", "2020-01-01T00:00:00+01:00"}), func(s string) any { return s }),
)

// trees draws values of any type.
func trees(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		if depth == 0 || rapid.IntRange(0, 3).Draw(t, "leaf") == 0 {
			return scalars.Draw(t, "scalar")
		}
		if rapid.Bool().Draw(t, "list") {
			return rapid.SliceOfN(trees(depth-1), 0, 3).Draw(t, "items")
		}
		return rapid.MapOfN(names, trees(depth-1), 0, 4).Draw(t, "members")
	})
}

// rules adds keywords that are allowed both in the structure and in conditions.
func rules(t *rapid.T, out map[string]any, depth int) {
	count := rapid.Map(rapid.Int64Range(0, 3), func(i int64) any { return i })
	bound := rapid.Map(rapid.Int64Range(-2, 3), func(i int64) any { return i })
	for name, value := range map[string]*rapid.Generator[any]{
		"minimum": bound, "maximum": bound, "minLength": count, "maxLength": count, "minItems": count, "maxItems": count,
		"minProperties": count, "maxProperties": count, "multipleOf": rapid.Just[any](0.5),
		"exclusiveMinimum": rapid.Just[any](true), "pattern": rapid.Just[any]("^[a-z]*$"),
		"format":   rapid.Map(rapid.SampledFrom([]string{"int32", "float", "duration", "ipv4", "byte", "date-time"}), func(s string) any { return s }),
		"required": rapid.Map(names, func(s string) any { return []any{s} }),
		"enum":     rapid.Map(rapid.SliceOfN(scalars, 1, 3), func(l []any) any { return l }),
	} {
		if rapid.IntRange(0, 9).Draw(t, name) == 0 {
			out[name] = value.Draw(t, "value")
		}
	}
	if depth == 0 {
		return
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf", "not"} {
		if rapid.IntRange(0, 9).Draw(t, keyword) > 0 {
			continue
		}
		branch := map[string]any{}
		rules(t, branch, depth-1)
		if properties, ok := out["properties"].(map[string]any); ok && rapid.Bool().Draw(t, "fields") {
			within := map[string]any{}
			for name := range properties {
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
func definitions(t *rapid.T, depth int) map[string]any {
	kinds := []string{"string", "integer", "number", "boolean", "any", "int-or-string"}
	if depth > 0 {
		kinds = append(kinds, "object", "object", "object", "map", "array", "array", "keyed", "embedded")
	}
	out := map[string]any{}
	properties := func() map[string]any {
		fields := map[string]any{}
		for _, name := range rapid.SliceOfNDistinct(names, 1, 4, rapid.ID).Draw(t, "fields") {
			fields[name] = definitions(t, depth-1)
		}
		return fields
	}
	switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
	case "any":
		out["x-kubernetes-preserve-unknown-fields"] = true
	case "int-or-string":
		out["x-kubernetes-int-or-string"] = true
	case "object":
		out["type"], out["properties"] = "object", properties()
		if rapid.Bool().Draw(t, "preserve") {
			out["x-kubernetes-preserve-unknown-fields"] = true
		}
	case "map":
		out["type"], out["additionalProperties"] = "object", definitions(t, depth-1)
	case "embedded":
		out["type"], out["x-kubernetes-embedded-resource"], out["x-kubernetes-preserve-unknown-fields"] = "object", true, true
	case "array":
		out["type"], out["items"] = "array", definitions(t, depth-1)
		out["x-kubernetes-list-type"] = rapid.SampledFrom([]string{"atomic", "set"}).Draw(t, "list")
	case "keyed":
		item := map[string]any{"type": "object", "properties": properties(), "required": []any{"name"}}
		item["properties"].(map[string]any)["name"] = map[string]any{"type": rapid.SampledFrom([]string{"string", "integer"}).Draw(t, "key")}
		out["type"], out["items"], out["x-kubernetes-list-type"], out["x-kubernetes-list-map-keys"] = "array", item, "map", []any{"name"}
	default:
		out["type"] = kind
	}
	if rapid.IntRange(0, 4).Draw(t, "default") == 0 {
		out["default"] = trees(depth).Draw(t, "value")
	}
	if rapid.IntRange(0, 4).Draw(t, "nullable") == 0 {
		out["nullable"] = true
	}
	rules(t, out, min(depth, 1))
	return out
}

// laws draws a schema and objects and checks the properties.
func laws(t *rapid.T) {
	fields := map[string]any{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 3, rapid.ID).Draw(t, "fields") {
		one := map[string]any{"type": "object", "properties": map[string]any{name: definitions(t, 3)}}
		if _, errs := openapi.FromTree(one); len(errs) == 0 {
			fields[name] = one["properties"].(map[string]any)[name]
		}
	}
	s, errs := openapi.FromTree(map[string]any{"type": "object", "properties": fields})
	require.Empty(t, errs, "each of them was fine")
	object := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "x"}), trees(4), 0, 4)
	requireLaws(t, s, object.Draw(t, "object"), object.Draw(t, "old"))
}

func TestSchemas_Laws(t *testing.T) { rapid.Check(t, laws) }

// FuzzSchemas is the same test guided by coverage.
func FuzzSchemas(f *testing.F) {
	f.Add([]byte("a schema and an object"))
	f.Fuzz(rapid.MakeFuzz(laws))
}
