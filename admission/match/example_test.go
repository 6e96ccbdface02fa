package match_test

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/meta"
)

// The rule is about new widgets with a label.
func Example() {
	resources := &match.Resources{
		ObjectSelector: &meta.LabelSelector{MatchLabels: map[string]string{"checked": "true"}},
		ResourceRules: []match.NamedRule{{RuleWithOperations: match.RuleWithOperations{
			Operations: []string{"CREATE"},
			Rule:       match.Rule{APIGroups: []string{"example.dev"}, APIVersions: []string{"*"}, Resources: []string{"widgets"}},
		}}},
	}
	resources.Default()
	m, err := match.Compile(resources)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, checked := range []string{"true", "false"} {
		_, ok, err := m.Match(context.Background(), &admission.Request{
			Operation: admission.Create,
			Resource:  meta.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "widgets"},
			Object:    map[string]any{"metadata": map[string]any{"labels": map[string]any{"checked": checked}}},
		})
		fmt.Println(ok, err)
	}
	// Output:
	// true <nil>
	// false <nil>
}
