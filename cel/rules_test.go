package cel_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/status"
)

func ptr[T any](v T) *T { return &v }

func text() *openapi.Schema { return &openapi.Schema{Type: openapi.String} }

func object(fields ...any) *openapi.Schema {
	s := &openapi.Schema{Type: openapi.Object}
	for i := 0; i < len(fields); i += 2 {
		s.Properties = append(s.Properties, openapi.Property{Name: fields[i].(string), Schema: fields[i+1].(*openapi.Schema)})
	}
	return s
}

func list(t openapi.ListType, items *openapi.Schema, keys ...string) *openapi.Schema {
	items.Required = append(items.Required, keys...)
	return &openapi.Schema{Type: openapi.Array, ListType: t, Items: items, ListMapKeys: keys}
}

func mapOf(values *openapi.Schema) *openapi.Schema {
	return &openapi.Schema{Type: openapi.Object, AdditionalProperties: values}
}

func with(s *openapi.Schema, rules ...openapi.Rule) *openapi.Schema {
	s.Rules = append(s.Rules, rules...)
	return s
}

func must(expression string) openapi.Rule { return openapi.Rule{Rule: expression} }

// kind returns the schema of an object with a spec.
func kind(t testing.TB, spec *openapi.Schema, rules ...openapi.Rule) *openapi.Schema {
	t.Helper()
	s, err := openapi.New(with(object("apiVersion", text(), "kind", text(), "metadata", openapi.ObjectMeta(), "spec", spec), rules...))
	require.NoError(t, err)
	return s
}

func compiled(t testing.TB, s *openapi.Schema) *cel.Rules {
	t.Helper()
	rules, problems := cel.CompileRules(s, cel.RuleOptions{Unlimited: true, Stored: true})
	require.Empty(t, problems)
	return rules
}

func tree(spec any) map[string]any {
	return map[string]any{"apiVersion": "g/v1", "kind": "K", "metadata": map[string]any{"name": "n", "labels": map[string]any{}}, "spec": spec}
}

func texts(problems []status.FieldError) []string {
	out := []string{}
	for _, p := range problems {
		out = append(out, p.String())
	}
	return out
}

func validate(t testing.TB, rules *cel.Rules, spec, old any) []string {
	t.Helper()
	var before map[string]any
	if old != nil {
		before = tree(old)
	}
	return texts(rules.Validate(t.Context(), tree(spec), before, false, nil))
}

type m = map[string]any

