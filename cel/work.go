package cel

import (
	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
)

// To check the types of a call, the language copies what it knows of the calls before: a text of 100 KB
// with 7,000 comparisons takes half a minute. So calls are counted before types are checked.
const (
	maxCalls = 2_000 // of one expression

	// maxCompileWork limits what all rules of a schema take to be compiled, in about 100 ns.
	maxCompileWork = 10_000_000
	workOfAny      = 1_000
	workOfByte     = 20
)

const tooManyCalls = "the expression has too many calls"

const tooMuchWork = "all rules of the schema together are too large to be compiled"

// tooMuch says why an expression with so many calls is not looked at any further.
func tooMuch(calls int) string {
	if calls > maxCalls {
		return tooManyCalls
	}
	return errTables.Error()
}

// callsOfLoop is how many calls a loop counts for. It has that many types to find out.
const callsOfLoop = 6

// callsIn returns the number of calls in a parsed expression, with those that its macros are made of, and counts
// the loops of these as several.
func callsIn(parsed *celgo.Ast) int { return callsBelow(parsed.NativeRep().Expr()) }

func callsBelow(e celast.Expr) (n int) {
	celast.PreOrderVisit(e, celast.NewExprVisitor(func(e celast.Expr) {
		switch e.Kind() {
		case celast.CallKind:
			n++
		case celast.ComprehensionKind:
			n += callsOfLoop
		}
	}))
	return n
}

// work returns what it takes to check an expression with so many calls.
func work(text string, calls int) int { return workOfAny + workOfByte*len(text) + calls*calls }
