package meta

import (
	"errors"
	"fmt"
)

var errTooManyRequirements = fmt.Errorf("more than %d requirements", MaxRequirements)

// selectorParser parses a label selector in one pass from left to right, without backtracking.
//
//	selector    = [ requirement { "," requirement } ]
//	requirement = "!" word | word [ ("=" | "==" | "!=" | "<" | ">") [ word ] | ("in" | "notin") "(" list ")" ]
//	list        = [ word ] { "," [ word ] }
//
// A word is a run of bytes other than blanks and the special characters below. The parser checks
// whether it is a valid key or value once the requirement is complete. "in" and "notin" are
// ordinary words except where an operator can stand.
type selectorParser struct{ rest string }

func (p *selectorParser) parse() ([]requirement, error) {
	var reqs []requirement
	if p.skipBlanks(); p.rest == "" {
		return nil, nil
	}
	for {
		if len(reqs) == MaxRequirements {
			return nil, errTooManyRequirements
		}
		r, err := p.requirement()
		if err != nil {
			return nil, err
		}
		reqs = append(reqs, r)
		p.skipBlanks()
		if p.rest == "" {
			return reqs, nil
		}
		if !p.take(",") {
			return nil, fmt.Errorf("found %s where ',' or the end was expected", p.found())
		}
	}
}

func (p *selectorParser) requirement() (requirement, error) {
	negated := p.take("!")
	key := p.word()
	if key == "" {
		return requirement{}, fmt.Errorf("found %s where a label key was expected", p.found())
	}
	if negated {
		return newRequirement(key, DoesNotExist, nil)
	}
	switch {
	case p.take("=="), p.take("="):
		return newRequirement(key, In, []string{p.word()})
	case p.take("!="):
		return newRequirement(key, NotIn, []string{p.word()})
	case p.take(">"):
		return newRequirement(key, GreaterThan, []string{p.word()})
	case p.take("<"):
		return newRequirement(key, LessThan, []string{p.word()})
	}
	switch op := p.word(); op {
	case "":
		return newRequirement(key, Exists, nil)
	case "in":
		return p.set(key, In)
	case "notin":
		return p.set(key, NotIn)
	default:
		return requirement{}, fmt.Errorf("found %s after key %s where an operator was expected", quoteShort(op), quoteShort(key))
	}
}

func (p *selectorParser) set(key string, op Operator) (requirement, error) {
	if !p.take("(") {
		return requirement{}, fmt.Errorf("found %s where '(' was expected", p.found())
	}
	var values []string
	for {
		values = append(values, p.word())
		if p.take(")") {
			return newRequirement(key, op, values)
		}
		if !p.take(",") {
			return requirement{}, errors.New("found " + p.found() + " where ',' or ')' was expected")
		}
	}
}

// take skips blanks and then token, if it comes next.
func (p *selectorParser) take(token string) bool {
	p.skipBlanks()
	if len(p.rest) < len(token) || p.rest[:len(token)] != token {
		return false
	}
	p.rest = p.rest[len(token):]
	return true
}

// word skips blanks and returns the run of ordinary bytes that follows; it is empty if there is
// none.
func (p *selectorParser) word() string {
	p.skipBlanks()
	i := 0
	for i < len(p.rest) && !isSelectorByte(p.rest[i]) {
		i++
	}
	w := p.rest[:i]
	p.rest = p.rest[i:]
	return w
}

func (p *selectorParser) skipBlanks() {
	i := 0
	for i < len(p.rest) && isBlank(p.rest[i]) {
		i++
	}
	p.rest = p.rest[i:]
}

func (p *selectorParser) found() string {
	if p.rest == "" {
		return "the end"
	}
	return quoteShort(p.rest)
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// isSelectorByte reports whether c ends a word.
func isSelectorByte(c byte) bool {
	switch c {
	case '=', '!', '(', ')', ',', '<', '>':
		return true
	}
	return isBlank(c)
}
