package match

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/words"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Validate reports what is wrong with m, in the words of Kubernetes. The defaults have been applied.
func (m *Resources) Validate(at status.Field) {
	if m == nil {
		return
	}
	switch {
	case m.MatchPolicy == nil:
		at.Child("matchPolicy").Required("")
	case *m.MatchPolicy != Exact && *m.MatchPolicy != Equivalent:
		at.Child("matchPolicy").NotSupported(*m.MatchPolicy, Equivalent, Exact)
	}
	for _, s := range []struct {
		of   *meta.LabelSelector
		name string
	}{{m.NamespaceSelector, "namespaceSelector"}, {m.ObjectSelector, "objectSelector"}} {
		if s.of == nil {
			at.Child(s.name).Required("")
		} else {
			ValidateSelector(s.of, at.Child(s.name))
		}
	}
	for i := range m.ResourceRules {
		m.ResourceRules[i].validate(at.Child("resourceRules").Index(i))
	}
	for i := range m.ExcludeResourceRules {
		m.ExcludeResourceRules[i].validate(at.Child("excludeResourceRules").Index(i))
	}
}

// ValidateSelector reports what is wrong with a selector of labels.
func ValidateSelector(s *meta.LabelSelector, at status.Field) {
	if s == nil {
		return
	}
	for _, key := range sortedKeys(s.MatchLabels) {
		Invalid(at.Child("matchLabels"), key, words.QualifiedProblems(key))
		Invalid(at.Child("matchLabels"), s.MatchLabels[key], words.ValueProblems(s.MatchLabels[key]))
	}
	for i, r := range s.MatchExpressions {
		at := at.Child("matchExpressions").Index(i)
		switch r.Operator {
		case meta.In, meta.NotIn:
			if len(r.Values) == 0 {
				at.Child("values").Required("must be specified when `operator` is 'In' or 'NotIn'")
			}
		case meta.Exists, meta.DoesNotExist:
			if len(r.Values) > 0 {
				at.Child("values").Forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
			}
		default:
			at.Child("operator").Invalid(string(r.Operator), "not a valid selector operator")
		}
		Invalid(at.Child("key"), r.Key, words.QualifiedProblems(r.Key))
		for j, value := range r.Values {
			Invalid(at.Child("values").Index(j), value, words.ValueProblems(value))
		}
	}
}

// Invalid reports everything that is wrong with a word.
func Invalid(at status.Field, word string, problems []string) {
	for _, problem := range problems {
		at.Invalid(word, problem)
	}
}

func sortedKeys(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for key := range m {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

func (r *NamedRule) validate(at status.Field) {
	seen := map[string]bool{}
	for i, name := range r.ResourceNames {
		at := at.Child("resourceNames").Index(i)
		Invalid(at, name, words.SegmentProblems(name)) // "" is for objects that have no name before they are made
		if seen[name] {
			at.Duplicate(name)
		}
		seen[name] = true
	}
	r.RuleWithOperations.Validate(at)
}

// Validate reports what is wrong with a rule.
func (r *RuleWithOperations) Validate(at status.Field) {
	operations := []string{"*", "CONNECT", "CREATE", "DELETE", "UPDATE"}
	if len(r.Operations) == 0 {
		at.Child("operations").Required("")
	}
	alone(r.Operations, at.Child("operations"), "if '*' is present, must not specify other operations")
	for i, o := range r.Operations {
		if !slices.Contains(operations, o) {
			at.Child("operations").Index(i).NotSupported(o, operations...)
		}
	}
	if len(r.APIGroups) == 0 {
		at.Child("apiGroups").Required("")
	}
	alone(r.APIGroups, at.Child("apiGroups"), "if '*' is present, must not specify other API groups")
	if len(r.APIVersions) == 0 {
		at.Child("apiVersions").Required("")
	}
	alone(r.APIVersions, at.Child("apiVersions"), "if '*' is present, must not specify other API versions")
	for i, version := range r.APIVersions {
		if version == "" {
			at.Child("apiVersions").Index(i).Required("")
		}
	}
	validateNames(r.Resources, at.Child("resources"))
	if scopes := []string{AllScopes, ClusterScope, NamespacedScope}; r.Scope != nil && !slices.Contains(scopes, *r.Scope) {
		at.Child("scope").NotSupported(*r.Scope, scopes...)
	}
}

// alone reports a list with a "*" and something else.
func alone(list []string, at status.Field, problem string) {
	if len(list) > 1 && slices.Contains(list, "*") {
		at.Invalid(list, problem)
	}
}

func validateNames(names []string, at status.Field) {
	if len(names) == 0 {
		at.Required("")
	}
	whole, all := map[string]bool{}, map[string]bool{} // x/* and */x
	everything, star, plain := false, false, false
	for i, text := range names {
		if text == "" {
			at.Index(i).Required("")
			continue
		}
		everything = everything || text == "*/*"
		star = star || text == "*"
		name, subresource, divided := strings.Cut(text, "/")
		if !divided {
			plain = text != "*"
			continue
		}
		if whole[name] {
			at.Index(i).Invalid(text, fmt.Sprintf("if '%s/*' is present, must not specify %s", name, text))
		}
		if all[subresource] {
			at.Index(i).Invalid(text, fmt.Sprintf("if '*/%s' is present, must not specify %s", subresource, text))
		}
		if subresource == "*" {
			whole[name] = true
		}
		if name == "*" {
			all[subresource] = true
		}
	}
	if len(names) > 1 && everything {
		at.Invalid(names, "if '*/*' is present, must not specify other resources")
	}
	if star && plain {
		at.Invalid(names, "if '*' is present, must not specify other resources without subresources")
	}
}

// MaxConditions is how many match conditions there may be.
const MaxConditions = 64

// ValidateConditions reports what is wrong with match conditions. compile says what keeps an expression
// from being compiled, "" if nothing.
func ValidateConditions(conditions []Condition, at status.Field, compile func(expression string) string) {
	if len(conditions) > MaxConditions {
		at.TooMany(len(conditions), MaxConditions)
	}
	seen := map[string]bool{}
	for i, c := range conditions {
		at := at.Index(i)
		text := strings.TrimSpace(c.Expression)
		if text == "" {
			at.Child("expression").Required("")
		} else if problem := compile(text); problem != "" {
			at.Child("expression").Invalid(text, problem)
		}
		if c.Name == "" {
			at.Child("name").Required("")
			continue
		}
		Invalid(at.Child("name"), c.Name, words.QualifiedProblems(c.Name))
		if seen[c.Name] {
			at.Child("name").Duplicate(c.Name)
		}
		seen[c.Name] = true
	}
}
