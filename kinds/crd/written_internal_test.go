package crd

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
)

// A schema that is said to be as written is as its Go type writes it, whatever its keywords are.
func TestSchemasAsWrittenAreAsTheirGoTypeWritesThem(t *testing.T) {
	random := rand.New(rand.NewPCG(15, 7))
	keywords := []string{"unknown", ""}
	for f := range reflect.TypeFor[JSONSchemaProps]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		keywords = append(keywords, name)
	}
	values := []any{
		nil, "", "x", "object", true, false, int64(0), int64(3), int64(1<<53 + 1), -2.5, 5.0, 1e300,
		[]any{},
		map[string]any{},
		[]any{nil},
		[]any{"a", "b"},
		[]any{int64(1)},
		[]any{map[string]any{}},
		map[string]any{"a": nil},
		map[string]any{"a": map[string]any{}},
		map[string]any{"url": "u"},
		[]any{map[string]any{"rule": "self", "message": "m", "optionalOldSelf": false}},
		[]any{map[string]any{"message": ""}},
		[]any{map[string]any{"rule": "", "reason": "", "fieldPath": ".a"}},
		[]any{map[string]any{"rule": "r", "unknown": "x"}},
	}
	var schema func(depth int) any
	schema = func(depth int) any {
		out := map[string]any{}
		for range random.IntN(3) {
			keyword, value := keywords[random.IntN(len(keywords))], values[random.IntN(len(values))]
			if depth > 0 && random.IntN(2) == 0 {
				below := schema(depth - 1)
				value = []any{below, []any{below}, map[string]any{"p": below}}[random.IntN(3)]
			}
			out[keyword] = value
		}
		return out
	}
	found := 0
	for range 200_000 {
		document := schema(2)
		if !isSchemaAsWritten(document) || len(document.(map[string]any)) == 0 {
			continue
		}
		found++
		var props JSONSchemaProps
		require.NoError(t, json.FromTree(document, &props), "%v", document)
		again, err := json.TreeOf(&props)
		require.NoError(t, err)
		require.True(t, json.Equal(document, again), "%v\n%v", document, again)
	}
	require.Greater(t, found, 5_000)
}
