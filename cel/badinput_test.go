package cel_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/openapi"
)

// Security vector C: expressions that are made to be expensive are rejected, or end with their budget.
func TestExpressionsThatAreMadeToBeExpensive(t *testing.T) {
	spec := func() *openapi.Schema {
		return object("s", text(), "l", list("", text()))
	}
	for name, expression := range map[string]string{
		"a megabyte":                  "'" + strings.Repeat("x", 1<<20) + "' == ''",
		"nested brackets":             strings.Repeat("(", 10_000) + "true" + strings.Repeat(")", 10_000),
		"nested calls":                strings.Repeat("size([", 10_000) + "1" + strings.Repeat("])", 10_000) + " == 1",
		"nested macros":               "self.spec.l.all(a, self.spec.l.all(b, self.spec.l.all(c, a + b + c != 'x')))",
		"lists that double":           "[0]" + strings.Repeat(".map(x, dyn([x, x]))", 40) + ".size() > 0 && self.spec.l.all(a, self.spec.l.all(b, a == b))",
		"texts that grow":             "self.spec.s.replace('', self.spec.s).replace('', self.spec.s).contains(self.spec.s)",
		"a pattern for each of many":  "self.spec.l.all(a, self.spec.l.all(b, a.matches(b)))",
		"a pattern that is too large": "self.spec.s.matches('(((a{1000}){1000}){1000}){1000}')",
	} {
		_, problems := cel.CompileRules(kind(t, spec(), must(expression)), cel.RuleOptions{})
		require.NotEmpty(t, problems, name)
	}

	many := make([]any, 300)
	for i := range many {
		many[i] = strings.Repeat("x", 100)
	}
	for name, expression := range map[string]string{
		"nested macros":     "self.spec.l.all(a, self.spec.l.all(b, self.spec.l.all(c, a + b + c != 'x')))",
		"texts that grow":   "self.spec.l.map(a, self.spec.s.replace('x', 'yy')).size() > 0 && self.spec.l.all(a, self.spec.l.all(b, self.spec.s.contains(a)))",
		"lists that double": "[0, 1]" + strings.Repeat(".map(x, dyn([x, x]))", 15) + ".size() > 0 && self.spec.l.all(a, self.spec.l.all(b, self.spec.s.contains(b)))",
	} {
		rules := compiled(t, kind(t, spec(), must(expression)))
		problems := validate(t, rules, m{"l": many, "s": strings.Repeat("x", 5_000)}, nil)
		require.Len(t, problems, 1, name)
		require.Contains(t, problems[0], "cost", name)
	}
}

// Security vector C2: a list that is nested in itself, or added to itself, 40 times has more parts than anything
// can look at.
func TestListsThatGrowAreNotCompared(t *testing.T) {
	nests, adds := "[[0]"+strings.Repeat(".map(x, dyn([x, x]))", 40)+"]", "[[0]]"+strings.Repeat(".map(x, x + x)", 40)
	for _, expression := range []string{
		nests + ".all(v, v == v)", nests + ".all(v, v != v)", nests + ".all(v, !(v in [v]))", nests + ".all(v, {'a': v} == {'a': v})",
		adds + ".all(v, v == v)", adds + ".all(v, !(1 in v))", adds + ".all(v, v.sum() == 0)", adds + ".all(v, v.distinct() == [0])",
	} {
		scope, err := cel.NewAdmission(cel.AdmissionOptions{})
		require.NoError(t, err)
		x, err := scope.Compile(expression, false, cel.Bool())
		require.NoError(t, err)
		_, err = scope.Run(cel.AdmissionInput{}, cel.BindingCostLimit).Evaluate(t.Context(), x)
		require.ErrorContains(t, err, "operation cancelled: actual cost limit exceeded", expression)
	}
}

type nested struct {
	_        struct{} `rule:"self.name != 'bad'"`
	Name     string   `json:"name" maxLength:"10"`
	Children []nested `json:"children,omitempty"`
}

