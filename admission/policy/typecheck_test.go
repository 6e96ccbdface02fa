package policy_test

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/admission/policy"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

// letters is a server with a kind for each resource of one letter. Those of capital letters have no schema.
type letters struct{}

func (letters) KindOf(of meta.GroupVersionResource) (meta.GroupVersionKind, bool) {
	return of.GroupVersion().WithKind(of.Resource), len(of.Resource) == 1
}

func (letters) SchemaOf(kind meta.GroupVersionKind) *openapi.Schema {
	if kind.Kind < "a" {
		return nil
	}
	return &openapi.Schema{Type: openapi.Object}
}

// aboutLetters returns the rule for the resources of some letters.
func aboutLetters(of string) match.NamedRule {
	r := match.Rule{APIGroups: []string{"example.dev"}, APIVersions: []string{"v1"}}
	for _, letter := range of {
		r.Resources = append(r.Resources, string(letter))
	}
	return match.NamedRule{RuleWithOperations: match.RuleWithOperations{Operations: []string{"*"}, Rule: r}}
}

// As in Kubernetes, the tenth kind of one rule is the last one that is checked, also of those without a schema. Other
// rules before it are checked as well.
func TestPOL_06_HowManyKindsAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		rules []string
		want  string // the letters of the kinds that are checked
	}{
		"some":                  {[]string{"ba"}, "ab"},
		"ten of a rule":         {[]string{"lkjihgfedcba"}, "abcdefghij"},
		"nine and nine":         {[]string{"abcdefghi", "jklmnopqr"}, "abcdefghijklmnopqr"},
		"the same twice":        {[]string{"abcdefghi", "abcdefghi"}, "abcdefghi"},
		"ten, and a rule more":  {[]string{"z", "abcdefghij", "k"}, "abcdefghijz"},
		"those without schemas": {[]string{"ABCDEFGHabc", "d"}, "ab"},
		"what is not served":    {[]string{"a", "öäü"}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &policy.ValidatingAdmissionPolicy{}
			p.Spec.MatchConstraints = &match.Resources{}
			for _, r := range c.rules {
				p.Spec.MatchConstraints.ResourceRules = append(p.Spec.MatchConstraints.ResourceRules, aboutLetters(r))
			}
			p.Spec.Validations = []policy.Validation{{Expression: "object.nope"}}
			found := policy.CheckTypes(p, letters{})
			require.Len(t, found, 1)
			var got string
			for _, kind := range regexp.MustCompile("Kind=(.)").FindAllStringSubmatch(found[0].Warning, -1) {
				got += kind[1]
			}
			require.Equal(t, c.want, got)
		})
	}
}

// A rule of a few kilobytes names millions of resources, each group with each version and each resource. They are not
// listed, and not all are looked up.
func TestPOL_06_S1_ResourcesThatARuleNames(t *testing.T) {
	many := make([]string, 150)
	for i := range many {
		many[i] = fmt.Sprint("none", i)
	}
	rule := match.Rule{APIGroups: many, APIVersions: many, Resources: many}
	p := &policy.ValidatingAdmissionPolicy{}
	p.Spec.MatchConstraints = &match.Resources{ResourceRules: []match.NamedRule{{RuleWithOperations: match.RuleWithOperations{Rule: rule}}, aboutLetters("a")}}
	p.Spec.Validations = []policy.Validation{{Expression: "object.nope"}}
	policy.CheckTypes(p, letters{}) // the tables of the language
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	asked := &countedKinds{}
	require.Len(t, policy.CheckTypes(p, asked), 1, "other rules are looked at")
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
	require.Less(t, asked.times, 200_000)
}

// countedKinds counts the questions for kinds.
type countedKinds struct {
	letters

	times int
}

func (c *countedKinds) KindOf(of meta.GroupVersionResource) (meta.GroupVersionKind, bool) {
	c.times++
	return c.letters.KindOf(of)
}

// The warnings of a policy are written to its status. A store would not take megabytes, and the
// server would make them anew each time it tries.
func TestPOL_06_S1_WarningsAreBounded(t *testing.T) {
	p := &policy.ValidatingAdmissionPolicy{}
	p.Spec.MatchConstraints = &match.Resources{ResourceRules: []match.NamedRule{aboutLetters("abcdefghi"), aboutLetters("jklmnopqr")}}
	for range 200 {
		p.Spec.Validations = append(p.Spec.Validations, policy.Validation{Expression: "object.nope" + strings.Repeat(" ", 10<<10)})
	}
	size := 0
	found := policy.CheckTypes(p, letters{})
	for _, w := range found {
		size += len(w.Warning)
	}
	require.Less(t, size, 128<<10)
	require.Contains(t, found[len(found)-1].Warning, "there are too many warnings")
	require.Contains(t, found[0].Warning, "undefined field 'nope'")
	p.Spec.Validations = []policy.Validation{{Expression: "object.nope"}}
	found = policy.CheckTypes(p, letters{})
	require.Len(t, found, 1)
	require.NotContains(t, found[0].Warning, "too many")
}

// Variables are compiled once for each kind, not once more for each expression that may use them.
func TestPOL_06_S1_VariablesAreCheckedOnce(t *testing.T) {
	p := &policy.ValidatingAdmissionPolicy{}
	p.Spec.MatchConstraints = &match.Resources{ResourceRules: []match.NamedRule{aboutLetters("a")}}
	for i := range 50 {
		p.Spec.Variables = append(p.Spec.Variables, policy.Variable{Name: fmt.Sprintf("v%d", i), Expression: "1 + 1"})
	}
	cost := func(validations int) float64 {
		p.Spec.Validations = nil
		for range validations {
			p.Spec.Validations = append(p.Spec.Validations, policy.Validation{Expression: "1 + 1 == 2"})
		}
		return testing.AllocsPerRun(1, func() { require.Empty(t, policy.CheckTypes(p, letters{})) })
	}
	require.Less(t, cost(50), 10*cost(1))
}
