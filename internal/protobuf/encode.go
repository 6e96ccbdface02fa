package protobuf

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/protowire"
)

// AppendMessage appends the message of an object without an envelope. The bytes are those that the
// generated marshallers of Kubernetes write. Members that the Go type lacks are omitted, so the
// descriptor of PartialObjectMetadata can encode the metadata of any object.
//
// The object must be JSON that package json wrote. Values are not normalised: a quantity that is
// not canonical is written as it is. If a value does not fit, AppendMessage returns an [*Error]
// with its path and dst unchanged.
func (d *Descriptor) AppendMessage(dst, object []byte) ([]byte, error) {
	e, ok := d.encoders.Get().(*encoder)
	if !ok {
		e = new(encoder)
	}
	own := e.out
	e.data, e.outer = object, dst
	out, err := dst, e.object(d.root)
	if err == nil {
		own, out = e.out, e.outer
	} else {
		err = e.located(err) // out and outer may be exchanged
	}
	if e.release(own); cap(e.out) <= maxPooledBytes && cap(e.spans) <= maxPooledSpans && cap(e.entries) <= maxPooledEntries {
		d.encoders.Put(e)
	}
	return out, err
}

// encoder encodes one object in one pass over its JSON. Members are sorted by name, and fields by
// number. So the fields of a message are first written in the order of the text, to out, and then
// copied to outer in their own order. A message within it does the same with out and outer exchanged:
// both are stacks, and what a message writes to out lies above what its parent wrote to outer. After
// an error out and outer may stay exchanged, and neither is used.
type encoder struct {
	scanner
	out, outer []byte
	spans      []span  // a stack of the members of each message that is being read, by slot
	entries    []entry // a stack of the entries of each map that is being read
}

// span is where the fields of a member are. after is the position of their end plus one, and zero if
// the member is absent.
type span struct{ start, after int }

type entry struct {
	key        []byte
	start, end int
}

// Limits on the memory that a pooled encoder retains, so that one huge object does not pin its
// memory forever.
const (
	maxPooledBytes   = 64 << 10
	maxPooledSpans   = 4 << 10
	maxPooledEntries = 1 << 10
)

// release prepares the encoder for another object. own is the buffer it began with.
func (e *encoder) release(own []byte) {
	clear(e.entries[:cap(e.entries)])
	clear(e.steps[:cap(e.steps)])
	*e = encoder{scanner: scanner{trace: trace{e.steps[:0]}}, out: own[:0], spans: e.spans[:0], entries: e.entries[:0]}
}

// object appends the message of the whole text to outer.
func (e *encoder) object(m *message) error {
	if len(e.data) > math.MaxInt32 {
		return fail("the object is too long")
	}
	e.blanks()
	base, from := len(e.spans), len(e.out)
	if err := e.members(m, base); err != nil {
		return err
	}
	e.blanks()
	if e.pos < len(e.data) {
		return e.damaged()
	}
	e.fields(m, base)
	e.spans, e.out = e.spans[:base], e.out[:from]
	return nil
}

// message appends the message of an object to out, with its length.
func (e *encoder) message(m *message) error {
	e.out, e.outer = e.outer, e.out
	base, from := len(e.spans), len(e.out)
	if err := e.members(m, base); err != nil {
		return err
	}
	expected := len(e.out) - from
	var body int
	e.outer, body = reserve(e.outer, expected)
	e.fields(m, base)
	e.outer = settle(e.outer, body, expected)
	e.spans, e.out = e.spans[:base], e.out[:from]
	e.out, e.outer = e.outer, e.out
	return nil
}

