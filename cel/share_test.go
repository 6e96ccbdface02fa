package cel_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/openapi"
)

// listed is a schema with a list whose rule stands in two places.
func listed(t *testing.T, maxItems int, rule, description string) *openapi.Schema {
	t.Helper()
	list := func() map[string]any {
		out := map[string]any{
			"type": "array", "items": map[string]any{"type": "string", "maxLength": int64(64)}, "description": description,
			"x-kubernetes-validations": []any{map[string]any{"rule": rule}},
		}
		if maxItems > 0 {
			out["maxItems"] = int64(maxItems)
		}
		return out
	}
	schema, problems := openapi.FromTree(map[string]any{"type": "object", "properties": map[string]any{
		"spec": map[string]any{"type": "object", "properties": map[string]any{"a": list(), "b": list()}},
	}})
	require.Empty(t, problems)
	return schema
}

// Versions of one definition have mostly equal rules, and so have many places of one version.
func TestEqualRulesAreCompiledOnce(t *testing.T) {
	const rule = "self.all(x, self.exists(y, x + y != 'ab'))"
	compiled := new(cel.Compiled)
	compile := func(schema *openapi.Schema, o cel.RuleOptions) *cel.Rules {
		t.Helper()
		o.Compiled = compiled
		rules, problems := cel.CompileRules(schema, o)
		require.Empty(t, problems)
		return rules
	}
	first := compile(listed(t, 10, rule, "one"), cel.RuleOptions{})
	require.Equal(t, 1, cel.Expressions(first), "two places of one schema")
	second := compile(listed(t, 10, rule, "another description"), cel.RuleOptions{})
	require.Equal(t, 1, cel.Expressions(first, second), "two versions")
	for name, other := range map[string]*cel.Rules{
		"another bound":   compile(listed(t, 11, rule, "one"), cel.RuleOptions{}),
		"another rule":    compile(listed(t, 10, rule+" ", "one"), cel.RuleOptions{}),
		"another release": compile(listed(t, 10, rule, "one"), cel.RuleOptions{Release: "1.33"}),
		"known before":    compile(listed(t, 10, rule, "one"), cel.RuleOptions{Known: func(string) bool { return true }}),
	} {
		require.Equal(t, 2, cel.Expressions(first, other), name)
	}
	object := map[string]any{"spec": map[string]any{"a": []any{"a", "b"}, "b": []any{"b"}}}
	for _, rules := range []*cel.Rules{first, second} {
		require.Empty(t, rules.Validate(t.Context(), object, nil, true, nil))
		require.Empty(t, rules.Validate(t.Context(), object, nil, false, nil))
	}
}

// Whether a schema is accepted does not depend on what was compiled before it.
func TestSharedRulesAreJudgedAsIfTheyWereAlone(t *testing.T) {
	const dear = "self.all(x, self.all(y, self.all(z, x + y != z)))"
	for _, order := range [][]int{{5, 0, 5}, {0, 5, 0}} {
		compiled := new(cel.Compiled)
		for _, maxItems := range order {
			_, problems := cel.CompileRules(listed(t, maxItems, dear, ""), cel.RuleOptions{Compiled: compiled})
			require.Equal(t, maxItems == 0, len(problems) > 0, "%d of %v: %v", maxItems, order, problems)
		}
	}

	// Each of these rules is accepted, and all together take too long.
	long := "self == ''" + strings.Repeat(" || self == 'a'", 900)
	properties := map[string]any{}
	for i := range 12 {
		properties[fmt.Sprint("p", i)] = map[string]any{"type": "string", "maxLength": int64(9), "x-kubernetes-validations": []any{map[string]any{"rule": long}}}
	}
	tree := map[string]any{"type": "object", "properties": properties}
	compiled := new(cel.Compiled)
	for _, o := range []cel.RuleOptions{{}, {Compiled: compiled}, {Compiled: compiled}} {
		schema, problems := openapi.FromTree(tree)
		require.Empty(t, problems)
		_, found := cel.CompileRules(schema, o)
		require.NotEmpty(t, found)
		require.Contains(t, found[0].Detail, "too large to be compiled")
	}
}

// Each field of a schema either counts when schemas are compared, or means nothing to expressions.
func TestSchemasThatLookAlike(t *testing.T) {
	means := map[string]any{
		"Type": openapi.String, "Format": "date", "Notation": openapi.NotationBytes, "DefaultValue": "x", "Enum": []any{"x"}, "Nullable": true,
		"Properties": []openapi.Property{{Name: "x", Schema: &openapi.Schema{}}}, "Required": []string{"x"}, "AdditionalProperties": &openapi.Schema{},
		"MinProperties": new(int64), "MaxProperties": new(int64), "PreserveUnknown": true, "EmbeddedObject": true, "MapType": openapi.MapType("atomic"),
		"Items": &openapi.Schema{}, "MinItems": new(int64), "MaxItems": new(int64), "ListType": openapi.ListSet, "ListMapKeys": []string{"x"},
		"MinLength": new(int64), "MaxLength": new(int64), "IntOrString": true, "OrNumber": true,
	}
	nothing := map[string]bool{
		"Description": true, "Deprecated": true, "Expected": true, "Minimum": true, "Maximum": true, "ExclusiveMinimum": true, "ExclusiveMaximum": true,
		"MultipleOf": true, "Pattern": true, "AllOf": true, "AnyOf": true, "OneOf": true, "Not": true, "Rules": true, "PatchStrategy": true,
		"PatchMergeKey": true, "PatchTagged": true, "Selectable": true, "Column": true, "Component": true,
	}
	of := reflect.TypeFor[openapi.Schema]()
	for i := range of.NumField() {
		f := of.Field(i)
		if !f.IsExported() || nothing[f.Name] {
			continue
		}
		require.Contains(t, means, f.Name, "say whether expressions see it")
		a, b := &openapi.Schema{}, &openapi.Schema{}
		require.True(t, cel.Alike(a, b))
		reflect.ValueOf(b).Elem().Field(i).Set(reflect.ValueOf(means[f.Name]).Convert(f.Type))
		require.False(t, cel.Alike(a, b), f.Name)
		require.False(t, cel.Alike(&openapi.Schema{Items: a}, &openapi.Schema{Items: b}), f.Name)
		require.True(t, cel.Alike(b, b), f.Name)
	}
}
