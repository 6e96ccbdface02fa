package cel_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/cel"
)

// spent returns the bytes that a function allocates.
func spent(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// expressionSeeds are expressions that nest, that repeat and that look like quotations.
func expressionSeeds() []string {
	return []string{
		"object.spec.l.all(i, i.startsWith('a')) && [1, 2].map(x, [x]).size() > 0", strings.Repeat("[", 30) + strings.Repeat("]", 30),
		strings.Repeat("{1:", 15) + "1" + strings.Repeat("}", 15) + "==1", strings.Repeat("[0].map(x,", 12) + "x" + strings.Repeat(")", 12), "'\\z' 1 2 3",
		"0x1u0x1u0x1u", strings.Repeat("!", 200) + "true", strings.Repeat("a.", 300) + "b", strings.Repeat("optional.of(", 20) + "1" + strings.Repeat(")", 20),
		"r'\\' + b\"\"\"x\"\"\" + '''\n'''", "a // b\n", strings.Repeat("x ? y : ", 50) + "z", strings.Repeat("1+", 500) + "1", "object.s.matches('" + strings.Repeat(`\\pL`, 60) + "')",
		"quantity('1Gi').add(quantity('1')).isGreaterThan(quantity('2'))", "Object{spec: Object.spec{a: [Object.spec.a{b: 1}]}}", "[JSONPatch{op: 'add', path: '/a', value: 1}]",
	}
}

// FuzzCompile parses and compiles expressions. Whatever they are, memory is bounded by their parts and their calls.
//
// Source: security vectors C1, C3.
func FuzzCompile(f *testing.F) {
	for _, text := range expressionSeeds() {
		f.Add(text)
	}
	scope, err := cel.NewAdmission(cel.AdmissionOptions{})
	require.NoError(f, err)
	for _, result := range []cel.Type{cel.Bool(), cel.Patches()} { // makes the environments
		_, _ = scope.Compile("true", true, result)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 5_000 {
			return
		}
		for _, result := range []cel.Type{cel.Bool(), cel.Patches()} {
			scope, err := cel.NewAdmission(cel.AdmissionOptions{})
			require.NoError(t, err)
			bytes := spent(func() { _, _ = scope.Compile(text, true, result) })
			require.LessOrEqual(t, bytes, uint64(2<<20+64*len(text)+20_000*cel.PartsIn(text)), "%q", text)
		}
	})
}

// FuzzEvaluate evaluates what compiles. It costs no more than its budget, in units and in memory.
//
// Source: security vectors C1, C2, C4.
func FuzzEvaluate(f *testing.F) {
	for _, text := range append(expressionSeeds(), "object.s.replace('', object.s).replace('', object.s)", "object.spec.l.map(x, object.s + x).join(object.s)",
		"object.s.split('').map(x, object.s.split('')).flatten()", "lists.range(1000).map(x, object.s)", "object.s.matches(object.s)", "1 / object.n", "object.missing == 1") {
		f.Add(text, "text")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		if len(text) > 1_000 || len(value) > 1_000 {
			return
		}
		scope, err := cel.NewAdmission(cel.AdmissionOptions{})
		require.NoError(t, err)
		in := cel.AdmissionInput{
			Object: m{"s": value, "n": int64(0), "spec": m{"l": []any{value, "a"}}},
			Ask:    func(authz.Attributes) (authz.Decision, string, error) { return authz.Deny, value, nil },
		}
		var problem, result string
		var cost uint64
		bytes := spent(func() { problem, result, cost = cel.AskAdmission(t.Context(), scope, in, text) })
		require.LessOrEqual(t, bytes, attackBytes(), "%q", text)
		if problem == "" && cost > cel.CostLimit {
			require.True(t, strings.HasPrefix(result, "failed: "), "%q costs %d", text, cost)
		}
	})
}
