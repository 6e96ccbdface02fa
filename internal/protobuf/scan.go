package protobuf

import (
	"github.com/kindwright/kindwright/internal/json"
)

// A node is a JSON value that the message needs. Its children follow it in the list of nodes.
type node struct {
	start, end int32 // of its text
	next       int32 // index of the first node that is not a descendant
	slot       int32 // its slot among the members of the enclosing object
}

// scanner finds the values that the message of an object needs, in one pass. It relies on the text
// being written by package json, but stays within bounds for any text.
//
// The nodes of an object are its known members, except for nulls. Those of an array are its items.
// Those of a map are names and values alternately.
type scanner struct {
	trace
	data  []byte
	pos   int
	depth int
	nodes []node
}

func (s *scanner) scan(data []byte, m *message) error {
	s.data = data
	s.blanks()
	if err := s.object(m, 0); err != nil {
		return err
	}
	s.blanks()
	if s.pos < len(s.data) {
		return s.damaged()
	}
	return nil
}

func (s *scanner) damaged() error { return fail("invalid JSON near byte %d", s.pos) }

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

// begin adds the node of the value at the current position. The caller must call end after adding
// its children.
func (s *scanner) begin(slot int32) (index int) {
	s.nodes = append(s.nodes, node{start: int32(s.pos), slot: slot})
	return len(s.nodes) - 1
}

func (s *scanner) end(index int) {
	s.nodes[index].end = int32(s.pos)
	s.nodes[index].next = int32(len(s.nodes))
}

// leaf adds the node of a value without children.
func (s *scanner) leaf(slot int32) error {
	index := s.begin(slot)
	if !s.skip() {
		return s.damaged()
	}
	s.end(index)
	return nil
}

// object scans an object with the members of m.
func (s *scanner) object(m *message, slot int32) error {
	index := s.begin(slot)
	if err := s.open('{'); err != nil {
		return err
	}
	next := 0
	for first := true; ; first = false {
		name, more, err := s.name(first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		p, known := m.member(name, &next)
		if !known {
			if !s.skip() {
				return s.damaged()
			}
			continue
		}
		if err := s.member(p); err != nil {
			return s.at(err, json.Name(p.field.name))
		}
	}
	s.depth--
	s.end(index)
	return nil
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

// separator skips the comma before a member or item. If it finds the closing bracket, it skips that
// and returns false.
func (s *scanner) separator(closing byte, first bool) (more bool, err error) {
	s.blanks()
	switch c := s.peek(); {
	case c == closing:
		s.pos++
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

// name returns the name of the next member without resolving escapes. Names of fields do not
// contain any.
func (s *scanner) name(first bool) (name []byte, more bool, err error) {
	if more, err = s.separator('}', first); !more || err != nil {
		return nil, false, err
	}
	start := s.pos
	if s.peek() != '"' || !s.text() {
		return nil, false, s.damaged()
	}
	name = s.data[start+1 : s.pos-1]
	return name, true, s.colon()
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

// member scans the value of a known member. Null counts as absent.
func (s *scanner) member(p place) error {
	switch {
	case s.peek() == 'n':
		if !s.skip() {
			return s.damaged()
		}
		return nil
	case p.field.cardinality == list:
		return s.array(p.field.shape, p.slot)
	case p.field.cardinality == mapping:
		return s.mapping(p.field.shape, p.slot)
	}
	return s.value(p.field.shape, p.slot)
}

func (s *scanner) array(items *shape, slot int32) error {
	index := s.begin(slot)
	if err := s.open('['); err != nil {
		return err
	}
	for i := 0; ; i++ {
		more, err := s.separator(']', i == 0)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := s.value(items, 0); err != nil {
			return s.at(err, json.Item(i))
		}
	}
	s.depth--
	s.end(index)
	return nil
}

func (s *scanner) mapping(values *shape, slot int32) error {
	index := s.begin(slot)
	if err := s.open('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := s.separator('}', first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		start := s.pos
		if s.peek() != '"' {
			return s.damaged()
		}
		if err := s.leaf(0); err != nil {
			return err
		}
		name := s.data[start+1 : s.pos-1]
		if err := s.colon(); err != nil {
			return err
		}
		if err := s.value(values, 0); err != nil {
			return s.at(err, json.Name(string(name)))
		}
	}
	s.depth--
	s.end(index)
	return nil
}

// value scans a value of a known shape, or null.
func (s *scanner) value(v *shape, slot int32) error {
	c := s.peek()
	if c == 'n' {
		return s.leaf(slot)
	}
	switch v.kind {
	case kindMessage:
		return s.object(v.message, slot)
	case kindList:
		return s.array(v.items, slot)
	case kindOrBool, kindOrList:
		return s.either(v, slot)
	case kindText, kindBytes, kindTime, kindMicroTime, kindDuration:
		if c != '"' {
			return s.mismatch('"')
		}
	case kindBool:
		if c != 't' && c != 'f' {
			return s.mismatch('t')
		}
	case kindInteger, kindUnsigned, kindFloat:
		if !startsNumber(c) {
			return s.mismatch('0')
		}
	case kindQuantity, kindIntOrString:
		if c != '"' && !startsNumber(c) {
			return fail("must be a string or a number")
		}
	}
	return s.leaf(slot)
}

// either scans a value that is an object or a simpler type.
func (s *scanner) either(v *shape, slot int32) error {
	switch c := s.peek(); {
	case c == '{':
		return s.object(v.message, slot)
	case c == '[' && v.kind == kindOrList:
		return s.array(v.items, slot)
	case (c == 't' || c == 'f') && v.kind == kindOrBool:
		return s.leaf(slot)
	}
	return fail("must be an object or one of its alternatives")
}

func startsNumber(c byte) bool { return c == '-' || '0' <= c && c <= '9' }

// skip skips a value of any type without validating its content.
func (s *scanner) skip() (ok bool) {
	s.pos, ok = json.SkipValue(s.data, s.pos)
	return ok
}

// text skips a string.
func (s *scanner) text() (ok bool) {
	s.pos, ok = json.SkipText(s.data, s.pos)
	return ok
}
