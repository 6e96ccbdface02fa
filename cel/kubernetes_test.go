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
		counted, plain := cel.Ask(t.Context(), schema, object, want.Rule)
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
