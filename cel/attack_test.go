package cel_test

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/openapi"
)

// attacks are expressions whose cost the language sees too late or not at all.
func attacks() map[string]string {
	nests := "[[0]" + strings.Repeat(".map(x, dyn([x, x]))", 40) + "]"
	deep := "[[{'a':0}]" + strings.Repeat(".map(x, dyn({'a': x, 'b': x}))", 40) + "]"
	return map[string]string{
		"join":                     "size(lists.range(100000).map(i, object.data.big).join('')) > 0",
		"join with a separator":    "size(lists.range(100000).map(i, '').join(object.data.big)) > 0",
		"replace":                  "size(object.data.big.replace('x', object.data.big)) > 0",
		"many replacements":        "size(lists.range(5000).map(i, object.data.kilo.replace('x', object.data.ten))) > 0",
		"many copies":              "size(lists.range(90000).map(i, 'x'.replace('x', object.data.ten + string(i)))) > 0",
		"additions of the untyped": "size([object.data.big]" + strings.Repeat(".map(x, x + x)", 30) + ") > 0",
		"many additions":           "size(lists.range(100000).map(i, object.data.big + 'x')) > 0",
		"bytes":                    "size(lists.range(100000).map(i, bytes(object.data.big))) > 0",
		"precision":                "size(lists.range(50000).map(i, '%.100000e'.format([1.0]))) > 0",
		"format":                   "size('%s'.format(" + nests + ")) > 0",
		"formats":                  "size(lists.range(50000).map(i, '%s%s'.format([object.data.big, object.data.big]))) > 0",
		"pieces":                   "size(lists.range(1000).map(i, object.data.big.split(''))) > 0",
		"matches":                  "size(lists.range(1000).map(i, object.data.big.findAll('x'))) > 0",
		"ranges":                   "lists.range(100000).all(i, lists.range(100000).all(j, true))",
		"indexOf":                  nests + ".all(v, v.indexOf(1) == 0)",
		"sum":                      nests + ".all(v, v.sum() == 0)",
		"sets":                     nests + ".all(v, sets.contains([v], [v]))",
		"equivalent sets":          nests + ".all(v, sets.equivalent([v], [v]))",
		"large sets":               "sets.contains(lists.range(30000), lists.range(30000).map(i, i+40000))",
		"distinct":                 "size(lists.range(99000).distinct()) > 0",
		"distinct lists":           nests + ".all(v, size([v, v].distinct()) == 1)",
		"distinct objects":         "size(lists.range(700).map(i, object.data.many).distinct()) == 1",
		"sort":                     "size(lists.range(99000).sort()) > 0",
		"sortBy":                   "size(lists.range(30000).map(i, object.data.big).sortBy(x, x)) > 0",
		"flatten":                  nests + ".all(v, size([v].flatten(50)) == 1)",
		"optional":                 nests + ".all(v, optional.of(v) == optional.of(v))",
		"lists of optional":        nests + ".all(v, [optional.of(v)] == [optional.of(v)])",
		"maps":                     deep + ".all(v, v == v)",
		"compared objects":         "lists.range(100000).all(i, object == object)",
		"in":                       "object.data.many.all(x, x in object.data.many)",
		"patterns":                 "size(lists.range(1000).map(i, object.data.kilo.matches('(x{1,900}){1,1}' + string(i)))) > 0",
		"a long pattern":           "'x'.matches(object.data.alternatives)",
		"a long pattern in find":   "'x'.find(object.data.alternatives) == ''",
		"classes":                  "'x'.matches(object.data.classes)",
		"classes in find":          "'x'.find(object.data.classes) == ''",
		"classes in findAll":       "'x'.findAll(object.data.classes).size() == 0",
		"few classes":              `lists.range(10000).all(i, !'x'.matches(string(i) + object.data.few))`,
		"a pattern":                "lists.range(100).all(i, !object.data.kilo.matches('((x{30}){30}x{900}){1}y'))",
	}
}