// members writes the fields of an object to out as they come, and notes their places in spans from
// base on. If a member is repeated, the last one counts.
func (e *encoder) members(m *message, base int) error {
	e.spans = slices.Grow(e.spans, int(m.slots))[:base+int(m.slots)]
	clear(e.spans[base:])
	if err := e.open('{'); err != nil {
		return err
	}
	next := 0
	for first := true; ; first = false {
		more, err := e.separator('}', first)
		if err != nil || !more {
			return err
		}
		p, known := e.expected(m, &next)
		if !known {
			name, err := e.name()
			if err != nil {
				return err
			}
			p, known = m.member(name, &next)
		}
		if !known || e.peek() == 'n' {
			if _, err := e.raw(); err != nil {
				return err
			}
			continue
		}
		start := len(e.out)
		if err := e.member(p.field); err != nil {
			return e.at(err, json.Name(p.field.name))
		}
		e.spans[base+int(p.slot)] = span{start, len(e.out) + 1}
	}
}

// member writes the fields of a member.
func (e *encoder) member(f *field) error {
	switch f.cardinality {
	case list:
		return e.items(f.key, f.shape)
	case mapping:
		return e.mapping(f)
	}
	e.out = append(e.out, f.key...)
	return e.value(f.shape)
}

// fields copies the fields of a message from out to outer, in their order. Their places are in spans
// from base on.
func (e *encoder) fields(m *message, base int) {
	for i := range m.fields {
		f := &m.fields[i]
		at := base + int(f.slot)
		switch {
		case f.hidden:
			e.outer = append(e.outer, f.absent...)
		case f.inline:
			e.inlined(f, at)
		case e.spans[at].after == 0:
			e.outer = append(e.outer, f.absent...)
		default:
			e.outer = append(e.outer, e.out[e.spans[at].start:e.spans[at].after-1]...)
		}
	}
}

// inlined copies the message of an embedded struct whose members are in spans from base on.
func (e *encoder) inlined(f *field, base int) {
	m := f.shape.message
	if !slices.ContainsFunc(e.spans[base:base+int(m.slots)], func(s span) bool { return s.after > 0 }) {
		e.outer = append(e.outer, f.absent...)
		return
	}
	var body int
	e.outer, body = reserve(append(e.outer, f.key...), 0)
	e.fields(m, base)
	e.outer = settle(e.outer, body, 0)
}

// items writes each item of an array as a separate field.
func (e *encoder) items(key []byte, s *shape) error {
	if err := e.open('['); err != nil {
		return err
	}
	for i := 0; ; i++ {
		more, err := e.separator(']', i == 0)
		if err != nil || !more {
			return err
		}
		e.out = append(e.out, key...)
		if err := e.value(s); err != nil {
			return e.at(err, json.Item(i))
		}
	}
}

