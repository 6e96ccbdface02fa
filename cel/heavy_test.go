package cel_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/openapi"
)

const heavySchema = `{"type":"object","properties":{"s":{"type":"string"},"u":{"type":"string"},"at":{"type":"string","format":"date-time"},
"by":{"type":"string","format":"byte"},"n":{"type":"array","maxItems":30000,"items":{"type":"integer"}},
"l":{"type":"array","items":{"type":"integer"}},"set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
"m":{"type":"object","additionalProperties":{"type":"string"}},
"any":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`

func heavyRules(t *testing.T, rule string) *cel.Rules {
	t.Helper()
	document, err := json.DecodeTree([]byte(heavySchema), json.TreeOptions{})
	require.NoError(t, err)
	schema, problems := openapi.FromTree(document.(map[string]any))
	require.Empty(t, problems)
	schema.Rules = []openapi.Rule{{Rule: rule}}
	rules, problems := cel.CompileRules(schema, cel.RuleOptions{Stored: true, Prices: cel.KubernetesPrices()})
	require.Empty(t, problems)
	return rules
}

// heavyObject has parts that are large, and a list of some rounds.
func heavyObject() m {
	texts, keys, free := make([]any, 2000), m{}, make([]any, 10_000)
	for i := range texts {
		texts[i] = fmt.Sprint("item", i)
		keys[fmt.Sprint("key", i)] = "v"
	}
	for i := range free {
		free[i] = int64(i)
	}
	rounds := make([]any, 1500)
	for i := range rounds {
		rounds[i] = int64(i)
	}
	return m{
		"s": strings.Repeat("x", 20_000), "u": "http://a/" + strings.Repeat("b", 5000) + "?a=" + strings.Repeat("b", 10_000),
		"at": "2020-01-02T03:04:05Z", "by": strings.Repeat("AAAA", 5000), "n": rounds, "l": free, "set": texts, "m": keys, "any": m{"free": free},
	}
}

// The language counts one unit for each of these steps, which read all of a text, a list or an object. Programs that do
// not count end as well.
func TestCEL_22_C1_C2_StepsOnWhatIsLarge(t *testing.T) {
	now, old := heavyObject(), heavyObject()
	// Each step takes a few dozen units at least.
	for _, rule := range []string{
		"self.n.all(i, size(self.s) > 0)",
		"self.n.all(i, size(dyn(self.s)) > 0)",
		"self.n.all(i, self.s.charAt(i) == 'x')",
		"[url(self.u)].all(u, self.n.all(i, u == u))",
		"[url(self.u)].all(u, self.n.all(i, u.getQuery().size() == 1))",
		"[url(self.u)].all(u, self.n.all(i, u.getEscapedPath() != 'x'))",
		"self.n.all(i, self.at.getHours('America/New_York') == 22)",
		"self.n.all(i, self.at.getHours('No/' + string(i)) == 22)",
		"self.n.all(i, (self.set + ['x']).size() > 0)",
		"self.n.all(i, (self.l + self.l).size() > 0)",
		"self.n.all(i, [self.l].flatten().size() > 0)",
		"self.n.all(i, self.any == oldSelf.any)",
		"self.n.all(i, self.any != oldSelf.any || true)",
		"self.n.all(i, self.by != b'')",
		"self.n.all(i, has(self.by) && self.by != b'')",
		"self.n.all(i, self.m.exists(k, true))",
		"self.n.all(i, '%s'.format([self.s]) != '')",
		"!self.s.matches('(.?.?.?){99}y')",
		"self.s.find('(.?.?.?){99}y') == ''",
		"self.n.all(i, !'x'.matches('(y{480})' + string(i)))",
	} {
		requireOverrun(t, rule, now, old)
	}
}

// requireOverrun evaluates a rule with little work.
func requireOverrun(t *testing.T, rule string, now, old m) {
	t.Helper()
	rules := heavyRules(t, rule)
	rules.SetWork(50_000)
	for _, sound := range []bool{false, true} {
		problems := texts(rules.Validate(t.Context(), now, old, sound, nil))
		require.Len(t, problems, 1, rule)
		require.Contains(t, problems[0], "'operation cancelled: actual cost limit exceeded': no further validation rules will be run", rule)
	}
}

