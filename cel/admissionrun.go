package cel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/kindwright/kindwright/authz"
)

// Budgets of the expressions of a policy.
// Source: CEL-26, POL-07.
const (
	// BindingCostLimit bounds what the expressions of a policy cost together, for one binding and one
	// parameter.
	BindingCostLimit = 10_000_000
	// MatchConditionsCostLimit bounds what the match conditions cost together.
	MatchConditionsCostLimit = 2_500_000
)

// AdmissionInput is what the expressions of a policy see of a request. The trees are not modified. Nil
// trees are null.
type AdmissionInput struct {
	Object, OldObject, Params map[string]any

	// Request returns the value of request. It is called when an expression reads it, at most once for
	// each evaluation.
	Request func() map[string]any

	// Ask decides what users may do. About is the user and the object of the request. An input without
	// Ask has no authorizer.
	Ask   AskFunc
	About authz.Attributes

	// Namespace returns the namespace of the request, nil if there is none, likewise.
	Namespace func(ctx context.Context) (map[string]any, error)
}

// AdmissionRun evaluates the expressions of a policy for one request. It keeps the values of variables,
// so each is evaluated once. It belongs to one goroutine.
type AdmissionRun struct {
	of      *Admission
	in      AdmissionInput
	left    uint64
	current context.Context //nolint:containedctx // of the evaluation that is running, for variables

	object, oldObject, params, request, namespace ref.Val // as far as they were read

	values map[string]ref.Val // of variables
	spent  uint64             // by variables in the current evaluation
	work   load               // of the current evaluation, and its variables
}

// Run returns a run with a budget.
func (a *Admission) Run(in AdmissionInput, budget uint64) *AdmissionRun {
	return &AdmissionRun{of: a, in: in, left: budget}
}

// Renew gives the run a new budget.
func (r *AdmissionRun) Renew(budget uint64) { r.left = budget }

// BudgetMessage begins the error of a run whose budget is used up.
const BudgetMessage = "validation failed due to running out of cost budget"

// errOutOfBudget ends the evaluation of a policy.
var errOutOfBudget = budgetError(BudgetMessage + ", no further validation rules will be run")

// budgetError is an error that wraps ErrBudget and has a text of its own.
type budgetError string

func (e budgetError) Error() string { return string(e) }
func (e budgetError) Unwrap() error { return ErrBudget }

// cheap is what a bound may be for the bound to be charged in place of the cost.
const cheap = 1000

// Evaluate returns the value of an expression as decoded JSON. The error of an expression that fails says
// why; it does not keep others from being evaluated. An error that wraps [ErrBudget] says that the budget
// of the run is used up, and that of a context that it has ended.
//
// The value of a [Configuration] is a map[string]any, and that of [Patches] a []Patch.
func (r *AdmissionRun) Evaluate(ctx context.Context, x *AdmissionExpression) (any, error) {
	v, err := r.value(ctx, x)
	if err != nil {
		return nil, err
	}
	switch made := x.code.ast.OutputType(); {
	case isConfiguration(made):
		return configuration(v, CostLimit)
	case isPatches(made):
		return patches(v, CostLimit)
	}
	return plain(v, CostLimit)
}

func (r *AdmissionRun) value(ctx context.Context, x *AdmissionExpression) (ref.Val, error) {
	if x.failed != nil {
		return nil, fmt.Errorf("compilation error: %w", x.failed)
	}
	if err := ended(ctx); err != nil {
		return nil, err
	}
	r.current, r.spent, r.work = ctx, 0, newWork(ctx, workLimit)
	v, cost, err := x.code.run(ctx, r, x.code.most > cheap)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if cost += r.spent + uint64(max(0, workLimit-r.work.left)); cost > r.left { //nolint:gosec // not negative
		return nil, errOutOfBudget
	}
	r.left -= cost
	if err != nil {
		return nil, fmt.Errorf("expression '%s' resulted in error: %w", x.text, err)
	}
	return v, nil
}