// attackBytes is how much an attack may allocate. Package regexp keeps its machines in pools, which lose
// them under the race detector.
func attackBytes() uint64 {
	if effort.Raced {
		return 4 << 30
	}
	return 256 << 20
}

// TestCEL_22_C1_C2_ExpressionsThatTheLanguageMiscounts end with their budget, in about a second on a quiet machine,
// and allocate no more than some values of the largest size.
func TestCEL_22_C1_C2_ExpressionsThatTheLanguageMiscounts(t *testing.T) {
	many := make([]any, 50_000)
	for i := range many {
		many[i] = fmt.Sprint("item", i)
	}
	object := map[string]any{"data": map[string]any{
		"big": strings.Repeat("x", 1_000_000), "kilo": strings.Repeat("x", 1000), "ten": strings.Repeat("y", 10_000), "many": many,
		"classes": strings.Repeat(`\pL`, 300_000), "few": strings.Repeat(`\PL`, 200), "alternatives": strings.Repeat("a*|", 300_000),
	}}
	all := attacks()
	names := slices.Sorted(maps.Keys(all))
	for _, name := range names[:max(1, effort.Of(len(names)))] {
		text := all[name]
		t.Run(name, func(t *testing.T) {
			scope, err := cel.NewAdmission(cel.AdmissionOptions{Stored: true, Prices: cel.KubernetesPrices()})
			require.NoError(t, err)
			x, err := scope.Compile(text, false)
			require.NoError(t, err)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = scope.Run(cel.AdmissionInput{Object: object}, cel.BindingCostLimit).Evaluate(t.Context(), x)
			runtime.ReadMemStats(&after)
			require.ErrorContains(t, err, "cost", name)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, attackBytes())
		})
	}
}

// TestPOL_07_C1_VariablesShareTheBudget evaluates variables no longer when those before have used it up.
func TestPOL_07_C1_VariablesShareTheBudget(t *testing.T) {
	scope, err := cel.NewAdmission(cel.AdmissionOptions{Stored: true, Prices: cel.KubernetesPrices()})
	require.NoError(t, err)
	const variables = 200
	all := make([]string, variables)
	for i := range all {
		all[i] = fmt.Sprintf("variables.v%d", i)
		require.NoError(t, scope.Define(fmt.Sprintf("v%d", i), "lists.range(100000).all(x, x >= 0)"))
	}
	x, err := scope.Compile("["+strings.Join(all, ",")+"].all(x, x)", false)
	require.NoError(t, err)
	var read int
	in := cel.AdmissionInput{Request: func() map[string]any { read++; return map[string]any{} }}
	require.NoError(t, scope.Define("last", "request.name == ''"))
	_, err = scope.Run(in, 1_500_000).Evaluate(t.Context(), x)
	require.ErrorIs(t, err, cel.ErrBudget)
	y, err := scope.Compile("["+strings.Join(all, ",")+"].all(x, x) || variables.last", false)
	require.NoError(t, err)
	_, err = scope.Run(in, 1_500_000).Evaluate(t.Context(), y)
	require.ErrorIs(t, err, cel.ErrBudget)
	require.Zero(t, read, "a variable was evaluated without a budget")
}

// TestPOL_05_C2_TextsOfResults bounds what a mutation writes: a text that stands in many places is written in each.
func TestPOL_05_C2_TextsOfResults(t *testing.T) {
	scope, err := cel.NewAdmission(cel.AdmissionOptions{Stored: true, Prices: cel.KubernetesPrices()})
	require.NoError(t, err)
	object := map[string]any{"data": map[string]any{"big": strings.Repeat("x", 1_000_000)}}
	for text, result := range map[string]cel.Type{
		"Object{data: lists.range(100000).transformMapEntry(i, v, {string(i): object.data.big})}":             cel.Configuration(),
		"lists.range(50000).map(i, JSONPatch{op: 'add', path: '/data/' + string(i), value: object.data.big})": cel.Patches(),
	} {
		x, err := scope.Compile(text, false, result)
		require.NoError(t, err)
		_, err = scope.Run(cel.AdmissionInput{Object: object}, cel.BindingCostLimit).Evaluate(t.Context(), x)
		require.ErrorContains(t, err, "exceed", text)
	}
}

