package match_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/meta"
)

// forms is a server that serves widgets in two versions.
type forms struct{ admission.Server }

func (forms) Forms(meta.GroupVersionResource) []admission.Form {
	return []admission.Form{form("v1"), form("v2")}
}

func form(version string) admission.Form {
	of := meta.GroupVersionResource{Group: "example.dev", Version: version, Resource: "widgets"}
	return admission.Form{Resource: of, Kind: of.GroupVersion().WithKind("Widget")}
}

func rule(version string, resources ...string) match.NamedRule {
	return match.NamedRule{RuleWithOperations: match.RuleWithOperations{
		Operations: []string{"CREATE", "UPDATE"}, Rule: match.Rule{APIGroups: []string{"example.dev"}, APIVersions: []string{version}, Resources: resources},
	}}
}

func request(version, subresource string) *admission.Request {
	f := form(version)
	return &admission.Request{
		Operation: admission.Update, Resource: f.Resource, Kind: f.Kind, Subresource: subresource, Name: "a", Namespace: "default", Server: forms{},
		Object: map[string]any{"metadata": map[string]any{}}, OldObject: map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}},
	}
}

func TestPOL_01_Match(t *testing.T) {
	named, scoped := rule("v1", "widgets"), rule("v1", "widgets")
	named.ResourceNames = []string{"b"}
	cluster := match.ClusterScope
	scoped.Scope = &cluster
	exact := match.Exact
	for name, c := range map[string]struct {
		of   match.Resources
		r    *admission.Request
		want string // the version in which the objects are shown; "" for no match
	}{
		"the same version":              {match.Resources{ResourceRules: []match.NamedRule{rule("v1", "widgets")}}, request("v1", ""), "v1"},
		"another version":               {match.Resources{ResourceRules: []match.NamedRule{rule("v1", "widgets")}}, request("v2", ""), "v1"},
		"another version, exactly":      {match.Resources{ResourceRules: []match.NamedRule{rule("v1", "widgets")}, MatchPolicy: &exact}, request("v2", ""), ""},
		"every version":                 {match.Resources{ResourceRules: []match.NamedRule{rule("*", "*")}}, request("v2", ""), "v2"},
		"no rules":                      {match.Resources{}, request("v2", ""), "v2"},
		"a subresource":                 {match.Resources{ResourceRules: []match.NamedRule{rule("v1", "widgets")}}, request("v1", "status"), ""},
		"the subresource":               {match.Resources{ResourceRules: []match.NamedRule{rule("v1", "*/status")}}, request("v1", "status"), "v1"},
		"everything":                    {match.Resources{ResourceRules: []match.NamedRule{rule("v1", "*/*")}}, request("v1", ""), "v1"},
		"another name":                  {match.Resources{ResourceRules: []match.NamedRule{named}}, request("v1", ""), ""},
		"another scope":                 {match.Resources{ResourceRules: []match.NamedRule{scoped}}, request("v1", ""), ""},
		"excluded":                      {match.Resources{ResourceRules: []match.NamedRule{rule("*", "*")}, ExcludeResourceRules: []match.NamedRule{rule("v1", "widgets")}}, request("v2", ""), ""},
		"the labels that it had":        {match.Resources{ObjectSelector: &meta.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}, request("v1", ""), "v1"},
		"labels that it has not":        {match.Resources{ObjectSelector: &meta.LabelSelector{MatchLabels: map[string]string{"a": "c"}}}, request("v1", ""), ""},
		"labels that it must not have":  {match.Resources{ObjectSelector: &meta.LabelSelector{MatchExpressions: []meta.LabelSelectorRequirement{{Key: "a", Operator: meta.DoesNotExist}}}}, request("v1", ""), "v1"},
		"a document of the subresource": {match.Resources{ResourceRules: []match.NamedRule{rule("v1", "widgets/scale")}}, request("v2", "scale"), "v1"},
	} {
		t.Run(name, func(t *testing.T) {
			c.of.Default()
			m, err := match.Compile(&c.of)
			require.NoError(t, err)
			as, ok, err := m.Match(t.Context(), c.r)
			require.NoError(t, err)
			require.Equal(t, c.want != "", ok)
			if ok {
				require.Equal(t, c.want, as.Resource.Version)
			}
		})
	}
}

// A namespace that has no name yet is one all the same, and has labels.
func TestPOL_01_WHK_06_ANamespaceWhoseNameIsMade(t *testing.T) {
	r := &admission.Request{
		Operation: admission.Create, Resource: meta.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Kind: meta.GroupVersionKind{Version: "v1", Kind: "Namespace"},
		Object: map[string]any{"metadata": map[string]any{"generateName": "team-", "labels": map[string]any{"team": "blue"}}},
	}
	for value, want := range map[string]bool{"blue": true, "red": false} {
		m, err := match.Compile(&match.Resources{NamespaceSelector: &meta.LabelSelector{MatchLabels: map[string]string{"team": value}}})
		require.NoError(t, err)
		_, ok, err := m.Match(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, want, ok, value)
	}
}

func TestPOL_01_ABadSelectorDoesNotCompile(t *testing.T) {
	_, err := match.Compile(&match.Resources{NamespaceSelector: &meta.LabelSelector{MatchLabels: map[string]string{"a b": ""}}})
	require.ErrorContains(t, err, "namespace selector: ")
}
