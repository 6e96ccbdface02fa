package cel

import (
	"context"
	"fmt"

	celgo "github.com/google/cel-go/cel"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/openapi"
)

// SetLimit replaces CostLimit for what e compiles from now on. The whole budget takes seconds.
func (e *Environment) SetLimit(limit uint64) { e.limit = limit }

// Asked is what an expression comes to.
type Asked struct {
	Problem string // why it does not compile
	Most    uint64 // the bound of its cost
	Result  string
	Cost    uint64
	Counted bool
}

// BoundMargin is how far estimates may be off.
const BoundMargin = boundMargin

// Ask evaluates an expression on an object as a rule at the root of its schema, with counting and
// without.
func Ask(ctx context.Context, schema *openapi.Schema, object map[string]any, rule string, p Prices) (counted, plain Asked) {
	own := *schema
	own.Rules = []openapi.Rule{{Rule: rule}}
	rules, problems := CompileRules(&own, RuleOptions{Stored: true, Prices: p})
	if len(problems) > 0 {
		counted.Problem = problems[0].Detail
		return counted, counted
	}
	e := rules.root.rules[0].check
	ask := func(count bool) Asked {
		v, cost, err := e.run(ctx, &variables{self: view(object, rules.root.schema)}, count)
		out := Asked{Most: e.most, Cost: cost, Counted: count || e.plain == nil}
		if err != nil {
			out.Result = "failed: " + err.Error()
		} else {
			out.Result = fmt.Sprint(v.Value())
		}
		return out
	}
	return ask(true), ask(false)
}

// AskAdmission compiles and evaluates an expression that may use everything, and returns why it does not
// compile, or its value with its type, and what it costs.
func AskAdmission(ctx context.Context, a *Admission, in AdmissionInput, text string) (problem, result string, cost uint64) {
	x, err := a.Compile(text, true, Dyn(), Configuration())
	if err != nil {
		return err.Error(), "", 0
	}
	run := a.Run(in, BindingCostLimit)
	run.current = ctx
	v, cost, err := x.code.run(ctx, run, true)
	cost += run.spent
	if err != nil {
		return "", "failed: " + err.Error(), cost
	}
	name := v.Type().TypeName()
	tree, err := (&decoder{parts: CostLimit, rich: true}).decode(v)
	if err != nil {
		return "", name, cost
	}
	written, _ := json.AppendTree(nil, tree)
	return "", name + " " + string(written), cost
}

// PartsIn is partsIn.
func PartsIn(text string) int { return partsIn(text) }

// Described returns the problems of an expression.
func Described(env *celgo.Env, text string) string {
	_, issues := compile(env, text)
	return described(issues, text)
}

// Alike is alike.
var Alike = alike

// Expressions returns how many compiled expressions rules have together.
func Expressions(all ...*Rules) int {
	found := map[*expression]bool{}
	var visit func(n *node)
	visit = func(n *node) {
		if n == nil {
			return
		}
		for _, r := range n.rules {
			found[r.check] = true
		}
		for _, f := range n.fields {
			visit(f.node)
		}
		visit(n.items)
		visit(n.additional)
	}
	for _, r := range all {
		visit(r.root)
	}
	return len(found)
}