// What is small takes nothing, however often.
func TestCEL_22_StepsOnWhatIsSmall(t *testing.T) {
	object := heavyObject()
	object["s"], object["by"], object["set"], object["any"], object["m"] = "x", "AAAA", []any{"a"}, m{"a": int64(1)}, m{"k": "v"}
	object["l"] = []any{int64(1)}
	for _, rule := range []string{
		"self.n.all(i, size(self.s) > 0)", "self.n.all(i, (self.set + ['x']).size() > 0)", "self.n.all(i, self.any == oldSelf.any)",
		"self.n.all(i, self.by != b'')", "self.n.all(i, self.m.exists(k, true))", "self.n.all(i, self.at.getHours('+01:00') == 4 && self.at.getHours('UTC') == 3)",
		"self.n.all(i, !self.s.matches('(.?.?.?){99}y'))",
	} {
		rules := heavyRules(t, rule)
		rules.SetWork(1)
		require.Empty(t, rules.Validate(t.Context(), object, object, true, nil), rule)
	}
}

// leaving is a context that ends when it has been asked a few times.
type leaving struct {
	context.Context //nolint:containedctx // the one that ends

	asked, until int
}

func (l *leaving) Err() error {
	if l.asked++; l.asked > l.until {
		return context.Canceled
	}
	return nil
}

// A step that takes long ends with its request, also without a loop around it.
func TestCEL_22_AStepEndsWithItsRequest(t *testing.T) {
	object, other := heavyObject(), heavyObject()
	object["s"], other["s"] = strings.Repeat("x", 1_000_000), strings.Repeat("x", 1_000_000)
	many, same := m{}, m{}
	for i := range 20_000 {
		many[fmt.Sprint("key", i)], same[fmt.Sprint("key", i)] = "v", "v"
	}
	object["m"], other["m"] = many, same
	for _, rule := range []string{"self.s.matches('(x|x)*y') || true", "self.m == oldSelf.m"} {
		for _, sound := range []bool{false, true} {
			counted := &leaving{Context: t.Context(), until: 1 << 30}
			rules := heavyRules(t, rule)
			require.Empty(t, rules.Validate(counted, object, other, sound, nil), rule)
			require.Greater(t, counted.asked, 10, "%s: the context is looked at while the step runs", rule)
			gone := &leaving{Context: t.Context(), until: 5}
			problems := texts(rules.Validate(gone, object, other, sound, nil))
			require.Len(t, problems, 1, rule)
			require.Contains(t, problems[0], "validation was cancelled", rule)
			require.Less(t, gone.asked, 12, rule)
		}
	}
}

// What steps take beyond their cost counts for the budget of a policy.
func TestPOL_07_C2_StepsOnWhatIsLargeShareTheBudget(t *testing.T) {
	const rounds, budget = 2000, 100_000
	scope, err := cel.NewAdmission(cel.AdmissionOptions{Stored: true, Prices: cel.KubernetesPrices()})
	require.NoError(t, err)
	x, err := scope.Compile(fmt.Sprintf("lists.range(%d).all(i, size(object.s) > 0)", rounds), false)
	require.NoError(t, err)
	for size, want := range map[int]bool{1: true, 20_000: false} {
		run := scope.Run(cel.AdmissionInput{Object: m{"s": strings.Repeat("x", size)}}, budget)
		_, err := run.Evaluate(t.Context(), x)
		require.Equal(t, want, err == nil, "%d: %v", size, err)
		if !want {
			require.ErrorIs(t, err, cel.ErrBudget)
		}
	}
}

// What a program may do ends in the middle of a comparison. A comparison whose value is an error would be true for !=, and
// equal in a list.
func TestCEL_22_ABudgetThatEndsInAComparisonIsNoAnswer(t *testing.T) {
	items := make([]any, 60)
	for i := range items {
		items[i] = m{"k": int64(i), "a": m{"d": strings.Repeat("AAAA", 1990) + fmt.Sprintf("%04d", min(i, len(items)-2))}}
	}
	for _, rule := range []string{
		"self.items.all(x, self.items.all(y, x.k == y.k || x.a != y.a))",
		"self.items.all(x, self.items.all(y, x.k == y.k || !([x.a] == [y.a])))",
	} {
		schema, problems := openapi.FromTree(m{
			"type": "object", "x-kubernetes-validations": []any{m{"rule": rule}},
			"properties": m{"items": m{"type": "array", "maxItems": int64(250), "items": m{"type": "object", "properties": m{
				"k": m{"type": "integer"},
				"a": m{"type": "object", "properties": m{"d": m{"type": "string", "format": "byte", "maxLength": int64(8000)}}},
			}}}},
		})
		require.Empty(t, problems)
		rules, problems := cel.CompileRules(schema, cel.RuleOptions{Stored: true, Prices: cel.KubernetesPrices()})
		require.Empty(t, problems)
		require.NotEmpty(t, rules.Validate(t.Context(), m{"items": items}, nil, true, nil), rule)
		if effort.Raced {
			return
		}
		require.NotEmpty(t, rules.Validate(t.Context(), m{"items": items}, nil, false, nil), rule)
	}
}