// TestCEL_11_C2_PatternsThatAreWrittenInAnExpression are refused before they are read.
func TestCEL_11_C2_PatternsThatAreWrittenInAnExpression(t *testing.T) {
	var before, after runtime.MemStats
	for _, call := range []string{"matches(r'%s')", "find(r'%s') == ''", "findAll(r'%s') == []"} {
		scope, err := cel.NewAdmission(cel.AdmissionOptions{Stored: true, Prices: cel.KubernetesPrices()})
		require.NoError(t, err)
		text := "'x'." + fmt.Sprintf(call, strings.Repeat(`\pL`, 30_000))
		runtime.ReadMemStats(&before)
		_, err = scope.Compile(text, false)
		runtime.ReadMemStats(&after)
		require.ErrorContains(t, err, "too many classes")
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64*len(text)+1<<20))
	}
}

// TestCEL_22_C3_CallsOfOneExpression are counted before their types are checked, which takes the square of them.
func TestCEL_22_C3_CallsOfOneExpression(t *testing.T) {
	text := "self.a != ''" + strings.Repeat(" && self.a != ''", 5000)
	of := func(rules ...any) map[string]any {
		return map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{
			"type": "object", "x-kubernetes-validations": rules, "properties": map[string]any{"a": map[string]any{"type": "string", "maxLength": int64(10)}},
		}}}
	}
	var many []any
	for i := range 20_000 {
		many = append(many, map[string]any{"rule": fmt.Sprint("true || ", i, " > 0")})
	}
	var before, after runtime.MemStats
	for _, schema := range []map[string]any{of(map[string]any{"rule": text}), of(many...)} {
		compiled, problems := openapi.FromTree(schema)
		require.Empty(t, problems)
		runtime.ReadMemStats(&before)
		_, problems = cel.CompileRules(compiled, cel.RuleOptions{})
		runtime.ReadMemStats(&after)
		require.Len(t, problems, 1)
		require.Contains(t, problems[0].Detail, "too")
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<30))
	}
	scope, err := cel.NewAdmission(cel.AdmissionOptions{Stored: true, Prices: cel.KubernetesPrices()})
	require.NoError(t, err)
	_, err = scope.Compile(strings.ReplaceAll(text, "self", "object"), false)
	require.ErrorContains(t, err, "too many calls")
}

// TestCEL_22_C3_LoopsOfOneExpression count for more than calls: each has several types to find out.
func TestCEL_22_C3_LoopsOfOneExpression(t *testing.T) {
	for loops, refused := range map[int]bool{20: false, 300: true} {
		rule := "[" + strings.Repeat("[1].map(x, x), ", loops) + "[2]].size() > 1"
		schema, problems := openapi.FromTree(map[string]any{
			"type": "object", "x-kubernetes-validations": []any{map[string]any{"rule": rule}},
		})
		require.Empty(t, problems)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, problems = cel.CompileRules(schema, cel.RuleOptions{})
		runtime.ReadMemStats(&after)
		require.Equal(t, refused, len(problems) > 0, problems)
		if refused {
			require.Contains(t, problems[0].Detail, "too many calls")
		}
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
	}
}

// TestCEL_11_C2_TablesOfManyTerms are counted for the expression, not for each term that is checked alone.
func TestCEL_11_C2_TablesOfManyTerms(t *testing.T) {
	term := "[object.a.matches('" + strings.Repeat(`\\pL`, 240) + "')" + strings.Repeat(", !true", 8) + "].exists(b, b)"
	scope, err := cel.NewAdmission(cel.AdmissionOptions{Stored: true, Prices: cel.KubernetesPrices()})
	require.NoError(t, err)
	_, err = scope.Compile(strings.Repeat(term+" && ", 9)+term, false)
	require.ErrorContains(t, err, "too many classes")
}
