package cel_test

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/openapi"
)

// Whether a long expression is checked as a whole or in terms, its types, overloads and places are the same, and so
// is whether they can be told.
func TestLongExpressionsAreCheckedInTermsAsAWhole(t *testing.T) {
	schema, _, lines := answers(t)
	r := rand.New(rand.NewPCG(1, 16))
	byProblem := map[bool][]string{}
	for _, line := range lines {
		byProblem[line.Problem != ""] = append(byProblem[line.Problem != ""], line.Rule)
	}
	operators := strings.Fields("&& && && && || || || + - == != < <= > >= ?")
	var expression func(depth int) string
	expression = func(depth int) string {
		if depth == 0 {
			rules := byProblem[r.IntN(200) == 0]
			return "(" + rules[r.IntN(len(rules))] + ")"
		}
		a, b := expression(depth-1), expression(depth-1)
		switch operator := operators[r.IntN(len(operators))]; operator {
		case "?":
			return "(" + expression(0) + " ? " + a + " : " + b + ")"
		default:
			return "(" + a + " " + operator + " " + b + ")"
		}
	}
	var used, bad int
	for range effort.Of(500) {
		text := expression(1 + r.IntN(3))
		whole, terms, err := cel.CheckBothWays(schema, text)
		require.NoError(t, err)
		if whole == nil {
			bad++
			require.Nil(t, terms, text)
		}
		if terms != nil {
			used++
			require.Equal(t, whole, terms, text)
		}
	}
	require.Greater(t, used, effort.Of(50))
	require.Greater(t, bad, effort.Of(50))
}

func TestLongExpressionsTakeMemoryByTheirLength(t *testing.T) {
	takes := func(terms int) uint64 {
		rule := strings.Repeat("(self.a.size() > 0 ? self.a[0].size() : 0) + ", terms) + "0 < 100"
		schema, problems := openapi.FromTree(map[string]any{
			"type": "object", "properties": map[string]any{"a": map[string]any{
				"type": "array", "maxItems": int64(3), "items": map[string]any{"type": "string", "maxLength": int64(9)},
			}},
			"x-kubernetes-validations": []any{map[string]any{"rule": rule}},
		})
		require.Empty(t, problems)
		compile := func() {
			_, bad := cel.CompileRules(schema, cel.RuleOptions{Compiled: new(cel.Compiled)})
			require.Empty(t, bad)
		}
		compile() // the tables of the language
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		compile()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	require.Less(t, takes(32), takes(8)*5)
}