func TestCEL_01_02_03_12_13_14_15_17_18_19_RulesSeeTheObject(t *testing.T) {
	spec := object(
		"a-b", text(), "a.b", text(), "a/b", text(), "a__b", text(), "namespace", text(), "a b", text(), "n", &openapi.Schema{Type: openapi.Integer},
		"f", &openapi.Schema{Type: openapi.Number}, "yes", &openapi.Schema{Type: openapi.Boolean}, "any", &openapi.Schema{IntOrString: true},
		"bytes", &openapi.Schema{Type: openapi.String, Format: "byte"}, "at", &openapi.Schema{Type: openapi.String, Format: "date-time"},
		"day", &openapi.Schema{Type: openapi.String, Format: "date"}, "wait", &openapi.Schema{Type: openapi.String, Format: "duration"},
		"labels", mapOf(text()), "items", list("", object("x", text())), "open", &openapi.Schema{Type: openapi.Object, PreserveUnknown: true},
		"nothing", &openapi.Schema{Type: openapi.String, Nullable: true}, "inner", &openapi.Schema{Type: openapi.Object, EmbeddedObject: true, PreserveUnknown: true},
	)
	data := m{
		"a-b": "1", "a.b": "2", "a/b": "3", "a__b": "4", "namespace": "5", "a b": "6", "n": int64(7), "f": int64(8), "yes": true, "any": int64(9),
		"bytes": "YWI=", "at": "2020-01-02T03:04:05Z", "day": "2020-01-02", "wait": "90s", "labels": m{"x": "y"}, "items": []any{m{"x": "z"}},
		"open": m{"hidden": "h"}, "nothing": nil, "inner": m{"apiVersion": "v1", "kind": "P", "metadata": m{"name": "in", "labels": m{}}},
	}
	for expression, want := range map[string]string{
		"self.spec.a__dash__b == '1' && self.spec.a__dot__b == '2' && self.spec.a__slash__b == '3'": "",
		"self.spec.a__underscores__b == '4' && self.spec.__namespace__ == '5'":                      "",
		"self.spec.namespace == '5'": "",
		"self.spec.n == 7 && self.spec.f == 8.0 && self.spec.n < self.spec.f && self.spec.yes":               "",
		"type(self.spec.any) == int ? self.spec.any == 9 : self.spec.any == '9'":                             "",
		"self.spec.bytes == b'ab' && self.spec.at > timestamp('2020-01-01T00:00:00Z')":                       "",
		"self.spec.day.getFullYear() == 2020 && self.spec.wait == duration('1m30s')":                         "",
		"self.spec.labels['x'] == 'y' && 'x' in self.spec.labels && self.spec.labels.all(k, k == 'x')":       "",
		"self.spec.items[0].x == 'z' && self.spec.items.exists(i, i.x == 'z') && size(self.spec.items) == 1": "",
		"self.metadata.name == 'n' && self.kind == 'K' && self.apiVersion == 'g/v1'":                         "",
		"!has(self.metadata.generateName) && !has(self.spec.nothing)":                                        "",
		"self.spec.inner.metadata.name == 'in' && self.spec.inner.kind == 'P'":                               "",
		"self.spec.open == self.spec.open":                                                                   "",
		"self.spec.?nope.orValue('x') == 'x'":                                                                "undefined field 'nope'",
		"self.spec.missing == 1":                                                                             "undefined field 'missing'",
		"self.spec.a_b == '1'":                                                                               "undefined field 'a_b'",
		"self.spec.a__b == '4'":                                                                              "undefined field 'a__b'",
		"self.spec.open.hidden == 'h'":                                                                       "undefined field 'hidden'",
		"self.metadata.labels.size() == 0":                                                                   "undefined field 'labels'",
		"self.spec.inner.metadata.labels.size() == 0":                                                        "undefined field 'labels'",
		"self.spec.n == 'x'": "no matching overload",
		"other == 1":         "undeclared reference",
		"true; false":        "Syntax error",
		"self.spec.n":        "cel expression must evaluate to a bool",
	} {
		rules, problems := cel.CompileRules(kind(t, spec, must(expression)), cel.RuleOptions{})
		if want != "" {
			require.Len(t, problems, 1, expression)
			require.Equal(t, "x-kubernetes-validations[0].rule", problems[0].Field)
			require.Contains(t, problems[0].Detail, want, expression)
			continue
		}
		require.Empty(t, texts(problems), expression)
		require.Empty(t, validate(t, rules, data, nil), expression)
	}
}

func TestCEL_20_DynamicValuesAreCheckedWhenTheyAreRead(t *testing.T) {
	spec := object("any", &openapi.Schema{IntOrString: true})
	for expression, want := range map[string]string{
		"dyn(self.spec).nope == 1":                                      "no such key: nope evaluating rule",
		"!has(dyn(self.spec).nope)":                                     "",
		"self.spec.any == 'x' || self.spec.any == 1":                    "",
		"self.spec.any.nope == 1":                                       "no such key: nope",
		"self.spec.any.startsWith('a')":                                 "call arguments did not match a supported operator, function or macro signature for rule",
		"type(self.spec.any) == int || self.spec.any.startsWith('a')":   "",
		"type(self.spec.any) == string && self.spec.any.startsWith('')": "failed rule",
	} {
		problems := validate(t, compiled(t, kind(t, spec, must(expression))), m{"any": int64(1)}, nil)
		require.Equal(t, want == "", len(problems) == 0, expression)
		if want != "" {
			require.Contains(t, problems[0], want, expression)
		}
	}
}

