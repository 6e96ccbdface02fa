package cel

import (
	"maps"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// The checker of the language copies all that it knows of type parameters for each overload that it tries, so that it
// takes the square of the calls: a sum of 16 terms takes 2 MB. What it learns of one operand of && tells it nothing of
// the next one. So it is asked about the terms of a long expression one by one.
const (
	minInTerms   = 32 // calls below which an expression is checked as it is
	maxTermCalls = 8  // calls up to which operands are one term
	minTerms     = 4
)

// isJoining reports whether a function is an operator between terms. Of an operand it knows the type alone.
func isJoining(function string) bool {
	switch function {
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional, operators.Add, operators.Subtract,
		operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return true
	}
	return false
}

// standIn returns a literal of a type, or nil if the type has none.
func standIn(t *types.Type) ref.Val {
	switch t {
	case types.BoolType:
		return types.True
	case types.IntType:
		return types.IntZero
	case types.UintType:
		return types.Uint(0)
	case types.DoubleType:
		return types.Double(0)
	case types.StringType:
		return types.String("")
	}
	return nil
}

// check checks the types of a parsed expression, as prepare has left it. It changes what was parsed.
func check(env *celgo.Env, text string, parsed *celgo.Ast, calls int, prepare func(*celgo.Ast)) (*celgo.Ast, *celgo.Issues) {
	prepare(parsed)
	root := parsed.NativeRep().Expr()
	if calls < minInTerms || tablesIn(root) > maxTables { // which is counted for an expression, not for its terms
		return env.Check(parsed)
	}
	terms := termsOf(root)
	if len(terms) < minTerms {
		return env.Check(parsed)
	}
	if checked := checkInTerms(env, parsed, terms); checked != nil {
		return checked, nil
	}
	// A problem is described as in the whole expression.
	parsed, issues := parse(env, text)
	if isBad(issues) {
		return nil, issues
	}
	prepare(parsed)
	return env.Check(parsed)
}

// termsOf returns the operands that an expression is made of, none of which contains another one.
func termsOf(root celast.Expr) (terms []celast.Expr) {
	var open func(e celast.Expr) (calls int, opened bool)
	open = func(e celast.Expr) (calls int, opened bool) {
		if e.Kind() != celast.CallKind || !isJoining(e.AsCall().FunctionName()) {
			return callsBelow(e), false
		}
		var whole []celast.Expr
		for _, operand := range e.AsCall().Args() {
			n, in := open(operand)
			calls, opened = calls+n, opened || in
			if n > 0 && !in {
				whole = append(whole, operand)
			}
		}
		calls++
		if opened = opened || calls > maxTermCalls; opened {
			terms = append(terms, whole...)
		}
		return calls, opened
	}
	open(root)
	return terms
}

// checkInTerms checks the terms of an expression, and then the expression with a literal in the place of each. It
// returns nil if that says nothing of the whole.
func checkInTerms(env *celgo.Env, parsed *celgo.Ast, terms []celast.Expr) *celgo.Ast {
	var (
		factory = celast.NewExprFactory()
		native  = parsed.NativeRep()
		root    = native.Expr()
		ranges  = maps.Clone(native.SourceInfo().OffsetRanges()) // a check forgets those of other terms
		whole   = kindOf(factory, root)
		made    = make([]celast.Expr, len(terms))
		known   []*celast.AST
	)
	for i, term := range terms {
		root.SetKindCase(term)
		checked, issues := env.Check(parsed)
		if isBad(issues) {
			return nil
		}
		instead := standIn(checked.OutputType())
		if instead == nil {
			return nil
		}
		made[i] = kindOf(factory, root) // the check may have changed it
		known = append(known, checked.NativeRep())
		term.SetKindCase(factory.NewLiteral(term.ID(), instead))
	}
	root.SetKindCase(whole)
	checked, issues := env.Check(parsed)
	if isBad(issues) {
		return nil
	}
	out := checked.NativeRep()
	for i, term := range terms {
		term.SetKindCase(made[i])
		for id, t := range known[i].TypeMap() {
			out.SetType(idOf(id, root, term), t)
		}
		for id, r := range known[i].ReferenceMap() {
			out.SetReference(idOf(id, root, term), r)
		}
	}
	for id := range out.IDs() {
		if r, ok := ranges[id]; ok {
			out.SourceInfo().SetOffsetRange(id, r)
		}
	}
	return checked
}

// kindOf returns an expression that keeps what another one is now.
func kindOf(factory celast.ExprFactory, e celast.Expr) celast.Expr {
	kept := factory.NewUnspecifiedExpr(e.ID())
	kept.SetKindCase(e)
	return kept
}

// idOf returns the ID of an expression that was checked with a term in the place of the root.
func idOf(id int64, root, term celast.Expr) int64 {
	if id == root.ID() {
		return term.ID()
	}
	return id
}
