package cel_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/openapi"
)

// Security vectors C1 and C3: parts are counted as the language finds them, whatever looks like a quotation.
func TestC3_PartsAreCountedBeforeAnExpressionIsParsed(t *testing.T) {
	for text, want := range map[string]int{
		``:                               0,
		`true`:                           1,
		`self.a.size() > 3 && !has(b)`:   15,
		`'a b c' + "d\" e" + r'\' + b''`: 7,
		`"""a "b" \x41""" + '''c\'d'''`:  3,
		"1 // 2 3 4\n+ 5":                3,
		`a == b != c <= d`:               7,
		`'open 1, 2`:                     5,
		`'\z 1, 2'`:                      7, // not an escape
		"'line\n1'":                      4,
		`'\x4' 1 2 3`:                    7,
		`0x1Fu1u0x1u2`:                   4,
		`1.5e3`:                          4,
	} {
		require.Equal(t, want, cel.PartsIn(text), "%s", text)
	}
}

// Security vector C1: what is too large is refused before it takes more than its size explains.
func TestC1_C3_ExpressionsAreCountedBeforeTheyAreRead(t *testing.T) {
	for name, c := range map[string]struct{ text, problem string }{
		"numbers":       {"[" + strings.Repeat("1,", 40_000) + "1].size() > 0", "too many parts"},
		"texts":         {"[" + strings.Repeat("'',", 20_000) + "''].size() > 0", "too many parts"},
		"half-open":     {strings.Repeat("'\\z", 10_000) + "1", "too many parts"},
		"signs":         {strings.Repeat("!", 90_000) + "true", "too many parts"},
		"lists":         {strings.Repeat("[", 90) + strings.Repeat("]", 90) + ".size() > 0", "nested too deeply"},
		"maps":          {strings.Repeat("{1:", 90) + "1" + strings.Repeat("}", 90) + ".size() > 0", "nested too deeply"},
		"lists by maps": {"[0]" + strings.Repeat(".map(x, [x])", 90) + ".size() > 0", "nested too deeply"},
		"made in loops": {"[0]" + strings.Repeat(".map(x, [[x]])", 60) + ".size() > 0", "nested too deeply"},
		"wrong names":   {strings.Repeat(" ", 15_000) + "[" + strings.Repeat("x, ", 300) + "1]", "undeclared reference"},
		"many problems": {strings.Repeat("x ? y : ", 50) + "z", "more errors were truncated"},
		"a long name":   {strings.Repeat("x", 90_000), "undeclared reference"},
		"optional":      {strings.Repeat("optional.of(", 90) + "1" + strings.Repeat(")", 90) + ".hasValue()", "nested too deeply"},
	} {
		scope, err := cel.NewAdmission(cel.AdmissionOptions{})
		require.NoError(t, err)
		_, err = scope.Compile("true", false) // makes the environment
		require.NoError(t, err)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = scope.Compile(c.text, false)
		runtime.ReadMemStats(&after)
		require.ErrorContains(t, err, c.problem, name)
		require.Less(t, len(err.Error()), 64<<10, name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64*len(c.text)+1<<20), name)
	}
	for _, text := range []string{
		"[[[1]]].size() > 0", "[[0]]" + strings.Repeat(".map(x, x)", 40) + ".size() > 0",
		"[0]" + strings.Repeat(".map(x, dyn([x]))", 40) + ".size() > 0", "{'a': {'b': [1]}}.size() > 0",
	} {
		scope, err := cel.NewAdmission(cel.AdmissionOptions{})
		require.NoError(t, err)
		_, err = scope.Compile(text, false)
		require.NoError(t, err, text)
	}
}

// All rules of a schema have so many parts as its size allows. Those that were accepted before do not count.
func TestC1_TheRulesOfASchemaAreCountedTogether(t *testing.T) {
	spec := object("s", text())
	for i := range 500 {
		spec.Rules = append(spec.Rules, openapi.Rule{Rule: fmt.Sprintf("self.s != 'x%d'", i)})
	}
	schema := kind(t, spec)
	_, problems := cel.CompileRules(schema, cel.RuleOptions{Size: 20_000, Path: "spec.validation.openAPIV3Schema"})
	require.Len(t, problems, 1)
	require.Equal(t, "spec.validation.openAPIV3Schema: Forbidden: all rules of the schema together have too many parts for its size", problems[0].String())
	known := func(text string) bool { return !strings.Contains(text, "x49") }
	for _, o := range []cel.RuleOptions{{}, {Size: 200_000}, {Size: 20_000, Stored: true}, {Size: 20_000, Known: known}} {
		_, problems = cel.CompileRules(schema, o)
		require.Empty(t, problems)
	}
}

// What a request has compiled is not compiled again.
func TestRulesAreCompiledOnce(t *testing.T) {
	var known cel.Compiled
	spec := object("s", text())
	spec.Rules = []openapi.Rule{{Rule: "self.s != 'x'"}}
	schema := kind(t, spec)
	first, problems := cel.CompileRules(schema, cel.RuleOptions{Compiled: &known})
	require.Empty(t, problems)
	second, _ := cel.CompileRules(schema, cel.RuleOptions{Compiled: &known, Stored: true})
	require.Same(t, first, second)
	runtime.KeepAlive(first)
}

// Problems are written as the language writes them.
func TestProblemsReadAsThoseOfTheLanguage(t *testing.T) {
	env, err := celgo.NewEnv()
	require.NoError(t, err)
	for _, text := range []string{
		"", "x", "1 +", "1 +\n  2 + y", "'\u00e4\u4e16' + x", "\tx + 1", "x + y + z", "a.b.c(d)", "(", "'open", "1 + 'a'", "[1, 'a'].b", "\n\n x",
		strings.Repeat("x+", 30) + "1", strings.Repeat("x+\n", 120) + "1", "\u4e16", strings.Repeat("x", 300),
	} {
		_, issues := env.Compile(text)
		if issues.Err() == nil {
			continue
		}
		require.Equal(t, issues.String(), cel.Described(env, text), "%q", text)
	}
}
