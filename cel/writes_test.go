package cel_test

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/openapi"
)

var otherWrites = flag.String("writes", "testdata/writes.jsonl", "the writes of celoracle to judge")

// Random schemas, objects and what they replace, with the causes and the warnings of Kubernetes; see
// internal/celoracle. An object that fulfils its schema gives the same with and without counting.
func TestCRD_12_14_CEL_28_WritesAsKubernetes(t *testing.T) {
	recorded, err := os.Open(*otherWrites)
	require.NoError(t, err)
	defer func() { require.NoError(t, recorded.Close()) }()
	lines := bufio.NewScanner(recorded)
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		v, err := json.DecodeTree(lines.Bytes(), json.TreeOptions{})
		require.NoError(t, err)
		write := v.(map[string]any)
		schema, problems := openapi.FromTree(write["schema"].(map[string]any))
		require.Empty(t, problems)
		rules, problems := cel.CompileRules(schema, cel.RuleOptions{Stored: true})
		require.Empty(t, problems)
		old, _ := write["old"].(map[string]any)
		for _, sound := range []bool{false, true} {
			warnings := []string{}
			causes := texts(rules.Validate(t.Context(), write["object"].(map[string]any), old, sound, func(text string) { warnings = append(warnings, text) }))
			slices.Sort(causes)
			slices.Sort(warnings)
			require.Equal(t, explained(write, textsOf(write["causes"]), causes), causes, "write %d: %s", n, lines.Text())
			require.Equal(t, textsOf(write["warnings"]), warnings, "write %d: %s", n, lines.Text())
		}
		n++
	}
	require.NoError(t, lines.Err())
	require.GreaterOrEqual(t, n, 300)
	t.Log(n, "writes")
}

// explained leaves out the cause of a rule that Kubernetes alone finds broken: the value of an optional oldSelf has
// no schema there, so that a set in another order is not equal to it. See page 0034.
func explained(write map[string]any, causes, ours []string) []string {
	set := func(of any) []any {
		object, _ := of.(map[string]any)
		spec, _ := object["spec"].(map[string]any)
		list, _ := spec["set"].([]any)
		return list
	}
	now, before := set(write["object"]), set(write["old"])
	inOrder := func(list []any) []any {
		return slices.SortedFunc(slices.Values(list), func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	if slices.Equal(now, before) || !slices.Equal(inOrder(now), inOrder(before)) {
		return causes
	}
	allowed := 0
	schema := write["schema"].(map[string]any)["properties"].(map[string]any)["spec"].(map[string]any)
	rules, _ := schema["x-kubernetes-validations"].([]any)
	for _, r := range rules {
		if r.(map[string]any)["rule"] == "!oldSelf.hasValue() || oldSelf.value() == self" {
			allowed++
		}
	}
	return slices.DeleteFunc(causes, func(cause string) bool { // its text is of the rule's message, reason and path
		if slices.Contains(ours, cause) || allowed == 0 {
			return false
		}
		allowed--
		return true
	})
}

// textsOf returns a list of text.
func textsOf(v any) []string {
	out := []string{}
	for _, s := range v.([]any) {
		out = append(out, s.(string))
	}
	return out
}
