package cel_test

import (
	"bufio"
	"bytes"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/openapi"
)

// recorded is what Kubernetes says to one expression; see internal/celoracle.
type recorded struct {
	Rule, Problem, Result string
	Most, Cost            uint64
}

// answers reads the recorded answers, and the schema and the object that they are about.
func answers(t testing.TB) (*openapi.Schema, map[string]any, []recorded) {
	t.Helper()
	text, err := os.ReadFile("testdata/kubernetes.jsonl")
	require.NoError(t, err)
	var schema *openapi.Schema
	var object map[string]any
	var out []recorded
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		v, err := json.DecodeTree(lines.Bytes(), json.TreeOptions{})
		require.NoError(t, err)
		line := v.(map[string]any)
		if schema == nil {
			s, problems := openapi.FromTree(line["schema"].(map[string]any))
			require.Empty(t, problems)
			schema, object = s, line["object"].(map[string]any)
			continue
		}
		r := recorded{}
		r.Rule, _ = line["rule"].(string)
		r.Problem, _ = line["problem"].(string)
		r.Result, _ = line["result"].(string)
		most, _ := line["most"].(string)
		cost, _ := line["cost"].(string)
		r.Most, _ = strconv.ParseUint(most, 10, 64)
		r.Cost, _ = strconv.ParseUint(cost, 10, 64)
		out = append(out, r)
	}
	return schema, object, out
}

// Kubernetes 1.36 builds on cel-go 0.26. What the versions of cel-go differ in is listed here.
var (
	// Macros that bind a variable are estimated to make a list.
	otherEstimate = regexp.MustCompile(`\.(distinct|optMap|optFlatMap)\(`)
	// NaN compares as false, and a negative range is an error.
	otherResult = regexp.MustCompile(`^-0\.0 / 0\.0 > 1\.0$|lists\.range\(-3\)`)
)

func TestCEL_10_11_16_18_19_27_AsKubernetes(t *testing.T) {
	schema, object, lines := answers(t)
	require.Greater(t, len(lines), 2500)
	for _, want := range lines {
		counted, plain := cel.Ask(t.Context(), schema, object, want.Rule, cel.KubernetesPrices())
		require.Equal(t, counted.Result, plain.Result, "%s: without counting", want.Rule)
		got := recorded{Rule: want.Rule, Problem: counted.Problem, Result: counted.Result, Most: counted.Most, Cost: counted.Cost}
		got.Problem = strings.ReplaceAll(got.Problem, "@self", "self")
		if strings.HasPrefix(want.Result, "failed: ") || otherResult.MatchString(want.Rule) {
			got.Cost = want.Cost // the step that fails is not counted
		}
		if otherEstimate.MatchString(want.Rule) {
			require.GreaterOrEqual(t, got.Most, want.Most)
			got.Most = want.Most
		}
		if otherResult.MatchString(want.Rule) {
			got.Result = want.Result
		}
		require.Equal(t, want, got)
		if !plain.Counted {
			require.LessOrEqual(t, counted.Cost, cel.BoundMargin*max(counted.Most, 1), "%s: the bound is one", want.Rule)
		}
	}
}

// The documentation's prices are higher for lists and patterns, and change no result.
func TestCEL_21_LIM_14_Prices(t *testing.T) {
	var document cel.Prices
	kubernetes := cel.KubernetesPrices()
	require.Equal(t, []uint64{1, 40, 35}, []uint64{document.Comparison(), document.ListLiteral(), document.Regex(5, 7)})
	require.Equal(t, []uint64{1, 10, 2}, []uint64{kubernetes.Comparison(), kubernetes.ListLiteral(), kubernetes.Regex(5, 7)})

	schema, object, lines := answers(t)
	for _, c := range []struct {
		rule                 string
		document, kubernetes uint64
	}{
		{"1 == 1", 1, 1},
		{"[1, 2] == [1]", 81, 21},
		{"[[1], [2]].size() == 2", 122, 32},
		{"[1].all(i, [i].size() == 1)", 87, 27},
		{"[1].map(i, i) == [1]", 105, 45}, // the macro's own lists are not written down
		{"'aaaaaaa'.matches('aaaaa')", 35, 2},
		{"'aaaaaaa'.find('aaaaa') == 'x'", 36, 3},
		{"'a' in ['a', 'b']", 42, 12},
		{"'a' in []", 10, 10},
	} {
		d, _ := cel.Ask(t.Context(), schema, object, c.rule, document)
		k, _ := cel.Ask(t.Context(), schema, object, c.rule, kubernetes)
		require.Equal(t, []uint64{c.document, c.kubernetes}, []uint64{d.Most, k.Most}, c.rule)
		require.Equal(t, d.Result, k.Result, c.rule)
		require.LessOrEqual(t, d.Cost, d.Most, c.rule)
		require.GreaterOrEqual(t, d.Cost, k.Cost, c.rule)
	}
	for _, l := range lines {
		if got, _ := cel.Ask(t.Context(), schema, object, l.Rule, document); !otherResult.MatchString(l.Rule) {
			require.Equal(t, l.Result, got.Result, l.Rule)
			require.Equal(t, l.Problem, strings.ReplaceAll(got.Problem, "@self", "self"), l.Rule)
		}
	}
}
