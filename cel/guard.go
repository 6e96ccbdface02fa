package cel

import (
	"errors"
	"math"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/kindwright/kindwright/internal/tables"
)

// Limits of the calls of functions that look at every part of their arguments, or make a text or a list of
// them. The language counts what a call has cost when it is over.
const (
	maxMadeText  = 4 << 20    // bytes of a text; no request has more
	maxMadeTexts = 1_000_000  // items of a list of pieces of a text
	maxCompared  = 10_000_000 // pairs of parts

	maxReadPattern = 64 << 10 // bytes of a pattern from data; each takes a kilobyte
)

// isGuarded reports whether the arguments of a function are looked at before a call.
func isGuarded(function string) bool {
	switch function {
	case "join", "replace", "format", "split", "matches", "find", "findAll", "distinct", "sort", "@sortByAssociatedKeys", "flatten",
		"sets.contains", "sets.intersects", "sets.equivalent", "indexOf", "lastIndexOf", "isSorted", "sum", "min", "max",
		"size", "charAt", "getQuery", "getEscapedPath", "reverse", "slice":
		return true
	}
	return isParser(function)
}

// isParser reports whether a function reads a value from a text.
func isParser(function string) bool {
	switch function {
	case "timestamp", "duration", "double", "int", "uint", "bool":
		return true
	}
	return false
}

// guards is an option of programs: calls that would take too long or make too much are not made.
// Source: security vectors, C2.
func guards(env *celgo.Env) celgo.ProgramOption {
	return celgo.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		call, ok := i.(interpreter.InterpretableCall)
		if !ok || !isGuarded(call.Function()) && !(isTimeOf(call.Function()) && len(call.Args()) > 1) {
			return i, nil
		}
		bindings, err := env.Functions()[call.Function()].Bindings()
		if err != nil {
			return nil, err
		}
		for _, name := range []string{call.OverloadID(), call.Function()} {
			for _, b := range bindings {
				if b.Operator == name {
					return &watched{InterpretableCall: call, to: b}, nil
				}
			}
		}
		return i, nil
	})
}

// overrunError ends an evaluation that counts, and fails one that does not.
func overrunError() ref.Val {
	return types.WrapErr(interpreter.EvalCancelledError{Message: overrun, Cause: interpreter.CostLimitExceeded})
}

// isBearable reports whether a call stays within the limits.
func isBearable(function string, args []ref.Val) bool {
	texts := make([]string, len(args))
	for i, a := range args {
		s, _ := a.(types.String)
		texts[i] = string(s)
	}
	switch function {
	case "replace":
		if len(args) < 3 {
			return true
		}
		return grown(texts[0], texts[1], texts[2]) <= maxMadeText
	case "split":
		return len(args) < 2 || pieces(texts[0], texts[1]) <= maxMadeTexts
	case "matches", "find":
		return len(args) < 2 || isReadable(texts[1])
	case "size", "charAt", "getQuery", "getEscapedPath", "reverse", "slice", "timestamp", "duration", "double", "int", "uint", "bool":
		return true // see weighCall
	case "findAll":
		return len(texts[0]) <= maxMadeTexts && (len(args) < 2 || isReadable(texts[1]))
	}
	parts, size := maxMadeParts, maxMadeText
	for _, a := range args {
		if isMade(a) || function == "join" || function == "format" {
			if !weighs(a, &parts, &size) {
				return false
			}
		}
	}
	switch function {
	case "join":
		separators := 0
		if len(args) > 1 {
			separators = len(texts[1]) * int(min(sizeOf(args[0]), maxMadeText)) //nolint:gosec // small
		}
		return size >= separators
	case "format":
		return true
	case "distinct", "sort":
		return isComparable(args[0], args[0])
	case "@sortByAssociatedKeys":
		return len(args) < 2 || isComparable(args[1], args[1])
	case "sets.contains", "sets.intersects", "sets.equivalent":
		return len(args) < 2 || isComparable(args[0], args[1])
	}
	return true
}

// isReadable reports whether a pattern that is not written in the expression takes little to be read.
func isReadable(pattern string) bool {
	return len(pattern) <= maxReadPattern && tables.In(pattern) <= maxTables
}

// isComparable reports whether all items of two lists can be compared with one another.
func isComparable(left, right ref.Val) bool {
	if sizeOf(left)*sizeOf(right) > RuleCostLimit {
		return false // they cost more
	}
	for _, pair := range [][2]ref.Val{{left, right}, {right, left}} {
		rest := maxMadeParts
		if !counts(pair[0], &rest) || sizeOf(pair[1])*uint64(maxMadeParts-rest) > maxCompared { //nolint:gosec // not negative
			return false
		}
	}
	return true
}

// grown returns the length of a text after a replacement.
func grown(text, old, replacement string) int {
	if len(replacement) <= len(old) {
		return len(text)
	}
	n := strings.Count(text, old)
	if n > 0 && len(replacement) > maxMadeText/n {
		return math.MaxInt
	}
	return len(text) + n*(len(replacement)-len(old))
}

// pieces returns in how many pieces a text is split.
func pieces(text, separator string) int {
	if separator == "" {
		return utf8.RuneCountInString(text)
	}
	return strings.Count(text, separator) + 1
}

// weighs takes the parts of a value and the lengths of its texts off what is left, and reports whether there is
// enough.
func weighs(v ref.Val, parts, size *int) bool {
	if *parts--; *parts < 0 {
		return false
	}
	enough := true
	switch v := v.(type) {
	case types.String:
		*size -= len(v)
	case types.Bytes:
		*size -= len(v)
	default:
		eachPart(v, func(part ref.Val) bool {
			enough = weighs(part, parts, size)
			return enough
		})
	}
	return enough && *size >= 0
}

