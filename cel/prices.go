package cel

import (
	"math"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Prices are what the parts of an expression cost where the API's documentation and kube-apiserver
// differ. The zero value is the documentation's. All other parts cost the same in both.
// Source: CEL-21, LIM-14, READ-22.
type Prices struct{ kubernetes bool }

// KubernetesPrices are those of kube-apiserver: rules that it accepts are accepted, and others
// rejected.
func KubernetesPrices() Prices { return Prices{kubernetes: true} }

// Comparison is the price of comparing two numbers.
func (p Prices) Comparison() uint64 { return 1 }

// ListLiteral is the price of a list that an expression writes down, besides its items.
func (p Prices) ListLiteral() uint64 {
	if p.kubernetes {
		return common.ListCreateBaseCost
	}
	return 40
}

// Regex is the price of matching a text of some characters against a pattern.
func (p Prices) Regex(pattern, text uint64) uint64 {
	if !p.kubernetes {
		return multiply(pattern, text)
	}
	// An empty text counts as one character.
	return multiply(uint64(math.Ceil((1+float64(text))*perCharacter)), uint64(math.Ceil(float64(pattern)*common.RegexStringLengthCostFactor)))
}

// priced is the function that stands around the first item of each list literal where lists cost
// more than the language counts. Expressions cannot call it.
const priced = "@priced"

func pricedFunction() celgo.EnvOption {
	a := celgo.TypeParamType("A")
	return celgo.Function(priced, celgo.Overload(priced, signature(a), a, celgo.UnaryBinding(func(v ref.Val) ref.Val { return v })))
}

// surcharge is what a list literal costs in addition to what the language counts.
func (p Prices) surcharge() uint64 { return p.ListLiteral() - common.ListCreateBaseCost }

// mark puts the function around the first items of the lists in a parsed expression. Empty lists
// cost what the language counts, and so do the lists that macros make.
func (p Prices) mark(parsed *celgo.Ast) {
	if p.surcharge() == 0 {
		return
	}
	native := parsed.NativeRep()
	made := map[int64]bool{}
	factory := celast.NewExprFactory()
	next := celast.MaxID(native)
	celast.PreOrderVisit(native.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		switch e.Kind() {
		case celast.ComprehensionKind:
			noteMade(e.AsComprehension().LoopStep(), e.AsComprehension().AccuVar(), made)
		case celast.ListKind:
			list := e.AsList()
			if list.Size() == 0 || made[e.ID()] {
				return
			}
			next++
			items := append([]celast.Expr{}, list.Elements()...)
			if at, ok := native.SourceInfo().GetOffsetRange(items[0].ID()); ok {
				native.SourceInfo().SetOffsetRange(next, at)
			}
			items[0] = factory.NewCall(next, priced, items[0])
			e.SetKindCase(factory.NewList(e.ID(), items, list.OptionalIndices()))
		}
	}))
}

// noteMade notes the lists that a macro adds to what it has collected.
func noteMade(step celast.Expr, collected string, made map[int64]bool) {
	if step.Kind() != celast.CallKind {
		return
	}
	call := step.AsCall()
	args := call.Args()
	if call.FunctionName() == operators.Conditional && len(args) == 3 {
		noteMade(args[1], collected, made)
	}
	if call.FunctionName() == operators.Add && len(args) == 2 && args[0].Kind() == celast.IdentKind && args[0].AsIdent() == collected {
		made[args[1].ID()] = true
	}
}

// isRegex reports whether a function matches a pattern.
func isRegex(function string) bool {
	return function == "matches" || function == "find" || function == "findAll"
}

// textSizes returns the sizes of the text and the pattern of a call.
func textSizes(args []ref.Val) (text, pattern uint64) {
	length := func(v ref.Val) uint64 {
		if s, ok := v.(types.String); ok {
			return sizeOf(s)
		}
		return 1
	}
	return length(args[0]), length(args[1])
}
