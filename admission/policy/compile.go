package policy

import (
	"context"
	"fmt"
	"strings"

	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/meta"
)

// compiled is a policy with its expressions compiled. It is immutable.
type compiled struct {
	scope       *cel.Admission
	conditions  match.Conditions
	validations []validation
	annotations []annotation
	mutations   []mutation // in place of validations
	again       bool       // the mutations are evaluated again after others
	failed      error      // what keeps the whole policy from being evaluated
}

// expression is an expression, or why it does not compile.
type expression struct {
	*cel.AdmissionExpression
	failed error
}

type validation struct {
	holds, says expression
	hasSays     bool
	message     string
	reason      meta.Reason
}

type annotation struct {
	key   string
	value expression
}

// compile compiles the expressions of a policy that is stored already.
func compile(spec *ValidatingAdmissionPolicySpec, prices cel.Prices) *compiled {
	scope, err := cel.NewAdmission(cel.AdmissionOptions{Stored: true, Params: spec.ParamKind != nil, Prices: prices})
	if err != nil {
		return &compiled{failed: err}
	}
	for _, v := range spec.Variables {
		_ = scope.Define(v.Name, v.Expression) // the expressions that use it fail
	}
	out := &compiled{scope: scope, conditions: match.CompileConditions(scope, spec.MatchConditions)}
	for _, v := range spec.Validations {
		one := validation{
			holds: compileOne(scope, v.Expression, true, cel.Bool()), message: strings.TrimSpace(v.Message), reason: meta.ReasonInvalid,
		}
		if v.Reason != nil {
			one.reason = meta.Reason(*v.Reason)
		}
		if v.MessageExpression != "" {
			one.says, one.hasSays = compileOne(scope, v.MessageExpression, false, cel.String()), true
		}
		out.validations = append(out.validations, one)
	}
	for _, a := range spec.AuditAnnotations {
		out.annotations = append(out.annotations, annotation{a.Key, compileOne(scope, a.ValueExpression, true, cel.String(), cel.Null())})
	}
	return out
}

func compileOne(scope *cel.Admission, text string, authorizer bool, results ...cel.Type) expression {
	x, err := scope.Compile(text, authorizer, results...)
	return expression{x, err}
}

func (x expression) evaluate(ctx context.Context, run *cel.AdmissionRun) (any, error) {
	if x.failed != nil {
		return nil, fmt.Errorf("compilation error: %w", x.failed)
	}
	return run.Evaluate(ctx, x.AdmissionExpression)
}
