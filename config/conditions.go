package config

import (
	"context"
	"errors"

	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/meta"
)

// conditionCompiler compiles match conditions.
type conditionCompiler struct{ environment *cel.Environment }

func (c *conditionCompiler) compile(expression string) (*cel.Program, error) {
	if c.environment == nil {
		var err error
		if c.environment, err = cel.NewEnvironment(cel.AccessReview()); err != nil {
			return nil, err
		}
	}
	return c.environment.Compile(expression, cel.Bool())
}

// matcher evaluates the conditions of one webhook.
type matcher []*cel.Program

// compileConditions returns nil if there are no conditions.
func compileConditions(conditions []WebhookMatchCondition) (matcher, error) {
	var out matcher
	var compiler conditionCompiler
	for _, c := range conditions {
		p, err := compiler.compile(c.Expression)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// match reports whether all conditions hold. A condition that does not hold counts more than those
// that fail. Source: AUTHZCFG-18.
func (m matcher) match(ctx context.Context, spec *authz.SubjectAccessReviewSpec) (bool, error) {
	values := cel.Values{"request": valueOf(spec)}
	var failed []error
	for _, p := range m {
		holds, err := p.Holds(ctx, values)
		switch {
		case err != nil:
			failed = append(failed, err)
		case !holds:
			return false, nil
		}
	}
	return len(failed) == 0, errors.Join(failed...)
}

// valueOf is the value of the variable "request". As in Kubernetes, it lacks selectors if there are
// none, and has all other fields.
func valueOf(s *authz.SubjectAccessReviewSpec) map[string]any {
	groups, extra := s.Groups, s.Extra
	if groups == nil {
		groups = []string{}
	}
	if extra == nil {
		extra = map[string][]string{}
	}
	out := map[string]any{"user": s.User, "groups": groups, "uid": s.UID, "extra": extra}
	if n := s.NonResourceAttributes; n != nil {
		out["nonResourceAttributes"] = map[string]any{"path": n.Path, "verb": n.Verb}
	}
	r := s.ResourceAttributes
	if r == nil {
		return out
	}
	resource := map[string]any{
		"namespace": r.Namespace, "verb": r.Verb, "group": r.Group, "version": r.Version,
		"resource": r.Resource, "subresource": r.Subresource, "name": r.Name,
	}
	if f := r.FieldSelector; f != nil {
		var all []any
		for _, q := range f.Requirements {
			all = append(all, requirement(q.Key, q.Operator, q.Values))
		}
		resource["fieldSelector"] = map[string]any{"requirements": all}
	}
	if l := r.LabelSelector; l != nil {
		var all []any
		for _, q := range l.Requirements {
			all = append(all, requirement(q.Key, q.Operator, q.Values))
		}
		resource["labelSelector"] = map[string]any{"requirements": all}
	}
	out["resourceAttributes"] = resource
	return out
}

func requirement(key string, op meta.Operator, values []string) map[string]any {
	if values == nil {
		values = []string{}
	}
	return map[string]any{"key": key, "operator": string(op), "values": values}
}
