package cel

import (
	"context"
	"fmt"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/debug"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/openapi"
)

// SetLimit replaces CostLimit for what e compiles from now on. The whole budget takes seconds.
func (e *Environment) SetLimit(limit uint64) { e.limit = limit }

// SetWork limits what evaluations for an object may do. The whole budget takes seconds.
func (r *Rules) SetWork(limit int64) { r.work = limit }

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
		v, cost, err := e.run(ctx, &variables{self: view(object, rules.root.schema, nil), work: newWork(ctx, workLimit)}, count)
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
	run.current, run.work = ctx, newWork(ctx, workLimit)
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

// Checked is what the types of an expression are found to be.
type Checked struct {
	Types      map[int64]string
	References map[int64][]string
	Places     map[int64]celast.OffsetRange
	Text       string
}

// CheckBothWays checks the types of a rule as a whole, and in terms. Each is nil where that way says nothing.
func CheckBothWays(schema *openapi.Schema, rule string) (whole, terms *Checked, err error) {
	c := &compiler{options: RuleOptions{Prices: KubernetesPrices()}}
	if err := c.prepare(); err != nil {
		return nil, nil, err
	}
	s, _ := c.newScope(schema)
	env, err := s.env(c, true, false)
	if err != nil {
		return nil, nil, err
	}
	parsed := func() *celgo.Ast {
		ast, issues := parse(env, rule)
		if isBad(issues) {
			return nil
		}
		c.options.Prices.mark(ast)
		markRounds(ast)
		return ast
	}
	if parsed() == nil {
		return nil, nil, nil
	}
	if checked, issues := env.Check(parsed()); !isBad(issues) {
		whole = checkedOf(checked)
	}
	ast := parsed()
	if operands := termsOf(ast.NativeRep().Expr()); len(operands) > 0 {
		if checked := checkInTerms(env, ast, operands); checked != nil {
			terms = checkedOf(checked)
		}
	}
	return whole, terms, nil
}

func checkedOf(ast *celgo.Ast) *Checked {
	native := ast.NativeRep()
	out := &Checked{map[int64]string{}, map[int64][]string{}, native.SourceInfo().OffsetRanges(), debug.ToDebugString(native.Expr())}
	for id, t := range native.TypeMap() {
		out.Types[id] = t.String()
	}
	for id, r := range native.ReferenceMap() {
		out.References[id] = append([]string{r.Name, fmt.Sprint(r.Value)}, r.OverloadIDs...)
	}
	return out
}