// endsAfter is a context that ends when it has been looked at some times.
type endsAfter struct {
	context.Context //nolint:containedctx // it is one
	looks           int
}

func (c *endsAfter) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

func TestCEL_22_ARequestThatEndsInAComparisonIsNoAnswer(t *testing.T) {
	long := make([]any, 30_000)
	for i := range long {
		long[i] = int64(i)
	}
	for _, rule := range []string{"self.n != self.n", "self.any != self.any", "!([self.n] == [self.n])"} {
		rules := heavyRules(t, rule)
		for looks := range 20 {
			ctx := &endsAfter{t.Context(), looks}
			require.NotEmpty(t, rules.Validate(ctx, m{"n": long, "any": m{"n": long}}, nil, false, nil), "%s: %d", rule, looks)
		}
	}
}

// As in kube-apiserver, which counts 255,000 units of a million for it.
func TestCEL_22_TextsAreLookedForInLists(t *testing.T) {
	texts := make([]any, 500)
	for i := range texts {
		texts[i] = strings.Repeat("x", 195) + fmt.Sprintf("%05d", i)
	}
	rules := heavyRules(t, "self.set.all(x, x in self.set)")
	for _, sound := range []bool{true, false} {
		require.Empty(t, rules.Validate(t.Context(), m{"set": texts}, nil, sound, nil))
	}
}

// The language counts the items of lists that are compared, but not what is in them, and nothing of what an optional
// has. A pattern that looks for its end after each place where it begins reads a text as often as it has characters.
func TestCEL_22_C2_WhatItemsAndMatchesTake(t *testing.T) {
	now, old := heavyObject(), heavyObject()
	for _, o := range []m{now, old} {
		o["n"] = o["n"].([]any)[:30]
		o["s"], o["u"] = strings.Repeat("x", 5000), strings.Repeat("1", 100_000)
		set := make([]any, 500)
		for i := range set {
			set[i] = strings.Repeat("x", 1000) + fmt.Sprint(i)
		}
		o["set"] = set
	}
	for _, rule := range []string{
		"self.n.all(i, (self.set + ['x']).size() > 0)",
		"self.n.all(i, '%s'.format([self.l]).size() > 0)",
		"self.n.all(i, timestamp(self.u) == timestamp('2020-01-02T03:04:05Z') || true)",
		"self.n.all(i, duration(self.u) == duration('1h') || true)",
		"self.n.all(i, double(self.u) == 1.0 || true)",
		"self.n.all(i, int(self.u) == 1 || true)",
		"self.n.all(i, uint(self.u) == 1u || true)",
		"self.n.all(i, bool(self.u) || true)",
		"self.n.all(i, sets.contains([self.l], [oldSelf.l]))",
		"self.n.all(i, sets.equivalent([self.l], [self.l]))",
		"self.n.all(i, sets.intersects([self.l], [self.l]))",
		"self.n.all(i, !sets.contains([self.l], [self.l + [1]]))",
		"self.n.all(i, [self.l, oldSelf.l].distinct().size() == 1)",
		"self.n.all(i, [self.any].indexOf(oldSelf.any) == 0)",
		"self.n.all(i, [self.any].lastIndexOf(oldSelf.any) == 0)",
		"self.n.all(i, optional.of(self.l) == optional.of(oldSelf.l))",
		"self.n.all(i, [self.l, self.l] != [self.l])",
		"self.s.findAll('x*y|x').size() > 0",
		"self.s.findAll('x*y|' + 'x').size() > 0",
	} {
		requireOverrun(t, rule, now, old)
	}
}

// The expressions of an environment have the second budget as well.
func TestAUTHNCFG_44_C2_StepsOnWhatIsLarge(t *testing.T) {
	e := environment(t, cel.Claims())
	for size, want := range map[int]error{1: nil, 40_000: cel.ErrBudget} {
		values := claims(map[string]any{"s": strings.Repeat("x", size), "l": make([]any, 5000)})
		p, err := e.Compile("claims.l.all(i, claims.s.size() > 0)", cel.Bool())
		require.NoError(t, err)
		_, err = p.Holds(t.Context(), values)
		require.ErrorIs(t, err, want)
		require.Len(t, values, 1, "the evaluation does not modify them")
	}
}
