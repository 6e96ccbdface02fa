package json

import (
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

const badText = "text is not valid UTF-8 or has an invalid escape"

// scanner scans JSON text and checks the syntax of RFC 8259. The decoder of jsontext does more than
// the request path needs: it reads from an io.Reader and keeps two state machines. Fuzz tests
// compare the two.
type scanner struct {
	data []byte
	pos  int
}

// peek returns the byte at the current position, or zero at the end. A zero byte is never valid
// outside of a string.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) fail(reason string) *SyntaxError {
	return &SyntaxError{Offset: int64(s.pos), Reason: reason}
}

func (s *scanner) unexpected(where string) *SyntaxError {
	if s.pos >= len(s.data) {
		return s.fail(endsEarly)
	}
	r, _ := utf8.DecodeRune(s.data[s.pos:])
	return s.fail(fmt.Sprintf("character %q %s", r, where))
}

func (s *scanner) blanks() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// separator is called before each member or item. It skips the comma that all but the first need.
// It returns true if it finds the closing bracket instead, which it does not skip.
func (s *scanner) separator(closing byte, first bool) (end bool, err *SyntaxError) {
	s.blanks()
	c := s.peek()
	if c == closing {
		return true, nil
	}
	if first {
		return false, nil
	}
	if c != ',' {
		return false, s.unexpected(fmt.Sprintf("where ',' or %q should be", rune(closing)))
	}
	s.pos++
	s.blanks()
	if s.peek() == closing {
		return false, s.unexpected("after ','")
	}
	return false, nil
}

func (s *scanner) colon() *SyntaxError {
	s.blanks()
	if s.peek() != ':' {
		return s.unexpected("where ':' should be")
	}
	s.pos++
	s.blanks()
	return nil
}

func (s *scanner) literal(text string) *SyntaxError {
	if len(s.data)-s.pos < len(text) || string(s.data[s.pos:s.pos+len(text)]) != text {
		return s.unexpected("at the start of an invalid literal")
	}
	s.pos += len(text)
	return nil
}

// stringBytes skips a string and returns it with its quotes. If simple is set, the bytes between
// the quotes are the text. Otherwise escapes are not yet resolved and UTF-8 is not yet checked.
func (s *scanner) stringBytes() (raw []byte, simple bool, err *SyntaxError) {
	start := s.pos
	ascii, escaped := true, false
	for i := start + 1; ; i++ {
		if i += plain(s.data[min(i, len(s.data)):]); i >= len(s.data) {
			break
		}
		switch c := s.data[i]; {
		case c == '"':
			s.pos = i + 1
			raw = s.data[start:s.pos]
			return raw, !escaped && (ascii || utf8.Valid(raw)), nil
		case c == '\\':
			escaped = true
			i++
		case c < ' ':
			s.pos = i
			return nil, false, s.fail(fmt.Sprintf("control character %q in text", rune(c)))
		default:
			for ascii = false; i+1 < len(s.data) && s.data[i+1] >= utf8.RuneSelf; i++ {
			}
		}
	}
	s.pos = len(s.data)
	return nil, false, s.unexpected("")
}

// numberBytes skips a number and reports whether it has neither fraction nor exponent.
func (s *scanner) numberBytes() (raw []byte, integer bool, err *SyntaxError) {
	start := s.pos
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else if err := s.digits(); err != nil {
		return nil, false, err
	}
	integer = true
	if s.peek() == '.' {
		integer = false
		s.pos++
		if err := s.digits(); err != nil {
			return nil, false, err
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		integer = false
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if err := s.digits(); err != nil {
			return nil, false, err
		}
	}
	return s.data[start:s.pos], integer, nil
}

func (s *scanner) digits() *SyntaxError {
	start := s.pos
	for s.pos < len(s.data) && '0' <= s.data[s.pos] && s.data[s.pos] <= '9' {
		s.pos++
	}
	if s.pos == start {
		return s.unexpected("where a digit should be")
	}
	return nil
}

// skip skips a value of any type without decoding it. depth limits its nesting.
func (s *scanner) skip(depth int) *SyntaxError {
	switch c := s.peek(); {
	case c == '"':
		return s.skipText()
	case c == '{':
		return s.skipContainer('}', depth)
	case c == '[':
		return s.skipContainer(']', depth)
	case c == '-' || '0' <= c && c <= '9':
		_, _, err := s.numberBytes()
		return err
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	default:
		return s.unexpected("where a value should be")
	}
}

func (s *scanner) skipText() *SyntaxError {
	if s.peek() != '"' {
		return s.unexpected("where a name should be")
	}
	raw, simple, err := s.stringBytes()
	if err != nil || simple {
		return err
	}
	if _, err := jsontext.AppendUnquote(nil, raw); err != nil {
		return &SyntaxError{Offset: int64(s.pos - len(raw)), Reason: badText}
	}
	return nil
}

func (s *scanner) skipContainer(closing byte, depth int) *SyntaxError {
	if depth == 0 {
		return s.fail("nested too deeply")
	}
	s.pos++
	for first := true; ; first = false {
		end, err := s.separator(closing, first)
		if err != nil {
			return err
		}
		if end {
			s.pos++
			return nil
		}
		if closing == '}' {
			if err := s.skipText(); err != nil {
				return err
			}
			if err := s.colon(); err != nil {
				return err
			}
		}
		if err := s.skip(depth - 1); err != nil {
			return err
		}
	}
}
