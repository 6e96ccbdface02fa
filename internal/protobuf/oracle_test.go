package protobuf

import (
	"bytes"
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/protowire"
	"github.com/kindwright/kindwright/meta"
)

// The encoder in this file is the oracle for the one of the package. It takes two passes: one finds
// all values that the message needs, the other writes them in the order of the message.

func (d *Descriptor) appendMessageByNodes(dst, object []byte) ([]byte, error) {
	e := new(nodeEncoder)
	out, err := e.object(dst, object, d.root)
	if err != nil {
		return dst, e.located(err)
	}
	return out, nil
}

// A node is a JSON value that the message needs. Its children follow it in the list of nodes.
type node struct {
	start, end int32 // of its text
	next       int32 // index of the first node that is not a descendant
	slot       int32 // its slot among the members of the enclosing object
}

// nodeScanner finds the values that the message of an object needs, in one pass. It relies on the text
// being written by package json, but stays within bounds for any text.
//
// The nodes of an object are its known members, except for nulls. Those of an array are its items.
// Those of a map are names and values alternately.
type nodeScanner struct {
	trace
	data  []byte
	pos   int
	depth int
	nodes []node
}

func (s *nodeScanner) scan(data []byte, m *message) error {
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

func (s *nodeScanner) damaged() error { return fail("invalid JSON near byte %d", s.pos) }

func (s *nodeScanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *nodeScanner) blanks() {
	for s.pos < len(s.data) && s.data[s.pos] <= ' ' {
		s.pos++
	}
}

// begin adds the node of the value at the current position. The caller must call end after adding
// its children.
func (s *nodeScanner) begin(slot int32) (index int) {
	s.nodes = append(s.nodes, node{start: int32(s.pos), slot: slot})
	return len(s.nodes) - 1
}

func (s *nodeScanner) end(index int) {
	s.nodes[index].end = int32(s.pos)
	s.nodes[index].next = int32(len(s.nodes))
}

// leaf adds the node of a value without children.
func (s *nodeScanner) leaf(slot int32) error {
	index := s.begin(slot)
	if !s.skip() {
		return s.damaged()
	}
	s.end(index)
	return nil
}

// object scans an object with the members of m.
func (s *nodeScanner) object(m *message, slot int32) error {
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
func (s *nodeScanner) open(bracket byte) error {
	if s.peek() != bracket {
		return s.mismatch(bracket)
	}
	if s.depth++; s.depth > json.DefaultMaxDepth {
		return fail("nested more than %d levels deep", json.DefaultMaxDepth)
	}
	s.pos++
	return nil
}

func (s *nodeScanner) mismatch(wanted byte) error {
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
func (s *nodeScanner) separator(closing byte, first bool) (more bool, err error) {
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
func (s *nodeScanner) name(first bool) (name []byte, more bool, err error) {
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

func (s *nodeScanner) colon() error {
	s.blanks()
	if s.peek() != ':' {
		return s.damaged()
	}
	s.pos++
	s.blanks()
	return nil
}

// member scans the value of a known member. Null counts as absent.
func (s *nodeScanner) member(p place) error {
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

func (s *nodeScanner) array(items *shape, slot int32) error {
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

func (s *nodeScanner) mapping(values *shape, slot int32) error {
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
func (s *nodeScanner) value(v *shape, slot int32) error {
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
func (s *nodeScanner) either(v *shape, slot int32) error {
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

// skip skips a value of any type without validating its content.
func (s *nodeScanner) skip() (ok bool) {
	s.pos, ok = json.SkipValue(s.data, s.pos)
	return ok
}

// text skips a string.
func (s *nodeScanner) text() (ok bool) {
	s.pos, ok = json.SkipText(s.data, s.pos)
	return ok
}

// nodeEncoder encodes one object in two passes. The first pass scans the JSON, which is sorted by name.
// The second writes the message, which is sorted by number.
type nodeEncoder struct {
	nodeScanner
	slots   []int32     // a stack of the members' nodes, for each message being written
	entries []nodeEntry // a stack of the entries of each map being written
}

type nodeEntry struct {
	key   []byte
	value int32 // node of the value
}

func (e *nodeEncoder) object(dst, object []byte, m *message) ([]byte, error) {
	if len(object) > math.MaxInt32 {
		return dst, fail("the object is too long")
	}
	if err := e.scan(object, m); err != nil {
		return dst, err
	}
	return e.message(dst, 0, m)
}

// message writes the fields of the message at a node.
func (e *nodeEncoder) message(dst []byte, n int32, m *message) ([]byte, error) {
	base := len(e.slots)
	for range m.slots {
		e.slots = append(e.slots, none)
	}
	for child := n + 1; child < e.nodes[n].next; child = e.nodes[child].next {
		e.slots[base+int(e.nodes[child].slot)] = child
	}
	dst, err := e.fields(dst, m, base)
	e.slots = e.slots[:base]
	return dst, err
}

// fields writes the fields of a message whose members are in slots from base on.
func (e *nodeEncoder) fields(dst []byte, m *message, base int) (_ []byte, err error) {
	for i := range m.fields {
		f := &m.fields[i]
		at := base + int(f.slot)
		switch {
		case f.hidden:
			dst = append(dst, f.absent...)
		case f.inline:
			dst, err = e.inlined(dst, f, at)
		case e.slots[at] == none:
			dst = append(dst, f.absent...)
		default:
			if dst, err = e.field(dst, e.slots[at], f); err != nil {
				err = e.at(err, json.Name(f.name))
			}
		}
		if err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// inlined writes the message of an embedded struct whose members are in slots from base on.
func (e *nodeEncoder) inlined(dst []byte, f *field, base int) ([]byte, error) {
	m := f.shape.message
	if !slices.ContainsFunc(e.slots[base:base+int(m.slots)], func(n int32) bool { return n != none }) {
		return append(dst, f.absent...), nil
	}
	dst, body := reserve(append(dst, f.key...), 0)
	dst, err := e.fields(dst, m, base)
	return settle(dst, body, 0), err
}

func (e *nodeEncoder) field(dst []byte, n int32, f *field) ([]byte, error) {
	switch f.cardinality {
	case list:
		return e.items(dst, n, f.key, f.shape)
	case mapping:
		return e.mapping(dst, n, f)
	}
	return e.value(append(dst, f.key...), n, f.shape)
}

// items writes each item of an array as a separate field.
func (e *nodeEncoder) items(dst []byte, n int32, key []byte, s *shape) (_ []byte, err error) {
	i := 0
	for child := n + 1; child < e.nodes[n].next; child = e.nodes[child].next {
		if dst, err = e.value(append(dst, key...), child, s); err != nil {
			return dst, e.at(err, json.Item(i))
		}
		i++
	}
	return dst, nil
}

// mapping writes the entries of a map, sorted by key.
func (e *nodeEncoder) mapping(dst []byte, n int32, f *field) (_ []byte, err error) {
	base, sorted := len(e.entries), true
	for name := n + 1; name < e.nodes[n].next; name = e.nodes[name+1].next {
		key, err := e.text(name)
		if err != nil {
			return dst, err
		}
		if last := len(e.entries) - 1; last >= base && bytes.Compare(e.entries[last].key, key) > 0 {
			sorted = false
		}
		e.entries = append(e.entries, nodeEntry{key, name + 1})
	}
	if !sorted {
		slices.SortStableFunc(e.entries[base:], func(a, b nodeEntry) int { return bytes.Compare(a.key, b.key) })
	}
	for i := base; i < len(e.entries); i++ {
		if dst, err = e.entry(append(dst, f.key...), e.entries[i], f.shape); err != nil {
			return dst, e.at(err, json.Name(string(e.entries[i].key)))
		}
	}
	e.entries = e.entries[:base]
	return dst, nil
}

func (e *nodeEncoder) entry(dst []byte, x nodeEntry, s *shape) (_ []byte, err error) {
	expected := len(x.key) + e.size(x.value)
	dst, body := reserve(dst, expected)
	dst = protowire.AppendBytes(protowire.AppendKey(dst, numberKey, protowire.Bytes), x.key)
	if s.kind != kindBytes || e.first(x.value) != 'n' { // only bytes distinguish null from empty
		dst, err = e.value(protowire.AppendKey(dst, numberValue, s.wire()), x.value, s)
	}
	return settle(dst, body, expected), err
}

// first returns the first byte of a node's text, which determines its JSON type.
func (e *nodeEncoder) first(n int32) byte { return e.data[e.nodes[n].start] }

func (e *nodeEncoder) size(n int32) int { return int(e.nodes[n].end - e.nodes[n].start) }

// raw returns the text of a node.
func (e *nodeEncoder) raw(n int32) []byte { return e.data[e.nodes[n].start:e.nodes[n].end] }

// text returns the content of a string.
func (e *nodeEncoder) text(n int32) ([]byte, error) {
	raw := e.raw(n)
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

// value writes a value, including its length prefix if it has one.
func (e *nodeEncoder) value(dst []byte, n int32, s *shape) ([]byte, error) {
	if e.first(n) == 'n' {
		return append(dst, s.zero...), nil
	}
	switch s.kind {
	case kindText:
		text, err := e.text(n)
		return protowire.AppendBytes(dst, text), err
	case kindBool:
		return append(dst, boolByte(e.first(n) == 't')), nil
	case kindInteger, kindUnsigned, kindFloat:
		return e.number(dst, n, s)
	case kindBytes:
		return e.bytes(dst, n)
	case kindRaw:
		return appendWrapped(dst, e.raw(n)), nil
	case kindQuantity:
		if e.first(n) != '"' {
			return appendWrapped(dst, e.raw(n)), nil
		}
		text, err := e.text(n)
		return appendWrapped(dst, text), err
	case kindTime, kindMicroTime, kindDuration:
		return e.time(dst, n, s.kind)
	case kindIntOrString:
		return e.intOrString(dst, n)
	}
	expected := e.size(n)
	dst, body := reserve(dst, expected)
	dst, err := e.body(dst, n, s)
	return settle(dst, body, expected), err
}

// body writes the message of a value.
func (e *nodeEncoder) body(dst []byte, n int32, s *shape) ([]byte, error) {
	switch s.kind {
	case kindList:
		return e.items(dst, n, protowire.AppendKey(nil, numberRaw, s.items.wire()), s.items)
	case kindOrBool:
		dst = append(protowire.AppendKey(dst, numberAllows, protowire.Varint), boolByte(e.first(n) != 'f'))
		if e.first(n) != '{' {
			return dst, nil
		}
		dst = protowire.AppendKey(dst, numberBoolSchema, protowire.Bytes)
	case kindOrList:
		if e.first(n) == '[' {
			return e.items(dst, n, protowire.AppendKey(nil, numberItems, s.items.wire()), s.items)
		}
		dst = protowire.AppendKey(dst, numberSchema, protowire.Bytes)
	default:
		return e.message(dst, n, s.message)
	}
	expected := e.size(n)
	dst, body := reserve(dst, expected)
	dst, err := e.message(dst, n, s.message)
	return settle(dst, body, expected), err
}

func (e *nodeEncoder) number(dst []byte, n int32, s *shape) ([]byte, error) {
	text := string(e.raw(n))
	switch s.kind {
	case kindInteger:
		v, err := strconv.ParseInt(text, 10, s.bits)
		if err != nil {
			return dst, fail("must be an integer of %d bits", s.bits)
		}
		return protowire.AppendVarint(dst, uint64(v)), nil
	case kindUnsigned:
		v, err := strconv.ParseUint(text, 10, s.bits)
		if err != nil {
			return dst, fail("must be an unsigned integer of %d bits", s.bits)
		}
		return protowire.AppendVarint(dst, v), nil
	}
	v, err := strconv.ParseFloat(text, s.bits)
	if err != nil {
		return dst, fail("must be a number of %d bits", s.bits)
	}
	if s.bits == 32 {
		return protowire.AppendFixed32(dst, math.Float32bits(float32(v))), nil
	}
	return protowire.AppendFixed64(dst, math.Float64bits(v)), nil
}

func (e *nodeEncoder) bytes(dst []byte, n int32) ([]byte, error) {
	text, err := e.text(n)
	if err != nil {
		return dst, err
	}
	expected := base64.StdEncoding.DecodedLen(len(text))
	dst, body := reserve(dst, expected)
	if dst, err = base64.StdEncoding.AppendDecode(dst, text); err != nil {
		return dst, fail("must be base64")
	}
	return settle(dst, body, expected), nil
}

func (e *nodeEncoder) intOrString(dst []byte, n int32) (_ []byte, err error) {
	var number int64
	var text []byte
	isText := e.first(n) == '"'
	if isText {
		text, err = e.text(n)
	} else if number, err = strconv.ParseInt(string(e.raw(n)), 10, 32); err != nil {
		err = fail("must be an integer of 32 bits or a string")
	}
	if err != nil {
		return dst, err
	}
	size := 4 + protowire.SizeVarint(uint64(number)) + protowire.SizeVarint(uint64(len(text))) + len(text)
	dst = protowire.AppendVarint(dst, uint64(size))
	dst = append(protowire.AppendKey(dst, numberChoice, protowire.Varint), boolByte(isText))
	dst = protowire.AppendVarint(protowire.AppendKey(dst, numberNumber, protowire.Varint), uint64(number))
	return protowire.AppendBytes(protowire.AppendKey(dst, numberText, protowire.Bytes), text), nil
}

// time writes a time or a duration. The zero time is an empty message.
func (e *nodeEncoder) time(dst []byte, n int32, k kind) ([]byte, error) {
	text, err := e.text(n)
	if err != nil {
		return dst, err
	}
	var t time.Time
	switch k {
	case kindDuration:
		d, err := meta.ParseDuration(string(text))
		if err != nil {
			return dst, fail("must be a duration such as 1h30m")
		}
		dst = protowire.AppendVarint(dst, uint64(1+protowire.SizeVarint(uint64(d.Duration))))
		return protowire.AppendVarint(protowire.AppendKey(dst, numberRaw, protowire.Varint), uint64(d.Duration)), nil
	case kindMicroTime:
		var parsed meta.MicroTime
		parsed, err = meta.ParseMicroTime(string(text))
		t = parsed.Time
	default:
		var parsed meta.Time
		parsed, err = meta.ParseTime(string(text))
		t = parsed.Time
	}
	switch {
	case err != nil:
		return dst, fail("must be an RFC 3339 time")
	case t.IsZero():
		return append(dst, 0), nil
	}
	seconds, nanoseconds := uint64(t.Unix()), uint64(t.Nanosecond())
	dst = protowire.AppendVarint(dst, uint64(2+protowire.SizeVarint(seconds)+protowire.SizeVarint(nanoseconds)))
	dst = protowire.AppendVarint(protowire.AppendKey(dst, numberSeconds, protowire.Varint), seconds)
	return protowire.AppendVarint(protowire.AppendKey(dst, numberNanoseconds, protowire.Varint), nanoseconds), nil
}