func TestCEL_16_ListsCompareByTheirType(t *testing.T) {
	item := func() *openapi.Schema { return object("k", text(), "v", text()) }
	spec := object("set", list(openapi.ListSet, text()), "map", list(openapi.ListMap, item(), "k"), "plain", list("", text()))
	one := m{"set": []any{"a", "b"}, "map": []any{m{"k": "1", "v": "x"}, m{"k": "2", "v": "y"}}, "plain": []any{"a", "b"}}
	two := m{"set": []any{"b", "a"}, "map": []any{m{"k": "2", "v": "y"}, m{"k": "1", "v": "x"}}, "plain": []any{"b", "a"}}
	for expression, want := range map[string]bool{
		"self.set == oldSelf.set":                           true,
		"self.map == oldSelf.map":                           true,
		"self.plain == oldSelf.plain":                       false,
		"self.set == ['b', 'a'] && oldSelf.set == self.set": true,

		"self.set + ['c', 'a'] == ['a', 'b', 'c'] && (self.set + ['c']).size() == 3":                              true,
		"(self.map + oldSelf.map).size() == 2 && (self.map + oldSelf.map)[0].k == '1'":                            true,
		"(self.plain + oldSelf.plain).size() == 4 && (self.plain + ['c'])[2] == 'c' && 'a' in self.plain + ['c']": true,

		"self.plain.join(',') == 'a,b'": true,
	} {
		rules := compiled(t, kind(t, with(spec, must(expression))))
		spec.Rules = nil
		require.Equal(t, want, len(validate(t, rules, one, two)) == 0, expression)
	}
}

func TestCRD_12_ProblemsOfRules(t *testing.T) {
	spec := object("a", &openapi.Schema{Type: openapi.Integer}, "b", &openapi.Schema{Type: openapi.Integer}, "s", with(text(), must("self != 'x'")))
	spec = with(spec,
		must("self.a < self.b"),
		openapi.Rule{Rule: "self.a < self.b", Message: " a must be less than b ", Reason: "FieldValueForbidden", FieldPath: ".a"},
		openapi.Rule{Rule: "self.a < self.b", Message: "m", MessageExpression: "'a is ' + string(self.a)", Reason: "FieldValueRequired"},
		openapi.Rule{Rule: "self.a < self.b", Message: "unused", Reason: "FieldValueDuplicate"},
		openapi.Rule{Rule: "self.a < self.b", Message: "falls back", MessageExpression: "'a\\nb'"},
		openapi.Rule{Rule: "self.a < self.b", MessageExpression: "string(self.a / 0)"},
		must("self.a / 0 == 1"),
	)
	rules := compiled(t, kind(t, spec, must("self.spec.a < self.spec.b")))
	require.Equal(t, []string{
		"<nil>: Invalid value: failed rule: self.spec.a < self.spec.b",
		"spec: Invalid value: failed rule: self.a < self.b",
		"spec.a: Forbidden: a must be less than b",
		"spec: Required value: a is 2",
		"spec: Duplicate value",
		"spec: Invalid value: falls back",
		"spec: Invalid value: failed rule: self.a < self.b",
		`spec: Invalid value: "object": division by zero evaluating rule: self.a / 0 == 1`,
		`spec.s: Invalid value: "x": failed rule: self != 'x'`,
	}, validate(t, rules, m{"a": int64(2), "b": int64(1), "s": "x"}, nil))
	require.Equal(t, []string{`spec: Invalid value: "object": division by zero evaluating rule: self.a / 0 == 1`}, validate(t, rules, m{"a": int64(0), "b": int64(1)}, nil))
}

func TestCRD_12_MalformedRules(t *testing.T) {
	for _, c := range []struct {
		rule openapi.Rule
		want string
	}{
		{openapi.Rule{Rule: " "}, "properties[spec].x-kubernetes-validations[0].rule: Required value: rule is not specified"},
		{openapi.Rule{Rule: "true", Message: " "}, `properties[spec].x-kubernetes-validations[0].message: Invalid value: " ": must be non-empty if specified`},
		{openapi.Rule{Rule: "true", Message: "a\nb"}, `properties[spec].x-kubernetes-validations[0].message: Invalid value: "a\nb": must not contain line breaks`},
		{openapi.Rule{Rule: "true\n"}, ""},
		{openapi.Rule{Rule: "true ||\nfalse"}, "properties[spec].x-kubernetes-validations[0].message: Required value: message must be specified if rule contains line breaks"},
		{openapi.Rule{Rule: "true", MessageExpression: " "}, "properties[spec].x-kubernetes-validations[0].messageExpression: Required value: messageExpression must be non-empty if specified"},
		{openapi.Rule{Rule: "true", Reason: "No"}, `properties[spec].x-kubernetes-validations[0].reason: Unsupported value: "No": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"`},
		{openapi.Rule{Rule: "true", FieldPath: ".b"}, `properties[spec].x-kubernetes-validations[0].fieldPath: Invalid value: ".b": must be a valid path`},
		{openapi.Rule{Rule: "true", FieldPath: ".a"}, ""},
		{openapi.Rule{Rule: "true", FieldPath: ".m['x y']"}, ""},
		{openapi.Rule{Rule: "true", FieldPath: "['a']"}, ""},
		{openapi.Rule{Rule: "true", FieldPath: "a"}, `properties[spec].x-kubernetes-validations[0].fieldPath: Invalid value: "a": must be a valid path`},
		{openapi.Rule{Rule: "true", FieldPath: "[0]"}, `properties[spec].x-kubernetes-validations[0].fieldPath: Invalid value: "[0]": must be a valid path`},
		{openapi.Rule{Rule: "true", MessageExpression: "1"}, "messageExpression must evaluate to a string"},
		{openapi.Rule{Rule: "true", OptionalOldSelf: true}, `properties[spec].x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule`},
	} {
		_, problems := cel.CompileRules(kind(t, with(object("a", text(), "m", mapOf(text())), c.rule)), cel.RuleOptions{})
		if c.want == "" {
			require.Empty(t, problems, "%v", c.rule)
			continue
		}
		require.Len(t, problems, 1, "%v", c.rule)
		require.Contains(t, problems[0].String(), c.want)
	}
}

