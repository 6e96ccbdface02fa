package policy

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

// Types are the types of a server's objects.
type Types interface {
	// KindOf returns the kind of a resource.
	KindOf(of meta.GroupVersionResource) (meta.GroupVersionKind, bool)

	// SchemaOf returns the schema of a kind, nil if the server does not have it.
	SchemaOf(kind meta.GroupVersionKind) *openapi.Schema
}

// maxTypes is how many kinds of one rule a policy is checked against. No later rule is looked at then.
const maxTypes = 10

// maxNamed is how many of the resources that a rule names are looked up. The groups, versions and resources of all
// kinds that a server has make fewer as a rule. Ten times as many are for all rules of a policy.
const maxNamed = 100_000

// maxWarnings bounds the warnings of a policy, in bytes. They are written to its status, which the
// store has to take, and each shows the line that it is about.
const maxWarnings = 64 << 10

// unchecked ends the last warning of a policy that has too many.
const unchecked = "there are too many warnings; what comes after this expression, or for other kinds, was not checked\n"

// CheckTypes compiles the validations of a policy with the types of the objects that its rules name, and
// returns a warning for each that does not compile. Rules with wildcards name nothing. After 64 KiB
// of warnings the rest is not checked, and the last one says so.
//
// Source: POL-06.
func CheckTypes(p *ValidatingAdmissionPolicy, types Types) []ExpressionWarning {
	var params *openapi.Schema
	if k := p.Spec.ParamKind; k != nil {
		if gv, err := meta.ParseGroupVersion(k.APIVersion); err == nil {
			params = types.SchemaOf(gv.WithKind(k.Kind))
		}
	}
	all := checkedExpressions(p)
	size := 0
	for _, kind := range kindsOf(p.Spec.MatchConstraints, types) {
		scope := typedScope(p, types.SchemaOf(kind), params) // for all expressions: it has compiled the variables
		for i := range all {
			problem := checkType(scope, all[i].text)
			if problem == "" {
				continue
			}
			problem = fmt.Sprintf("%s/%s, Kind=%s: %s\n", kind.Group, kind.Version, kind.Kind, problem)
			all[i].found = append(all[i].found, problem)
			if size += len(problem); size > maxWarnings {
				all[i].found = append(all[i].found, unchecked)
				return warningsOf(all)
			}
		}
	}
	return warningsOf(all)
}

// checkedExpression is an expression of a policy, with what is wrong with it for each kind.
type checkedExpression struct {
	field, text string
	found       []string
}

func checkedExpressions(p *ValidatingAdmissionPolicy) (out []checkedExpression) {
	for i, v := range p.Spec.Validations {
		out = append(out, checkedExpression{field: fmt.Sprintf("spec.validations[%d].expression", i), text: v.Expression})
		if v.MessageExpression != "" {
			out = append(out, checkedExpression{field: fmt.Sprintf("spec.validations[%d].messageExpression", i), text: v.MessageExpression})
		}
	}
	return out
}

func warningsOf(all []checkedExpression) (out []ExpressionWarning) {
	for _, one := range all {
		if len(one.found) > 0 {
			out = append(out, ExpressionWarning{FieldRef: one.field, Warning: strings.Join(one.found, "\n")})
		}
	}
	return out
}

// typedScope returns the scope of the expressions of a policy about objects of a schema, nil if
// there is none.
func typedScope(p *ValidatingAdmissionPolicy, object, params *openapi.Schema) *cel.Admission {
	scope, err := cel.NewAdmission(cel.AdmissionOptions{Stored: true, Params: p.Spec.ParamKind != nil, Object: object, ParamsType: params})
	if err != nil {
		return nil
	}
	for _, v := range p.Spec.Variables {
		_ = scope.Define(v.Name, v.Expression) // what uses it has any type
	}
	return scope
}

// checkType says what is wrong with an expression in a scope, "" if nothing.
func checkType(scope *cel.Admission, text string) string {
	if scope == nil {
		return ""
	}
	if _, err := scope.Compile(text, true); err != nil {
		return strings.TrimPrefix(err.Error(), "compilation failed: ")
	}
	return ""
}

// kindsOf returns the kinds that the rules name and that have schemas. Those without count as well.
func kindsOf(m *match.Resources, types Types) (out []meta.GroupVersionKind) {
	if m == nil {
		return nil
	}
	all := map[meta.GroupVersionKind]bool{}
	rest := 10 * maxNamed
	for i, count := 0, 0; i < len(m.ResourceRules) && count < maxTypes && rest > 0; i++ {
		count = 0
		left := min(maxNamed, rest)
		for of := range named(m.ResourceRules[i].Rule) {
			if kind, ok := types.KindOf(of); ok {
				all[kind], count = true, count+1
			}
			rest--
			if left--; count == maxTypes || left == 0 {
				break
			}
		}
	}
	for kind := range all {
		if types.SchemaOf(kind) != nil {
			out = append(out, kind)
		}
	}
	slices.SortFunc(out, func(a, b meta.GroupVersionKind) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Version, b.Version), strings.Compare(a.Kind, b.Kind))
	})
	return out
}

// named returns the resources that a rule names, without subresources. A short rule names millions.
func named(r match.Rule) iter.Seq[meta.GroupVersionResource] {
	return func(yield func(meta.GroupVersionResource) bool) {
		if slices.Contains(r.APIGroups, "*") || slices.Contains(r.APIVersions, "*") {
			return
		}
		versions, resources := slices.Sorted(slices.Values(r.APIVersions)), slices.Sorted(slices.Values(r.Resources))
		resources = slices.DeleteFunc(resources, func(name string) bool { return strings.ContainsAny(name, "*/") })
		for _, group := range slices.Sorted(slices.Values(r.APIGroups)) {
			for _, version := range versions {
				for _, resource := range resources {
					if !yield(meta.GroupVersionResource{Group: group, Version: version, Resource: resource}) {
						return
					}
				}
			}
		}
	}
}
