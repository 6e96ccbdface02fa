package policy

import (
	"cmp"
	"fmt"
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

// maxTypes is how many kinds a policy is checked against.
const maxTypes = 10

// CheckTypes compiles the validations of a policy with the types of the objects that its rules name, and
// returns a warning for each that does not compile. Rules with wildcards name nothing.
//
// Source: POL-06.
func CheckTypes(p *ValidatingAdmissionPolicy, types Types) []ExpressionWarning {
	kinds := kindsOf(p.Spec.MatchConstraints, types)
	var params *openapi.Schema
	if k := p.Spec.ParamKind; k != nil {
		if gv, err := meta.ParseGroupVersion(k.APIVersion); err == nil {
			params = types.SchemaOf(gv.WithKind(k.Kind))
		}
	}
	var out []ExpressionWarning
	check := func(text, field string) {
		var found []string
		for _, kind := range kinds {
			if problem := checkType(p, text, types.SchemaOf(kind), params); problem != "" {
				found = append(found, fmt.Sprintf("%s/%s, Kind=%s: %s\n", kind.Group, kind.Version, kind.Kind, problem))
			}
		}
		if len(found) > 0 {
			out = append(out, ExpressionWarning{FieldRef: field, Warning: strings.Join(found, "\n")})
		}
	}
	for i, v := range p.Spec.Validations {
		check(v.Expression, fmt.Sprintf("spec.validations[%d].expression", i))
		if v.MessageExpression != "" {
			check(v.MessageExpression, fmt.Sprintf("spec.validations[%d].messageExpression", i))
		}
	}
	return out
}

// checkType says what is wrong with an expression about objects of a schema, "" if nothing.
func checkType(p *ValidatingAdmissionPolicy, text string, object, params *openapi.Schema) string {
	scope, err := cel.NewAdmission(cel.AdmissionOptions{Stored: true, Params: p.Spec.ParamKind != nil, Object: object, ParamsType: params})
	if err != nil {
		return ""
	}
	for _, v := range p.Spec.Variables {
		_ = scope.Define(v.Name, v.Expression) // what uses it has any type
	}
	if _, err = scope.Compile(text, true); err != nil {
		return strings.TrimPrefix(err.Error(), "compilation failed: ")
	}
	return ""
}

// kindsOf returns the kinds that the rules name.
func kindsOf(m *match.Resources, types Types) []meta.GroupVersionKind {
	if m == nil {
		return nil
	}
	var out []meta.GroupVersionKind
	for _, r := range m.ResourceRules {
		for _, of := range named(r.Rule) {
			kind, ok := types.KindOf(of)
			if !ok || slices.Contains(out, kind) || types.SchemaOf(kind) == nil {
				continue
			}
			if out = append(out, kind); len(out) == maxTypes {
				break
			}
		}
	}
	slices.SortFunc(out, func(a, b meta.GroupVersionKind) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Version, b.Version), strings.Compare(a.Kind, b.Kind))
	})
	return out[:min(len(out), maxTypes)]
}

// named returns the resources that a rule names, without subresources.
func named(r match.Rule) []meta.GroupVersionResource {
	if slices.Contains(r.APIGroups, "*") || slices.Contains(r.APIVersions, "*") {
		return nil
	}
	var out []meta.GroupVersionResource
	for _, group := range slices.Sorted(slices.Values(r.APIGroups)) {
		for _, version := range slices.Sorted(slices.Values(r.APIVersions)) {
			for _, resource := range slices.Sorted(slices.Values(r.Resources)) {
				if !strings.ContainsAny(resource, "*/") {
					out = append(out, meta.GroupVersionResource{Group: group, Version: version, Resource: resource})
				}
			}
		}
	}
	return out
}