// eachPart calls a function for each part of a value, until it returns false.
func eachPart(v ref.Val, yield func(ref.Val) bool) {
	switch v := v.(type) {
	case *types.Optional:
		if v.HasValue() {
			yield(v.GetValue())
		}
	case *built:
		for _, field := range v.fields {
			if !yield(field) {
				return
			}
		}
	case traits.Lister:
		for it := v.Iterator(); it.HasNext() == types.True; {
			if !yield(it.Next()) {
				return
			}
		}
	case traits.Mapper:
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			if !yield(key) || !yield(v.Get(key)) {
				return
			}
		}
	}
}

// Where the language counts one unit for a call whatever it makes, because it does not know the types of the
// arguments, large results and long loops count for more.
const (
	small       = 1000 // what is smaller is counted as Kubernetes counts it
	bytesAUnit  = 50
	partsAUnit  = 10
	regexAUnit  = 50
	largeWeight = 500 // of a pattern
	manyTables  = 16  // of characters in a pattern, see package tables
	unitsATable = 100
)

// unseen returns what a call costs beyond what the language or the libraries count, 0 if that suffices.
func unseen(function, overload string, args []ref.Val, result ref.Val, said *uint64) uint64 {
	known := uint64(1)
	if said != nil {
		known = *said
	}
	var cost uint64
	switch function {
	case operators.Add, "replace", "format", "bytes", "string", "join":
		switch overload {
		case overloads.AddString, overloads.AddBytes, overloads.StringToBytes, overloads.BytesToString:
			return 0
		}
		if n := textSize(result); isText(result) && n > small {
			cost = n / bytesAUnit
		}
	case "split", "findAll":
		if n := sizeOf(result); n > small {
			cost = n
		}
	case operators.In:
		if n := sizeOf(args[len(args)-1]); overload != overloads.InList && n > small {
			if _, ok := args[len(args)-1].(traits.Lister); ok {
				cost = n / partsAUnit
			}
		}
	case operators.Equals, operators.NotEquals:
		if len(args) == 2 && isContainer(args[0]) && isContainer(args[1]) {
			rest := maxMadeParts
			counts(args[0], &rest)
			if n := uint64(maxMadeParts - max(rest, 0)); n > small { //nolint:gosec // not negative
				cost = n / 2 // each is looked at here, and by the comparison
			}
		}
	case "matches", "find":
		if len(args) > 1 {
			if pattern, ok := args[1].(types.String); ok {
				if w := patternWeight(string(pattern)); w > largeWeight {
					cost = (textSize(args[0]) + 1) * w / regexAUnit
				}
				if n := tables.In(string(pattern)); n > manyTables {
					cost = max(cost, uint64(n)*unitsATable) //nolint:gosec // not negative
				}
			}
		}
	}
	if cost <= known {
		return 0
	}
	return cost
}

func isText(v ref.Val) bool {
	switch v.(type) {
	case types.String, types.Bytes:
		return true
	}
	return false
}

func isContainer(v ref.Val) bool {
	switch v.(type) {
	case traits.Lister, traits.Mapper:
		return true
	}
	return false
}

// patternWeight estimates how many steps of a machine a pattern becomes: a repetition is written out. Patterns
// without one weigh nothing.
func patternWeight(pattern string) uint64 {
	if !strings.Contains(pattern, "{") {
		return 0
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	return steps(parsed)
}

func steps(r *syntax.Regexp) uint64 {
	n := uint64(max(len(r.Rune)/2, 1)) //nolint:gosec // not negative
	for _, sub := range r.Sub {
		n += steps(sub)
	}
	if r.Op == syntax.OpRepeat {
		n *= uint64(max(r.Min, r.Max, 1)) //nolint:gosec // not negative
	}
	return n
}

// maxTables limits the tables of characters in the patterns that one expression, or all rules of a schema,
// are written with. See package tables.
const maxTables = 256

var errTables = errors.New("the patterns of the expression have too many classes of characters")

// tablesIn returns how many tables of characters the texts in an expression have, if they are patterns.
func tablesIn(e celast.Expr) (n int) {
	visitTexts(e, func(text string) { n += tables.In(text) })
	return n
}

// patternValidator looks at the patterns in an expression before they are read.
type patternValidator struct{ celgo.ASTValidator }

func validatePatterns() celgo.ASTValidator { return patternValidator{celgo.ValidateRegexLiterals()} }

func (v patternValidator) Validate(env *celgo.Env, c celgo.ValidatorConfig, ast *celast.AST, issues *celgo.Issues) {
	if tablesIn(ast.Expr()) > maxTables {
		issues.ReportErrorAtID(ast.Expr().ID(), "%s", errTables.Error())
		return
	}
	v.ASTValidator.Validate(env, c, ast, issues)
}

// weighty reports whether a pattern that is written in the expression weighs so much that its length says too
// little.
func (e *expression) weighty() bool {
	found := false
	visitTexts(e.ast.NativeRep().Expr(), func(text string) { found = found || patternWeight(text) > largeWeight })
	return found
}

// visitTexts calls a function with each text that is written in an expression.
func visitTexts(of celast.Expr, visit func(string)) {
	celast.PreOrderVisit(of, celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() == celast.LiteralKind {
			if text, ok := e.AsLiteral().(types.String); ok {
				visit(string(text))
			}
		}
	}))
}
