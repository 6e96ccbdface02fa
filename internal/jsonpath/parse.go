package jsonpath

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kindwright/kindwright/internal/clip"
)

// maxDepth is how deep paths may be nested in paths.
const maxDepth = 16

const eof = -1

// Parse parses a path, with or without braces around it.
func Parse(text string) (*Path, error) {
	if !strings.HasPrefix(text, "{") {
		text = "{" + text + "}"
	}
	p := parser{input: text}
	return p.template()
}

// parser reads a template: text, and actions in braces.
type parser struct {
	input      string
	pos, width int
	depth      int
}

func (p *parser) template() (*Path, error) {
	out := &Path{}
	for p.pos < len(p.input) {
		text, _, found := strings.Cut(p.input[p.pos:], "{")
		if text != "" {
			out.parts = append(out.parts, []step{{op: opText, text: text}})
		}
		p.pos += len(text)
		if !found {
			break
		}
		p.pos++
		steps, err := p.action()
		if err != nil {
			return nil, err
		}
		out.parts = append(out.parts, steps)
	}
	return out, nil
}

// nested parses the inside of an action that is part of another one.
func (p *parser) nested(text string) ([]step, error) {
	if p.depth == maxDepth {
		return nil, errors.New("paths are nested too deeply")
	}
	sub := parser{input: "{" + text + "}", depth: p.depth + 1}
	out, err := sub.template()
	if err != nil {
		return nil, err
	}
	return out.parts[0], nil
}

func (p *parser) next() rune {
	if p.pos >= len(p.input) {
		p.width = 0
		return eof
	}
	r, width := utf8.DecodeRuneInString(p.input[p.pos:])
	p.pos, p.width = p.pos+width, width
	return r
}

func (p *parser) backup() { p.pos -= p.width }

// action parses steps up to the closing brace.
func (p *parser) action() ([]step, error) {
	steps := []step{}
	for {
		if rest := p.input[p.pos:]; strings.HasPrefix(rest, "}") {
			p.pos++
			return steps, nil
		}
		next, err := p.step(len(steps) > 0 && steps[len(steps)-1].op == opRecursive)
		if err != nil {
			return nil, err
		}
		steps = append(steps, next...)
	}
}

// step parses the next token. It returns no step for a space and for the words for the current
// object.
func (p *parser) step(afterRecursive bool) ([]step, error) {
	rest := p.input[p.pos:]
	switch {
	case strings.HasPrefix(rest, "[?("):
		return p.filter()
	case strings.HasPrefix(rest, ".."):
		return p.recursive(afterRecursive)
	}
	start := p.pos
	switch r := p.next(); {
	case r == eof || isEndOfLine(r):
		return nil, errors.New("a brace is not closed")
	case r == ' ' || r == '@' || r == '$':
		return nil, nil
	case r == '[':
		return p.bracket(start)
	case r == '"' || r == '\'':
		return p.quote(start, r)
	case r == '.':
		return p.field()
	case r == '+' || r == '-' || unicode.IsDigit(r):
		return p.number(start)
	case isAlphaNumeric(r):
		return p.identifier(start)
	default:
		return nil, fmt.Errorf("unexpected character %q", r)
	}
}

func (p *parser) identifier(start int) ([]step, error) {
	for !isTerminator(p.next()) {
	}
	p.backup()
	switch word := p.input[start:p.pos]; word {
	case "true", "false":
		return []step{{op: opBool, value: word == "true"}}, nil
	default:
		return []step{{op: opIdentifier, text: word}}, nil
	}
}

func (p *parser) recursive(again bool) ([]step, error) {
	if again {
		return nil, errors.New("recursive descent twice")
	}
	p.pos += len("..")
	out := []step{{op: opRecursive}}
	r := p.next()
	p.backup()
	if !isAlphaNumeric(r) {
		return out, nil
	}
	field, err := p.field()
	return append(out, field...), err
}

func (p *parser) number(start int) ([]step, error) {
	for {
		if r := p.next(); r != '.' && !unicode.IsDigit(r) {
			p.backup()
			break
		}
	}
	text := p.input[start:p.pos]
	if i, err := strconv.Atoi(text); err == nil {
		return []step{{op: opNumber, value: i}}, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("%q is not a number", clip.Text(text, 40))
	}
	return []step{{op: opNumber, value: f}}, nil
}