func TestCEL_28_TransitionRules(t *testing.T) {
	item := with(object("k", text(), "v", text()), must("self.v == oldSelf.v"))
	spec := object("a", with(text(), must("self == oldSelf")), "items", list(openapi.ListMap, item, "k"),
		"m", mapOf(with(text(), must("self == oldSelf"))), "first", with(text(), openapi.Rule{Rule: "oldSelf.orValue('none') != self", OptionalOldSelf: true}))
	rules := compiled(t, kind(t, spec))
	now := m{"a": "2", "items": []any{m{"k": "1", "v": "new"}, m{"k": "2", "v": "y"}}, "m": m{"x": "2", "y": "1"}, "first": "none"}
	require.Equal(t, []string{`spec.first: Invalid value: "none": failed rule: oldSelf.orValue('none') != self`}, validate(t, rules, now, nil))
	old := m{"a": "1", "items": []any{m{"k": "2", "v": "y"}, m{"k": "1", "v": "x"}}, "m": m{"x": "1"}}
	require.Equal(t, []string{
		`spec.a: Invalid value: "2": failed rule: self == oldSelf`,
		"spec.items[0]: Invalid value: failed rule: self.v == oldSelf.v",
		`spec.m[x]: Invalid value: "2": failed rule: self == oldSelf`,
		`spec.first: Invalid value: "none": failed rule: oldSelf.orValue('none') != self`,
	}, validate(t, rules, now, old))

	for _, c := range []openapi.ListType{"", openapi.ListSet, openapi.ListAtomic} {
		short := &openapi.Schema{Type: openapi.String, MaxLength: ptr[int64](10)}
		_, problems := cel.CompileRules(kind(t, object("l", list(c, with(short, must("self == oldSelf"))))), cel.RuleOptions{Path: "spec.s"})
		require.Equal(t, []string{
			`spec.s.properties[spec].properties[l].items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within spec.s.properties[spec].properties[l]`,
		}, texts(problems))
	}
}

func TestCRD_14_UnchangedValuesOnlyWarn(t *testing.T) {
	item := with(object("k", text(), "v", text()), must("self.v != 'bad'"))
	spec := with(object("a", with(text(), must("self != 'bad'")), "items", list(openapi.ListMap, item, "k"), "plain", list("", with(text(), must("self != 'bad'"))),
		"same", with(text(), must("self == oldSelf || self != 'bad'"))), must("self.a != 'bad'"))
	rules := compiled(t, kind(t, spec, must("self.spec.a != 'bad'")))
	old := m{"a": "bad", "items": []any{m{"k": "1", "v": "bad"}, m{"k": "2", "v": "y"}}, "plain": []any{"bad"}}
	now := m{"a": "bad", "items": []any{m{"k": "2", "v": "bad"}, m{"k": "1", "v": "bad"}}, "plain": []any{"bad"}}
	var warnings []string
	problems := rules.Validate(t.Context(), tree(now), tree(old), false, func(text string) { warnings = append(warnings, text) })
	require.Equal(t, []string{
		"<nil>: Invalid value: failed rule: self.spec.a != 'bad'", // the metadata of an object always changes
		"spec: Invalid value: failed rule: self.a != 'bad'",
		"spec.items[0]: Invalid value: failed rule: self.v != 'bad'",
	}, texts(problems))
	require.Equal(t, []string{
		`spec.a: Invalid value: "bad": failed rule: self != 'bad'`,
		"spec.items[1]: Invalid value: failed rule: self.v != 'bad'",
		`spec.plain[0]: Invalid value: "bad": failed rule: self != 'bad'`,
	}, warnings)
	require.Len(t, rules.Validate(t.Context(), tree(old), tree(old), false, nil), 1, "the spec is unchanged")
}