// mapping writes the entries of a map, sorted by key.
func (e *encoder) mapping(f *field) error {
	if err := e.open('{'); err != nil {
		return err
	}
	base, from, sorted := len(e.entries), len(e.out), true
	for first := true; ; first = false {
		more, err := e.separator('}', first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		key, err := e.key()
		if err != nil {
			return err
		}
		if last := len(e.entries) - 1; last >= base && bytes.Compare(e.entries[last].key, key) > 0 {
			sorted = false
		}
		start := len(e.out)
		if err := e.entry(f, key); err != nil {
			return e.at(err, json.Name(string(key)))
		}
		e.entries = append(e.entries, entry{key, start, len(e.out)})
	}
	if !sorted {
		e.sort(base, from)
	}
	e.entries = e.entries[:base]
	return nil
}

// key skips the key of an entry, and the colon, and returns the key's content.
func (e *encoder) key() ([]byte, error) {
	raw, err := e.quoted()
	if err != nil {
		return nil, err
	}
	if err := e.colon(); err != nil {
		return nil, err
	}
	return unquoted(raw)
}

// sort sorts the entries from base on, which are in out from a position on.
func (e *encoder) sort(base, from int) {
	slices.SortStableFunc(e.entries[base:], func(a, b entry) int { return bytes.Compare(a.key, b.key) })
	unsorted := bytes.Clone(e.out[from:])
	e.out = e.out[:from]
	for _, x := range e.entries[base:] {
		e.out = append(e.out, unsorted[x.start-from:x.end-from]...)
	}
}

// entry writes an entry of a map, whose value comes next.
func (e *encoder) entry(f *field, key []byte) error {
	e.out = append(e.out, f.key...)
	s := f.shape
	if s.kind == kindText && e.peek() == '"' { // the common case, in which the size is known
		text, err := e.text()
		if err != nil {
			return err
		}
		size := 2 + protowire.SizeVarint(uint64(len(key))) + len(key) + protowire.SizeVarint(uint64(len(text))) + len(text)
		e.out = protowire.AppendVarint(e.out, uint64(size))
		e.out = protowire.AppendBytes(protowire.AppendKey(e.out, numberKey, protowire.Bytes), key)
		e.out = protowire.AppendBytes(protowire.AppendKey(e.out, numberValue, protowire.Bytes), text)
		return nil
	}
	var body int
	e.out, body = reserve(e.out, len(key))
	e.out = protowire.AppendBytes(protowire.AppendKey(e.out, numberKey, protowire.Bytes), key)
	var err error
	if s.kind == kindBytes && e.peek() == 'n' { // only bytes distinguish null from empty
		_, err = e.raw()
	} else {
		e.out = protowire.AppendKey(e.out, numberValue, s.wire())
		err = e.value(s)
	}
	if err != nil {
		return err
	}
	e.out = settle(e.out, body, len(key))
	return nil
}

// value writes a value, including its length prefix if it has one.
func (e *encoder) value(s *shape) error {
	if e.peek() == 'n' {
		e.out = append(e.out, s.zero...)
		_, err := e.raw()
		return err
	}
	switch s.kind {
	case kindMessage:
		return e.message(s.message)
	case kindText:
		text, err := e.text()
		e.out = protowire.AppendBytes(e.out, text)
		return err
	case kindBool:
		c := e.peek()
		if c != 't' && c != 'f' {
			return e.mismatch('t')
		}
		e.out = append(e.out, boolByte(c == 't'))
		_, err := e.raw()
		return err
	case kindInteger, kindUnsigned, kindFloat:
		return e.numeral(s)
	case kindBytes:
		return e.bytes()
	case kindRaw:
		raw, err := e.raw()
		e.out = appendWrapped(e.out, raw)
		return err
	case kindQuantity:
		return e.quantity()
	case kindTime, kindMicroTime, kindDuration:
		return e.time(s.kind)
	case kindIntOrString:
		return e.intOrString()
	}
	var body int
	e.out, body = reserve(e.out, 0)
	if err := e.alternative(s); err != nil {
		return err
	}
	e.out = settle(e.out, body, 0)
	return nil
}

// alternative writes the message of a list that has one, or of a value that is either an object or a
// simpler type.
func (e *encoder) alternative(s *shape) error {
	c := e.peek()
	switch {
	case s.kind == kindList:
		return e.items(protowire.AppendKey(nil, numberRaw, s.items.wire()), s.items)
	case s.kind == kindOrBool && (c == 't' || c == 'f'):
		e.out = append(protowire.AppendKey(e.out, numberAllows, protowire.Varint), boolByte(c == 't'))
		_, err := e.raw()
		return err
	case s.kind == kindOrList && c == '[':
		return e.items(protowire.AppendKey(nil, numberItems, s.items.wire()), s.items)
	case c != '{':
		return fail("must be an object or one of its alternatives")
	case s.kind == kindOrBool:
		e.out = append(protowire.AppendKey(e.out, numberAllows, protowire.Varint), 1)
		e.out = protowire.AppendKey(e.out, numberBoolSchema, protowire.Bytes)
	default:
		e.out = protowire.AppendKey(e.out, numberSchema, protowire.Bytes)
	}
	return e.message(s.message)
}

func boolByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}