// field parses a name up to the next terminator that has no backslash before it.
func (p *parser) field() ([]step, error) {
	start := p.pos
	for {
		r := p.next()
		if r == '\\' {
			p.next()
		} else if isTerminator(r) {
			p.backup()
			break
		}
	}
	name := p.input[start:p.pos]
	if name == "*" {
		return []step{{op: opWildcard}}, nil
	}
	return []step{{op: opField, text: strings.ReplaceAll(name, `\`, "")}}, nil
}

func (p *parser) quote(start int, end rune) ([]step, error) {
	for {
		r := p.next()
		if r == eof || r == '\n' {
			return nil, errors.New("a quoted text is not closed")
		}
		if r == end && p.input[p.pos-2] != '\\' {
			break
		}
	}
	text, err := unquote(p.input[start+1:p.pos-1], byte(end))
	if err != nil {
		return nil, fmt.Errorf("a quoted text has a bad escape: %w", err)
	}
	return []step{{op: opText, text: text}}, nil
}

// unquote replaces the escapes of Go strings.
func unquote(s string, quote byte) (string, error) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, nil
	}
	out := make([]byte, 0, len(s))
	for s != "" {
		c, multibyte, rest, err := strconv.UnquoteChar(s, quote)
		if err != nil {
			return "", err
		}
		s = rest
		if c < utf8.RuneSelf || !multibyte {
			out = append(out, byte(c))
		} else {
			out = utf8.AppendRune(out, c)
		}
	}
	return string(out), nil
}

// bracket parses a union, a quoted field, a position or a slice.
func (p *parser) bracket(start int) ([]step, error) {
	for {
		r := p.next()
		if r == eof || r == '\n' {
			return nil, errors.New("a bracket is not closed")
		}
		if r == ']' {
			break
		}
	}
	text := p.input[start+1 : p.pos-1]
	if strings.Contains(text, ",") {
		return p.union(text)
	}
	if n := len(text); n >= 2 && text[0] == '\'' && text[n-1] == '\'' && strings.Count(text, "'") == 2 {
		return p.nested("." + text[1:n-1])
	}
	if text == "*" {
		text = ":"
	}
	s := step{op: opSlice}
	var err error
	s.slice, err = parseSlice(text)
	return []step{s}, err
}

func (p *parser) union(text string) ([]step, error) {
	union := step{op: opUnion}
	for branch := range strings.SplitSeq(text, ",") {
		steps, err := p.nested("[" + strings.Trim(branch, " ") + "]")
		if err != nil {
			return nil, err
		}
		union.branches = append(union.branches, steps)
	}
	return []step{union}, nil
}

// parseSlice parses up to three numbers with colons between them. One number is a position: it ends
// after itself.
func parseSlice(text string) (out [3]bound, err error) {
	parts := strings.Split(text, ":")
	if len(parts) > 3 {
		return out, fmt.Errorf("%q is not a position in a list", clip.Text(text, 40))
	}
	for i, part := range parts {
		if part == "" {
			continue
		}
		out[i].known = true
		if out[i].value, err = strconv.Atoi(part); err != nil || part[0] == '+' {
			return out, fmt.Errorf("%q is not a position in a list", clip.Text(part, 40))
		}
	}
	if len(parts) == 1 {
		out[1] = bound{value: out[0].value + 1, known: true, derived: true}
	}
	return out, nil
}

// filter parses a condition: a path, or two of them with an operator between.
func (p *parser) filter() ([]step, error) {
	p.pos += len("[?(")
	start := p.pos
	var quote rune
	open, closed := false, false
	for r := p.next(); r != ')' || open != closed; r = p.next() {
		switch {
		case r == eof || r == '\n':
			return nil, errors.New("a filter is not closed")
		case r != '"' && r != '\'':
		case !open:
			open, quote = true, r
		case r == quote && p.input[p.pos-2] != '\\':
			closed = true
		}
	}
	text := p.input[start : p.pos-1]
	if p.next() != ']' {
		return nil, errors.New("a filter has no closing bracket")
	}
	left, operator, right := cutOperator(text)
	out := step{op: opFilter, text: operator, branches: make([][]step, 2)}
	var err error
	if out.branches[0], err = p.nested(left); err != nil {
		return nil, err
	}
	if operator != exists {
		out.branches[1], err = p.nested(right)
	}
	return []step{out}, err
}

// cutOperator cuts a condition at its first operator. Both sides have at least one character, or the
// condition is a path.
func cutOperator(text string) (left, operator, right string) {
	const operators = "!<>="
	from := strings.IndexAny(text, operators)
	if from <= 0 {
		return text, exists, ""
	}
	rest := strings.TrimLeft(text[from:], operators)
	if rest == "" {
		rest = text[len(text)-1:]
	}
	to := len(text) - len(rest)
	if to == from {
		return text, exists, ""
	}
	return text[:from], text[from:to], rest
}

func isTerminator(r rune) bool {
	switch r {
	case eof, ' ', '\t', '\r', '\n', '.', ',', '[', ']', '$', '@', '{', '}':
		return true
	}
	return false
}

func isEndOfLine(r rune) bool { return r == '\r' || r == '\n' }

func isAlphaNumeric(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
