package match

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/cel"
)

// Condition is an expression that a request must fulfil for a policy or a webhook to be about it.
type Condition struct {
	Name       string `json:"name" protobuf:"bytes,1,opt,name=name" doc:"Identifies the condition."`
	Expression string `json:"expression" protobuf:"bytes,2,opt,name=expression" doc:"Must be true." expected:""`
}

// Conditions are compiled conditions.
type Conditions struct{ all []condition }

type condition struct {
	holds  *cel.AdmissionExpression
	failed error // why it does not compile
}

// CompileConditions compiles conditions in the scope of a policy.
func CompileConditions(scope *cel.Admission, conditions []Condition) Conditions {
	out := Conditions{all: make([]condition, len(conditions))}
	for i, c := range conditions {
		x, err := scope.Compile(c.Expression, true, cel.Bool())
		out.all[i] = condition{holds: x, failed: err}
	}
	return out
}

// Empty reports whether there are no conditions.
func (c Conditions) Empty() bool { return len(c.all) == 0 }

// Evaluation is one evaluation of the match conditions of a policy or a webhook. It is what servers count.
type Evaluation struct {
	Name      string // of the policy or the webhook
	Operation admission.Operation
	Mutating  bool // it changes objects
	Errors    int  // conditions that could not be evaluated
	Excluded  bool // a condition does not hold
	Took      time.Duration
}

// Judge reports whether all conditions hold. A condition that does not hold decides, even if others fail. Otherwise the
// error is that of all conditions that failed. told is told of the evaluation, which e describes; it may be nil.
func (c Conditions) Judge(ctx context.Context, run *cel.AdmissionRun, e Evaluation, told func(Evaluation)) (bool, error) {
	start := time.Now()
	ok, errs, err := c.hold(ctx, run)
	if e.Took, e.Errors, e.Excluded = time.Since(start), errs, !ok && err == nil; told != nil {
		told(e)
	}
	return ok, err
}

// hold evaluates the conditions, and returns how many of them failed.
func (c Conditions) hold(ctx context.Context, run *cel.AdmissionRun) (ok bool, errs int, err error) {
	var failed []string
	for i := range c.all {
		one := &c.all[i]
		if one.failed != nil {
			failed = append(failed, "compilation error: "+one.failed.Error())
			continue
		}
		v, err := run.Evaluate(ctx, one.holds)
		switch {
		case errors.Is(err, cel.ErrBudget), err != nil && ctx.Err() != nil:
			return false, len(failed) + 1, err
		case err != nil:
			failed = append(failed, err.Error())
		case v == false:
			return false, len(failed), nil
		}
	}
	switch len(failed) {
	case 0:
		return true, 0, nil
	case 1:
		return false, 1, errors.New(failed[0])
	}
	return false, len(failed), fmt.Errorf("[%s]", strings.Join(failed, ", "))
}
