package cel

import (
	"maps"
	"slices"
	"strings"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// Parsing a word, a number or a sign takes a kilobyte or two, and reading a type takes the square of its depth: 40,000
// numbers in a list took 340 MB, and 90 lists in each other 140 MB. So parts are counted in the text before it is
// parsed, and depths in what was parsed before types are checked.
const (
	maxParts     = 4_000 // of one expression; the largest in public definitions has 600
	maxTypeDepth = 20    // of lists and maps in each other

	// All rules of a schema may have so many parts, and one more for some bytes of its document. Each has some of its
	// own. In public
	// definitions there are at least 28 bytes for each part.
	minRuleParts  = 4_000
	bytesOfPart   = 16
	partsOfAny    = 16    // what each expression counts besides its own
	maxScopeParts = 8_000 // of all expressions of a policy; public ones have up to 1,900

	maxSchemaDepth  = 200 // of documents, which do not contain themselves
	maxRuleProblems = 10  // after which rules are not compiled any more
)

const (
	tooManyParts    = "the expression has too many parts"
	tooManyOfRules  = "all rules of the schema together have too many parts for its size"
	tooManyOfPolicy = "all expressions of the policy together have too many parts"
	tooDeep         = "compilation failed: lists and maps are nested too deeply"
)

// partsIn returns the number of words, numbers, texts and signs in an expression: as many as the language finds, or
// some more.
func partsIn(text string) (n int) {
	for text != "" {
		length, hidden := nextPart(text)
		if !hidden {
			n++
		}
		text = text[length:]
	}
	return n
}

// nextPart returns the length of what a text begins with, and whether it is a space or a comment.
func nextPart(text string) (length int, hidden bool) {
	switch c := text[0]; {
	case strings.IndexByte(" \t\r\n\f", c) >= 0:
		return 1, true
	case strings.HasPrefix(text, "//"):
		if end := strings.IndexByte(text, '\n'); end >= 0 {
			return end, true
		}
		return len(text), true
	case isDigit(c):
		return numberPart(text), false
	}
	if n := quotedPart(text); n > 0 {
		return n, false
	}
	if n := run(text, isWordByte); n > 0 {
		return n, false
	}
	if len(text) > 1 && slices.Contains([]string{"&&", "||", "==", "!=", "<=", ">="}, text[:2]) {
		return 2, false
	}
	return 1, false
}

// numberPart returns the length of the number that a text begins with, without a fraction and an exponent: another
// number may follow at once.
func numberPart(text string) int {
	n := run(text, isDigit)
	if strings.HasPrefix(text, "0x") {
		n = 2 + run(text[2:], isHexDigit)
	}
	if n < len(text) && (text[n] == 'u' || text[n] == 'U') {
		n++
	}
	return n
}

func run(text string, is func(byte) bool) (n int) {
	for n < len(text) && is(text[n]) {
		n++
	}
	return n
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHexDigit(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

func isWordByte(c byte) bool {
	return c == '_' || isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// quotedPart returns the length of the text in quotes that an expression begins with, or 0.
func quotedPart(text string) int {
	at := 0
	for at < 2 && at < len(text) && strings.IndexByte("rRbB", text[at]) >= 0 {
		at++
	}
	raw := strings.ContainsAny(text[:at], "rR")
	rest := text[at:]
	for _, quote := range []string{`"""`, "'''", `"`, "'"} {
		if strings.HasPrefix(rest, quote) {
			if n := quotedEnd(rest[len(quote):], quote, raw); n > 0 {
				return at + len(quote) + n
			}
		}
	}
	return 0
}

// quotedEnd returns how far the end of a quotation is, or 0 if there is none. An escape that there is not is no part
// of a quotation.
func quotedEnd(text, quote string, raw bool) int {
	for i := 0; i < len(text); {
		switch {
		case strings.HasPrefix(text[i:], quote):
			return i + len(quote)
		case text[i] == '\\' && !raw:
			n := escapeLength(text[i:])
			if n == 0 {
				return 0
			}
			i += n
			continue
		case len(quote) == 1 && (text[i] == '\n' || text[i] == '\r'):
			return 0
		}
		i++
	}
	return 0
}

// escapeLength returns the length of the escape that a text begins with, or 0.
func escapeLength(text string) int {
	if len(text) < 2 {
		return 0
	}
	var digits int
	var octal bool
	switch text[1] {
	case 'a', 'b', 'f', 'n', 'r', 't', 'v', '"', '\'', '\\', '?', '`':
		return 2
	case 'x', 'X':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	case '0', '1', '2', '3':
		digits, octal = 2, true
	default:
		return 0
	}
	if len(text) < 2+digits {
		return 0
	}
	for _, c := range []byte(text[2 : 2+digits]) {
		if octal && (c < '0' || c > '7') || !isHexDigit(c) {
			return 0
		}
	}
	return 2 + digits
}

// typeDepth returns how deep the types of lists and maps can nest that a parsed expression makes.
func typeDepth(parsed *celgo.Ast) int {
	d := depths{variables: map[string]int{}}
	d.of(parsed.NativeRep().Expr())
	return d.deepest
}

// depths finds the depths of types.
type depths struct {
	variables map[string]int // of loops
	deepest   int            // of all so far
}

// of returns the depth of the type of an expression, or more.
func (d *depths) of(e celast.Expr) (depth int) {
	defer func() { d.deepest = max(d.deepest, depth) }()
	all := func(parts ...celast.Expr) {
		for _, part := range parts {
			depth = max(depth, d.of(part))
		}
	}
	switch e.Kind() {
	case celast.IdentKind:
		return d.variables[e.AsIdent()]
	case celast.SelectKind:
		all(e.AsSelect().Operand())
	case celast.ListKind:
		all(e.AsList().Elements()...)
		return depth + 1
	case celast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			all(entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
		return depth + 1
	case celast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			all(field.AsStructField().Value())
		}
		return 0 // its fields have types of their own
	case celast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() {
			all(call.Target())
		}
		all(call.Args()...)
		switch call.FunctionName() {
		case "dyn":
			return 0
		case operators.OptIndex, operators.OptSelect, "of", "ofNonZeroValue":
			return depth + 1
		}
	case celast.ComprehensionKind:
		return d.ofLoop(e.AsComprehension())
	}
	return depth
}

// ofLoop returns the depth of what a loop makes.
func (d *depths) ofLoop(loop celast.ComprehensionExpr) int {
	across := max(0, d.of(loop.IterRange())-1)
	outer := d.variables
	d.variables = maps.Clone(outer)
	defer func() { d.variables = outer }()
	d.variables[loop.IterVar()] = across
	if loop.HasIterVar2() {
		d.variables[loop.IterVar2()] = across
	}
	d.variables[loop.AccuVar()] = d.of(loop.AccuInit())
	d.of(loop.LoopCondition())
	d.variables[loop.AccuVar()] = max(d.variables[loop.AccuVar()], d.of(loop.LoopStep()))
	return d.of(loop.Result())
}