func TestCEL_22_23_26_LIM_17_18_BudgetsEndValidation(t *testing.T) {
	const rule = "self.s.contains(self.s)" // costs the square of a tenth of the length
	long := func(n int) m { return m{"s": strings.Repeat("x", n)} }
	rules := compiled(t, kind(t, with(object("s", text()), must(rule), must("false"))))
	require.Equal(t, []string{
		`spec: Invalid value: "object": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: ` + rule,
	}, validate(t, rules, long(11_000), nil))

	spec := object("s", text())
	for range 20 {
		with(spec, must(rule))
	}
	rules = compiled(t, kind(t, spec))
	require.Equal(t, []string{
		`spec: Invalid value: "object": validation failed due to running out of cost budget, no further validation rules will be run`,
	}, validate(t, rules, long(9_000), nil))
	require.Empty(t, validate(t, rules, long(5_000), nil))
}

func TestCRD_13_EstimatedCosts(t *testing.T) {
	unbounded := list("", list("", text()))
	rule := must("self.all(a, a.all(b, b.contains('x')))")
	_, problems := cel.CompileRules(kind(t, object("l", with(unbounded, rule))), cel.RuleOptions{})
	require.Equal(t, []string{
		"properties[spec].properties[l].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)",
		"properties[spec].properties[l].x-kubernetes-validations[0].rule: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
		"Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)",
	}, texts(problems))
	bounded := list("", list("", &openapi.Schema{Type: openapi.String, MaxLength: ptr[int64](10)}))
	bounded.MaxItems, bounded.Items.MaxItems = ptr[int64](10), ptr[int64](10)
	_, problems = cel.CompileRules(kind(t, object("l", with(bounded, rule))), cel.RuleOptions{})
	require.Empty(t, problems)
	_, problems = cel.CompileRules(kind(t, object("l", with(list("", list("", text())), rule))), cel.RuleOptions{Stored: true})
	require.Empty(t, problems, "stored rules are not judged again")
}

func TestRulesStopWithTheirContext(t *testing.T) {
	many := make([]any, 900)
	for i := range many {
		many[i] = strings.Repeat("x", 3)
	}
	rules := compiled(t, kind(t, with(object("l", list("", text())), must("self.l.all(a, self.l.all(b, true))"))))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the client is gone"))
	problems := rules.Validate(ctx, tree(m{"l": many}), nil, false, nil)
	require.Equal(t, []string{"spec: Internal error: validation was cancelled: the client is gone"}, texts(problems))
}

// A number in a message has a bound, except by the prices of kube-apiserver, which knows none.
func TestCRD_13_MessagesWithNumbers(t *testing.T) {
	spec := object("n", &openapi.Schema{Type: openapi.Integer}, "b", &openapi.Schema{Type: openapi.Boolean}, "f", &openapi.Schema{Type: openapi.Number},
		"at", &openapi.Schema{Type: openapi.String, Format: "date-time"}, "wait", &openapi.Schema{Type: openapi.String, Format: "duration"})
	for _, field := range []string{"n", "b", "f", "at", "wait"} {
		rule := openapi.Rule{Rule: "has(self.spec." + field + ")", MessageExpression: "'it is ' + string(self.spec." + field + ")"}
		_, problems := cel.CompileRules(kind(t, spec, rule), cel.RuleOptions{})
		require.Empty(t, problems, field)
		_, problems = cel.CompileRules(kind(t, spec, rule), cel.RuleOptions{Prices: cel.KubernetesPrices()})
		require.NotEmpty(t, problems, field)
		require.Contains(t, problems[0].Detail, "estimated messageExpression cost exceeds budget", field)
	}
}
