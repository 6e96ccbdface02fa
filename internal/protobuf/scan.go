package protobuf

import (
	"bytes"

	"github.com/kindwright/kindwright/internal/json"
)

// scanner moves over the text of an object. It relies on the text being written by package json, but
// stays within bounds for any text.
type scanner struct {
	trace
	data  []byte
	pos   int
	depth int
}

func (s *scanner) damaged() error { return fail("invalid JSON near byte %d", s.pos) }

// peek returns the first byte of the value at hand, which determines its JSON type.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) blanks() {
	for s.pos < len(s.data) && s.data[s.pos] <= ' ' {
		s.pos++
	}
}

// open enters an object or array.
func (s *scanner) open(bracket byte) error {
	if s.peek() != bracket {
		return s.mismatch(bracket)
	}
	if s.depth++; s.depth > json.DefaultMaxDepth {
		return fail("nested more than %d levels deep", json.DefaultMaxDepth)
	}
	s.pos++
	return nil
}

func (s *scanner) mismatch(wanted byte) error {
	if s.pos >= len(s.data) {
		return s.damaged()
	}
	switch wanted {
	case '{':
		return fail("must be an object")
	case '[':
		return fail("must be an array")
	case '"':
		return fail("must be a string")
	case 't':
		return fail("must be true or false")
	}
	return fail("must be a number")
}

// separator skips the comma before a member or item. If it finds the closing bracket, it skips that,
// leaves the object or array, and returns false.
func (s *scanner) separator(closing byte, first bool) (more bool, err error) {
	s.blanks()
	switch c := s.peek(); {
	case c == closing:
		s.pos++
		s.depth--
		return false, nil
	case first:
		return true, nil
	case c != ',':
		return false, s.damaged()
	}
	s.pos++
	s.blanks()
	return true, nil
}

// expected skips the name of the next member and its colon, if it is one of those that can follow in
// the text of a stored object. next is the same as that of [message.member].
func (s *scanner) expected(m *message, next *int) (p place, found bool) {
	rest := s.data[s.pos:]
	for i := *next; i < len(m.sorted); i++ {
		if want := m.sorted[i].field.member; len(rest) >= len(want) && string(rest[:len(want)]) == want {
			s.pos += len(want)
			s.blanks()
			*next = i + 1
			return m.sorted[i].place, true
		}
	}
	return place{}, false
}

// name skips the name of a member and its colon. It returns the name without resolving escapes. Names
// of fields do not contain any.
func (s *scanner) name() (name []byte, err error) {
	raw, err := s.quoted()
	if err != nil {
		return nil, err
	}
	return raw[1 : len(raw)-1], s.colon()
}

func (s *scanner) colon() error {
	s.blanks()
	if s.peek() != ':' {
		return s.damaged()
	}
	s.pos++
	s.blanks()
	return nil
}

// quoted skips a string, and returns it with its quotation marks.
func (s *scanner) quoted() (raw []byte, err error) {
	start := s.pos
	if s.peek() != '"' {
		return nil, s.damaged()
	}
	var ok bool
	if s.pos, ok = json.SkipText(s.data, s.pos); !ok {
		return nil, s.damaged()
	}
	return s.data[start:s.pos], nil
}

// raw skips a value of any type without validating its content, and returns its text.
func (s *scanner) raw() (text []byte, err error) {
	start := s.pos
	var ok bool
	if s.pos, ok = json.SkipValue(s.data, s.pos); !ok {
		return nil, s.damaged()
	}
	return s.data[start:s.pos], nil
}

// text skips a string and returns its content.
func (s *scanner) text() ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.mismatch('"')
	}
	raw, err := s.quoted()
	if err != nil {
		return nil, err
	}
	return unquoted(raw)
}

// unquoted returns the content of a string with quotation marks.
func unquoted(raw []byte) ([]byte, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], nil
	}
	text, err := json.DecodeTree(raw, json.TreeOptions{})
	if err != nil {
		return nil, fail("the text has an invalid escape")
	}
	s, _ := text.(string)
	return []byte(s), nil
}

func startsNumber(c byte) bool { return c == '-' || '0' <= c && c <= '9' }

// number skips a number.
func (s *scanner) number() ([]byte, error) {
	if !startsNumber(s.peek()) {
		return nil, s.mismatch('0')
	}
	return s.raw()
}
