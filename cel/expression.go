package cel

import (
	"context"
	"errors"
	"slices"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// expression is a compiled expression of a rule.
type expression struct {
	text  string
	env   *celgo.Env
	ast   *celgo.Ast
	costs *costs
	most  uint64 // what one evaluation costs at most

	work, tables, parts int // what it took to compile: see compiler.work and compiler.tables; its calls

	plain   celgo.Program // does not count; nil if a single evaluation could cost too much
	counted func() (celgo.Program, error)
}

// plan prepares the evaluation. The program that counts costs is only made when it is needed: most
// rules are proved to stay within their budget.
func (e *expression) plan() error {
	counted := sync.OnceValues(func() (celgo.Program, error) {
		return e.env.Program(
			e.ast,
			constantPatterns(),
			boundedComparisons(),
			guards(e.env),
			trims(),
			celgo.EvalOptions(celgo.OptOptimize, celgo.OptTrackCost),
			celgo.CostTrackerOptions(interpreter.PresenceTestHasCost(false)),
			celgo.CostTracking(e.costs),
			celgo.CostLimit(RuleCostLimit),
			celgo.InterruptCheckFrequency(interruptFrequency),
		)
	})
	e.counted = counted
	if e.most > RuleCostLimit/boundMargin || e.calls("format-validate") || e.weighty() {
		_, err := counted()
		return err
	}
	var err error
	e.plain, err = e.env.Program(e.ast, constantPatterns(), boundedComparisons(), guards(e.env), untrimmed(), celgo.EvalOptions(celgo.OptOptimize), celgo.InterruptCheckFrequency(interruptFrequency))
	return err
}

// boundMargin is how far within its budget an evaluation must be to need no counting. Estimates
// round in other places than costs: for short texts, an estimate can be several times too low. Those
// of named formats are no bounds at all.
const boundMargin = 16

// calls reports whether the expression calls a function.
func (e *expression) calls(overload string) bool {
	for _, r := range e.ast.NativeRep().ReferenceMap() {
		if slices.Contains(r.OverloadIDs, overload) {
			return true
		}
	}
	return false
}

// uses reports whether the expression refers to a variable.
func (e *expression) uses(variable string) bool {
	for _, r := range e.ast.NativeRep().ReferenceMap() {
		if r.Name == variable {
			return true
		}
	}
	return false
}

// brief is a cost that takes less than a millisecond. Such an evaluation need not watch its context,
// which would take longer than most rules.
const brief = 10_000

// run evaluates the expression and returns what it cost: the bound, if the program need not count.
func (e *expression) run(ctx context.Context, vars interpreter.Activation, count bool) (ref.Val, uint64, error) {
	if e.plain != nil && !count {
		if e.most <= brief && ctx.Err() == nil {
			v, _, err := e.plain.Eval(vars)
			return v, e.most, err
		}
		v, _, err := e.plain.ContextEval(ctx, vars)
		return v, e.most, err
	}
	program, err := e.counted()
	if err != nil {
		return nil, 0, err
	}
	v, details, err := program.ContextEval(ctx, vars)
	var cost uint64
	if details != nil && details.ActualCost() != nil {
		cost = *details.ActualCost()
	}
	return v, cost, err
}

// variables are self and oldSelf.
type variables struct {
	self, old ref.Val // old is nil if there is none
	work      load
}

// ResolveName returns the value of a variable.
func (v *variables) ResolveName(name string) (any, bool) {
	switch name {
	case "self":
		return v.self, true
	case "oldSelf":
		return v.old, v.old != nil
	case workName:
		return &v.work, true
	}
	return nil, false
}

// Parent returns nil: there are no other variables.
func (v *variables) Parent() interpreter.Activation { return nil }

// isOverrun reports whether an evaluation was ended because it costs too much.
func isOverrun(err error) bool {
	var cancelled interpreter.EvalCancelledError
	return errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded
}
