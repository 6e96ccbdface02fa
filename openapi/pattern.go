package openapi

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
)

// The bounds of patterns. Go's matcher needs at most steps in proportion to the length of the text times the size of the
// program: a million instructions would make one field cost minutes.
const (
	maxPatternBytes = 4096
	maxPatternSize  = 10_000 // instructions, after counted repetitions are written out
	maxMatchSteps   = 20_000_000
)

// matcher is a compiled pattern that knows its cost.
type matcher struct {
	expression *regexp.Regexp
	longest    int // bytes of text within maxMatchSteps
}

// measurePattern returns about how many instructions a pattern has, and refuses those that have too many.
func measurePattern(pattern string) (int, error) {
	if len(pattern) > maxPatternBytes {
		return 0, fmt.Errorf("longer than %d bytes", maxPatternBytes)
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if bad, ok := errors.AsType[*syntax.Error](err); ok {
		return 0, errors.New(string(bad.Code))
	} else if err != nil {
		return 0, err
	}
	size := patternSize(parsed)
	if size > maxPatternSize {
		return 0, errors.New("repeats so much that matching it would cost too much")
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

// patternSize estimates the instructions of a program before anything of that size is made.
func patternSize(re *syntax.Regexp) int {
	size := 1
	switch re.Op {
	case syntax.OpLiteral:
		size = len(re.Rune)
	case syntax.OpCharClass:
		size = 1 + len(re.Rune)/16
	}
	for _, sub := range re.Sub {
		size = min(size+patternSize(sub), maxPatternSize+1)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1)
	}
	return min(size, maxPatternSize+1)
}

func (m *matcher) match(text string) (bool, error) {
	if len(text) > m.longest {
		return false, fmt.Errorf("may not be more than %d bytes, because of its pattern", m.longest)
	}
	return m.expression.MatchString(text), nil
}