func (e *encoder) numeral(s *shape) error {
	raw, err := e.number()
	if err != nil {
		return err
	}
	text := string(raw)
	switch s.kind {
	case kindInteger:
		v, err := strconv.ParseInt(text, 10, s.bits)
		if err != nil {
			return fail("must be an integer of %d bits", s.bits)
		}
		e.out = protowire.AppendVarint(e.out, uint64(v))
		return nil
	case kindUnsigned:
		v, err := strconv.ParseUint(text, 10, s.bits)
		if err != nil {
			return fail("must be an unsigned integer of %d bits", s.bits)
		}
		e.out = protowire.AppendVarint(e.out, v)
		return nil
	}
	v, err := strconv.ParseFloat(text, s.bits)
	if err != nil {
		return fail("must be a number of %d bits", s.bits)
	}
	if s.bits == 32 {
		e.out = protowire.AppendFixed32(e.out, math.Float32bits(float32(v)))
	} else {
		e.out = protowire.AppendFixed64(e.out, math.Float64bits(v))
	}
	return nil
}

func (e *encoder) bytes() error {
	text, err := e.text()
	if err != nil {
		return err
	}
	expected := base64.StdEncoding.DecodedLen(len(text))
	dst, body := reserve(e.out, expected)
	if dst, err = base64.StdEncoding.AppendDecode(dst, text); err != nil {
		return fail("must be base64")
	}
	e.out = settle(dst, body, expected)
	return nil
}

// appendWrapped appends a message whose only field is a string or bytes.
func appendWrapped(dst, v []byte) []byte {
	dst = protowire.AppendVarint(dst, uint64(1+protowire.SizeVarint(uint64(len(v)))+len(v)))
	return protowire.AppendBytes(protowire.AppendKey(dst, numberRaw, protowire.Bytes), v)
}

// quantity writes a quantity, which JSON may have as a string or a number.
func (e *encoder) quantity() (err error) {
	var text []byte
	switch c := e.peek(); {
	case c == '"':
		text, err = e.text()
	case startsNumber(c):
		text, err = e.raw()
	default:
		err = fail("must be a string or a number")
	}
	e.out = appendWrapped(e.out, text)
	return err
}

func (e *encoder) intOrString() (err error) {
	var number int64
	var text []byte
	isText := false
	switch c := e.peek(); {
	case c == '"':
		isText = true
		text, err = e.text()
	case startsNumber(c):
		var raw []byte
		if raw, err = e.raw(); err != nil {
			return err
		}
		if number, err = strconv.ParseInt(string(raw), 10, 32); err != nil {
			return fail("must be an integer of 32 bits or a string")
		}
	default:
		err = fail("must be a string or a number")
	}
	if err != nil {
		return err
	}
	size := 4 + protowire.SizeVarint(uint64(number)) + protowire.SizeVarint(uint64(len(text))) + len(text)
	e.out = protowire.AppendVarint(e.out, uint64(size))
	e.out = append(protowire.AppendKey(e.out, numberChoice, protowire.Varint), boolByte(isText))
	e.out = protowire.AppendVarint(protowire.AppendKey(e.out, numberNumber, protowire.Varint), uint64(number))
	e.out = protowire.AppendBytes(protowire.AppendKey(e.out, numberText, protowire.Bytes), text)
	return nil
}

// reserve reserves space for the length prefix of a message with the expected size. body is the
// position at which the message begins.
func reserve(dst []byte, expected int) (_ []byte, body int) {
	dst = append(dst, make([]byte, protowire.SizeVarint(uint64(expected)))...)
	return dst, len(dst)
}

// settle writes the length prefix of the message that begins at body. If the expected size needed
// another number of bytes, it moves the message.
func settle(dst []byte, body, expected int) []byte {
	size := len(dst) - body
	have, need := protowire.SizeVarint(uint64(expected)), protowire.SizeVarint(uint64(size))
	if have != need {
		if need > have {
			dst = append(dst, make([]byte, need-have)...)
		}
		copy(dst[body+need-have:], dst[body:body+size])
		dst = dst[:body+need-have+size]
	}
	binary.PutUvarint(dst[body-have:], uint64(size))
	return dst
}
