package cel_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/openapi"
)

// Programs that count are made when they are first needed, which may be in many requests at once.
func TestCEL_28_RulesOfOneSchemaAreCountedAtOnce(t *testing.T) {
	text := map[string]any{"type": "string"}
	inner := map[string]any{"type": "object", "properties": map[string]any{"deep": map[string]any{"type": "object", "properties": map[string]any{"s": text}}}}
	properties := map[string]any{}
	for _, name := range []string{"a", "b", "c", "d"} {
		properties[name] = inner
	}
	rules := []any{}
	for i, name := range []string{"a", "b", "c", "d"} {
		rule := "self.spec." + name + ".deep.s.size() < 5"
		if i%2 == 0 { // an update begins with another rule than a creation
			rule = "oldSelf.spec." + name + ".deep.s == '' || " + rule
		}
		rules = append(rules, map[string]any{"rule": rule, "message": name})
	}
	schema, problems := openapi.FromTree(map[string]any{
		"type": "object", "x-kubernetes-validations": rules,
		"properties": map[string]any{"spec": map[string]any{"type": "object", "properties": properties}},
	})
	require.Empty(t, problems)
	compiled, problems := cel.CompileRules(schema, cel.RuleOptions{})
	require.Empty(t, problems)
	spec := map[string]any{}
	for i, name := range []string{"a", "b", "c", "d"} {
		spec[name] = map[string]any{"deep": map[string]any{"s": "toolong"[:3+i]}}
	}
	var all sync.WaitGroup
	object := map[string]any{"spec": spec}
	old := map[string]any{"spec": map[string]any{"a": spec["b"], "b": spec["a"], "c": spec["d"], "d": spec["c"]}}
	for i := range 8 {
		all.Go(func() {
			before, want := old, 2 // c and d
			if i%2 == 0 {
				before, want = nil, 1
			}
			if causes := compiled.Validate(t.Context(), object, before, false, nil); len(causes) != want {
				t.Errorf("%v", causes)
			}
		})
	}
	all.Wait()
}
