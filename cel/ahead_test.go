package cel_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/openapi"
)

// aheadRules are rules for a text; those in the second half have problems of different kinds.
var aheadRules = []map[string]any{
	{"rule": "self.size() < 10"},
	{"rule": "self != 'x'", "messageExpression": "'not ' + self"},
	{"rule": "self == oldSelf"},
	{"rule": "!oldSelf.hasValue() || self != oldSelf.value()", "optionalOldSelf": true},
	{"rule": "self.matches('^[a-z]*$')"},
	{"rule": "self.startsWith('a') || self.endsWith('b')", "message": "no"},

	{"rule": "self.size()"},
	{"rule": "self +"},
	{"rule": "self.unknown"},
	{"rule": "self != ''", "messageExpression": "1"},
	{"rule": "self == oldSelf && self in [1]"},
	{"rule": "self.matches('[')"},
}

// textFields is a schema of many fields with some of the rules.
func textFields(t *testing.T, r *rand.Rand, bad bool) *openapi.Schema {
	t.Helper()
	fields := map[string]any{}
	for i := range 12 {
		field := map[string]any{"type": "string", "maxLength": int64(10 + i/2)}
		var rules []any
		for range 1 + r.IntN(3) {
			n := len(aheadRules) / 2
			if bad && r.IntN(8) == 0 {
				n = len(aheadRules)
			}
			rules = append(rules, aheadRules[r.IntN(n)])
		}
		field["x-kubernetes-validations"] = rules
		fields[fmt.Sprintf("f%02d", i)] = field
	}
	schema, problems := openapi.FromTree(map[string]any{"type": "object", "properties": map[string]any{
		"spec": map[string]any{"type": "object", "properties": fields},
	}})
	require.Empty(t, problems)
	return schema
}

// On several processors rules have the same problems, in the same order, and judge objects alike.
func TestRulesCompileAlikeOnSeveralProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		schema := textFields(t, r, seed%2 == 0)

		runtime.GOMAXPROCS(1)
		one, want := cel.CompileRules(schema, cel.RuleOptions{Compiled: new(cel.Compiled)})
		runtime.GOMAXPROCS(4)
		several, got := cel.CompileRules(schema, cel.RuleOptions{Compiled: new(cel.Compiled)})
		require.Equal(t, want, got, "seed %d", seed)
		require.Equal(t, cel.Expressions(one), cel.Expressions(several), "seed %d", seed)
		if len(want) > 0 {
			continue
		}
		spec := map[string]any{}
		for i := range 12 {
			spec[fmt.Sprintf("f%02d", i)] = []string{"abc", "x", "A", "aaaaaaaaaaaaaaaa"}[r.IntN(4)]
		}
		object := map[string]any{"spec": spec}
		require.Equal(t, one.Validate(t.Context(), object, nil, true, nil), several.Validate(t.Context(), object, nil, true, nil), "seed %d", seed)
	}
}

// The first problem ends the work ahead, and a function of the options that panics panics where it always did.
func TestAPanicWhileRulesCompileReachesTheCaller(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	schema := textFields(t, rand.New(rand.NewPCG(1, 1)), false)
	require.PanicsWithValue(t, "known", func() {
		cel.CompileRules(schema, cel.RuleOptions{Known: func(string) bool { panic("known") }})
	})
}
