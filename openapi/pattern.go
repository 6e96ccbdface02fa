package openapi

import (
	"errors"
	"fmt"
	"math/bits"
	"regexp"
	"regexp/syntax"

	"github.com/kindwright/kindwright/internal/tables"
)

// Limits for patterns. The cost of a match is bounded by the length of the text times the size of
// the compiled program. With a million instructions, a single field could take minutes.
const (
	maxPatternBytes = 4096
	maxPatternSize  = 10_000 // instructions, with counted repetitions expanded
	maxMatchSteps   = 20_000_000
	maxTables       = 64 // of characters in one pattern, see package tables
	maxAllTables    = 256
)

// matcher is a compiled pattern with the length of the longest text that it may be matched against.
type matcher struct {
	expression *regexp.Regexp
	longest    int // in bytes; keeps a match within maxMatchSteps
}

// measurePattern estimates the number of instructions of a pattern. It rejects patterns that would
// need too many. The error is a *syntax.Error if the pattern is malformed.
func measurePattern(pattern string) (int, error) {
	if len(pattern) > maxPatternBytes {
		return 0, fmt.Errorf("longer than %d bytes", maxPatternBytes)
	}
	if tables.In(pattern) > maxTables {
		return 0, errors.New("has too many classes of characters to be matched safely")
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, err
	}
	size := patternSize(parsed)
	if size > maxPatternSize {
		return size, errors.New("has too many repetitions to be matched safely")
	}
	return size, nil
}

func compilePattern(pattern string, size int) (*matcher, error) {
	expression, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	return &matcher{expression: expression, longest: maxMatchSteps / max(size, 1)}, nil
}

// patternSize estimates the number of instructions of the compiled program without compiling it. A
// pattern such as (a{1000}){1000} is thus rejected before it can exhaust memory. Each level is
// capped just above the limit, so the estimate cannot overflow.
func patternSize(re *syntax.Regexp) int {
	size := 1
	switch re.Op {
	case syntax.OpLiteral:
		size = len(re.Rune)
	case syntax.OpCharClass:
		size = 1 + bits.Len(uint(len(re.Rune)))/2 // a search among the ranges, which repetitions share
	}
	for _, sub := range re.Sub {
		size = min(size+patternSize(sub), maxPatternSize+1)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1)
	}
	return min(size, maxPatternSize+1)
}

// match returns an error, instead of matching, if the text is so long that the match could exceed
// maxMatchSteps.
func (m *matcher) match(text string) (bool, error) {
	if len(text) > m.longest {
		return false, fmt.Errorf("may not be more than %d bytes, because of its pattern", m.longest)
	}
	return m.expression.MatchString(text), nil
}