// The schema of a Go type that contains itself has no end.
func TestRulesOfTypesThatContainThemselves(t *testing.T) {
	s, err := openapi.FromType(reflect.TypeFor[nested]())
	require.NoError(t, err)
	rules, problems := cel.CompileRules(s, cel.RuleOptions{Prices: cel.KubernetesPrices()})
	require.Empty(t, problems)
	leaf := m{"name": "bad"}
	object := m{"name": "ok", "children": []any{m{"name": "ok", "children": []any{leaf, m{"name": "bad", "children": []any{leaf}}}}}}
	require.Equal(t, []string{
		"children[0].children[0]: Invalid value: failed rule: self.name != 'bad'",
		"children[0].children[1]: Invalid value: failed rule: self.name != 'bad'",
		"children[0].children[1].children[0]: Invalid value: failed rule: self.name != 'bad'",
	}, texts(rules.Validate(t.Context(), object, nil, true, nil)))
}

// FuzzRules looks for expressions that break the compiler or an evaluation, or cost more than their
// budget allows.
func FuzzRules(f *testing.F) {
	for _, expression := range []string{
		"self.spec.s == 'x'", "self.spec.l.all(i, i.startsWith('a'))", "quantity(self.spec.s).isInteger()", "self.?spec.?l[?0].orValue('') == oldSelf.spec.s",
		"[1, 2].map(i, i * 2).exists(i, i == 4)", "self.spec.l + ['x'] == oldSelf.spec.l", "ip(self.spec.s).family() == 4 || semver('1.2.3').major() == 1",
	} {
		f.Add(expression, "text")
	}
	spec := object("s", text(), "l", list(openapi.ListSet, text()))
	f.Fuzz(func(t *testing.T, expression, value string) {
		if len(expression) > 1000 || len(value) > 1000 {
			return
		}
		rules, problems := cel.CompileRules(kind(t, spec, must(expression)), cel.RuleOptions{})
		if len(problems) > 0 {
			return
		}
		now, old := tree(m{"s": value, "l": []any{value, "a"}}), tree(m{"s": "a", "l": []any{"a", value}})
		counted := texts(rules.Validate(t.Context(), now, old, false, nil))
		require.Equal(t, counted, texts(rules.Validate(t.Context(), now, old, true, nil)))
	})
}

// FuzzAdmission looks for expressions of policies that break the compiler or an evaluation, or that have a value
// although they cost more than their budget.
func FuzzAdmission(f *testing.F) {
	for _, expression := range []string{
		"object.spec.l.all(i, i.startsWith('a'))", "[[0]].map(x, x + x).all(v, v == v)", "variables.v.map(x, [x, x])", "object.s.replace('', object.s)",
		"Object{spec: Object.spec{l: variables.v}}", "[JSONPatch{op: 'add', path: '/a', value: object}].size() > 0", "quantity(object.s).isInteger() || ip(object.s).family() == 4",
		"authorizer.group('').resource('pods').check('get').allowed()", "request.userInfo.username == params.a",
	} {
		f.Add(expression, "text")
	}
	f.Fuzz(func(t *testing.T, expression, value string) {
		if len(expression) > 1000 || len(value) > 1000 {
			return
		}
		scope, err := cel.NewAdmission(cel.AdmissionOptions{Params: true})
		require.NoError(t, err)
		_ = scope.Define("v", expression)
		in := cel.AdmissionInput{
			Object: m{"s": value, "spec": m{"l": []any{value, "a"}}}, Params: m{"a": value}, Request: func() map[string]any { return m{"name": value} },
			Ask: func(authz.Attributes) (authz.Decision, string, error) { return authz.Allow, value, nil },
		}
		for _, text := range []string{expression, "variables.v == variables.v"} {
			problem, result, cost := cel.AskAdmission(t.Context(), scope, in, text)
			if problem == "" && cost > 2*cel.CostLimit { // a variable has a budget of its own
				require.True(t, strings.HasPrefix(result, "failed: "), "%s costs %d", result, cost)
			}
		}
	})
}