// ResolveName returns the value of a variable.
func (r *AdmissionRun) ResolveName(name string) (any, bool) {
	switch name {
	case "object":
		return known(&r.object, r.in.Object), true
	case "oldObject":
		return known(&r.oldObject, r.in.OldObject), true
	case "params":
		return known(&r.params, r.in.Params), true
	case "request":
		if r.request == nil {
			r.request = native(r.in.Request())
		}
		return r.request, true
	case "namespaceObject":
		return r.namespaceObject(), true
	case "variables":
		return variableMap{r}, true
	case workName:
		return &r.work, true
	case "authorizer":
		return r.asker(authorizerType, authz.Attributes{User: r.in.About.User}), r.in.Ask != nil
	case requestResource:
		return r.asker(resourceCheckType, r.in.About), r.in.Ask != nil
	}
	return nil, false
}

// Parent returns nil: there are no other variables.
func (r *AdmissionRun) Parent() interpreter.Activation { return nil }

// asker is the beginning of a question. Questions about resources are about all their versions.
func (r *AdmissionRun) asker(of *types.Type, about authz.Attributes) ref.Val {
	if about.ResourceRequest {
		about.Version = "*"
	}
	return &asker{is: of, data: question{ask: r.in.Ask, about: about}}
}

func (r *AdmissionRun) namespaceObject() ref.Val {
	if r.namespace == nil {
		var namespace map[string]any
		if r.in.Namespace != nil {
			var err error
			if namespace, err = r.in.Namespace(r.current); err != nil {
				return types.WrapErr(err)
			}
		}
		r.namespace = native(untyped(namespace))
	}
	return r.namespace
}

// untyped returns a namespace without its version and kind, which it has in no other way: its type has no such fields, and
// kube-apiserver takes it from a cache whose objects lack them.
func untyped(namespace map[string]any) map[string]any {
	out := maps.Clone(namespace)
	delete(out, "apiVersion")
	delete(out, "kind")
	return out
}

// known returns the value of a tree, which is made once.
func known(to *ref.Val, t map[string]any) ref.Val {
	if *to == nil {
		*to = native(t)
	}
	return *to
}

func native(t map[string]any) ref.Val {
	if t == nil {
		return types.NullValue
	}
	return &treeMap{t}
}

// variable returns the value of a variable that the policy defines.
func (r *AdmissionRun) variable(name string) (ref.Val, bool) {
	x, ok := r.of.defined[name]
	if !ok {
		return nil, false
	}
	if v, ok := r.values[name]; ok {
		return v, true
	}
	v := r.define(name, x)
	if r.values == nil {
		r.values = map[string]ref.Val{}
	}
	r.values[name] = v
	return v, true
}

func (r *AdmissionRun) define(name string, x *AdmissionExpression) ref.Val {
	if x.failed != nil {
		return types.WrapErr(fmt.Errorf("composited variable %q fails to compile: %w", name, x.failed))
	}
	if r.spent > r.left {
		return types.WrapErr(errOutOfBudget) // so is the evaluation that reads the variable, whatever it makes of this
	}
	v, cost, err := x.code.run(r.current, r, x.code.most > cheap)
	r.spent += cost
	if err != nil {
		return types.WrapErr(fmt.Errorf("composited variable %q fails to evaluate: %w", name, err))
	}
	return v
}

// variableMap is the value of variables. Its fields are evaluated when they are read.
type variableMap struct{ run *AdmissionRun }

// Find returns a variable.
func (m variableMap) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), true
	}
	return m.run.variable(string(name))
}

func (m variableMap) Get(key ref.Val) ref.Val      { return get(m, key) }
func (m variableMap) Contains(key ref.Val) ref.Val { return contains(m, key) }
func (m variableMap) Size() ref.Val                { return types.Int(len(m.run.of.defined)) }
func (m variableMap) Iterator() traits.Iterator    { return &nameIterator{} }
func (m variableMap) Equal(ref.Val) ref.Val        { return types.NewErr("no such overload") }
func (m variableMap) Type() ref.Type {
	return types.NewObjectType(variablesType, traits.IndexerType, traits.ContainerType)
}
func (m variableMap) Value() any { return nil }

// ConvertToType returns an error: nobody builds such a map.
func (m variableMap) ConvertToType(t ref.Type) ref.Val { return convert(m, t) }

// ConvertToNative returns an error.
func (m variableMap) ConvertToNative(reflect.Type) (any, error) {
	return nil, errors.New("variables cannot be converted")
}
