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
	start := len(dst)
	out, err := e.object(dst, object, d.root)
	if err != nil {
		out, err = dst[:start], e.located(err)
	}
	e.release(d)
	return out, err
}

// encoder encodes one object in two passes. The first pass scans the JSON, which is sorted by name.
// The second writes the message, which is sorted by number.
type encoder struct {
	scanner
	slots   []int32 // a stack of the members' nodes, for each message being written
	entries []entry // a stack of the entries of each map being written
}

type entry struct {
	key   []byte
	value int32 // node of the value
}

// Limits on the memory that a pooled encoder retains, so that one huge object does not pin its
// memory forever.
const (
	maxPooledNodes   = 16 << 10
	maxPooledEntries = 1 << 10
)

func (e *encoder) release(d *Descriptor) {
	if cap(e.nodes) > maxPooledNodes || cap(e.entries) > maxPooledEntries {
		return
	}
	clear(e.entries[:cap(e.entries)])
	clear(e.steps[:cap(e.steps)])
	e.scanner = scanner{trace: trace{e.steps[:0]}, nodes: e.nodes[:0]}
	e.slots, e.entries = e.slots[:0], e.entries[:0]
	d.encoders.Put(e)
}

func (e *encoder) object(dst, object []byte, m *message) ([]byte, error) {
	if len(object) > math.MaxInt32 {
		return dst, fail("the object is too long")
	}
	if err := e.scan(object, m); err != nil {
		return dst, err
	}
	return e.message(dst, 0, m)
}

// none is the node of an absent member.
const none int32 = -1

// message writes the fields of the message at a node.
func (e *encoder) message(dst []byte, n int32, m *message) ([]byte, error) {
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
func (e *encoder) fields(dst []byte, m *message, base int) (_ []byte, err error) {
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
func (e *encoder) inlined(dst []byte, f *field, base int) ([]byte, error) {
	m := f.shape.message
	if !slices.ContainsFunc(e.slots[base:base+int(m.slots)], func(n int32) bool { return n != none }) {
		return append(dst, f.absent...), nil
	}
	dst, body := reserve(append(dst, f.key...), 0)
	dst, err := e.fields(dst, m, base)
	return settle(dst, body, 0), err
}

func (e *encoder) field(dst []byte, n int32, f *field) ([]byte, error) {
	switch f.cardinality {
	case list:
		return e.items(dst, n, f.key, f.shape)
	case mapping:
		return e.mapping(dst, n, f)
	}
	return e.value(append(dst, f.key...), n, f.shape)
}

// items writes each item of an array as a separate field.
func (e *encoder) items(dst []byte, n int32, key []byte, s *shape) (_ []byte, err error) {
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
func (e *encoder) mapping(dst []byte, n int32, f *field) (_ []byte, err error) {
	base, sorted := len(e.entries), true
	for name := n + 1; name < e.nodes[n].next; name = e.nodes[name+1].next {
		key, err := e.text(name)
		if err != nil {
			return dst, err
		}
		if last := len(e.entries) - 1; last >= base && bytes.Compare(e.entries[last].key, key) > 0 {
			sorted = false
		}
		e.entries = append(e.entries, entry{key, name + 1})
	}
	if !sorted {
		slices.SortStableFunc(e.entries[base:], func(a, b entry) int { return bytes.Compare(a.key, b.key) })
	}
	for i := base; i < len(e.entries); i++ {
		if dst, err = e.entry(append(dst, f.key...), e.entries[i], f.shape); err != nil {
			return dst, e.at(err, json.Name(string(e.entries[i].key)))
		}
	}
	e.entries = e.entries[:base]
	return dst, nil
}

func (e *encoder) entry(dst []byte, x entry, s *shape) (_ []byte, err error) {
	expected := len(x.key) + e.size(x.value)
	dst, body := reserve(dst, expected)
	dst = protowire.AppendBytes(protowire.AppendKey(dst, numberKey, protowire.Bytes), x.key)
	if s.kind != kindBytes || e.first(x.value) != 'n' { // only bytes distinguish null from empty
		dst, err = e.value(protowire.AppendKey(dst, numberValue, s.wire()), x.value, s)
	}
	return settle(dst, body, expected), err
}

// first returns the first byte of a node's text, which determines its JSON type.
func (e *encoder) first(n int32) byte { return e.data[e.nodes[n].start] }

func (e *encoder) size(n int32) int { return int(e.nodes[n].end - e.nodes[n].start) }

// raw returns the text of a node.
func (e *encoder) raw(n int32) []byte { return e.data[e.nodes[n].start:e.nodes[n].end] }

// text returns the content of a string.
func (e *encoder) text(n int32) ([]byte, error) {
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
func (e *encoder) value(dst []byte, n int32, s *shape) ([]byte, error) {
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
func (e *encoder) body(dst []byte, n int32, s *shape) ([]byte, error) {
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

func boolByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}

func (e *encoder) number(dst []byte, n int32, s *shape) ([]byte, error) {
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

func (e *encoder) bytes(dst []byte, n int32) ([]byte, error) {
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

// appendWrapped appends a message whose only field is a string or bytes.
func appendWrapped(dst, v []byte) []byte {
	dst = protowire.AppendVarint(dst, uint64(1+protowire.SizeVarint(uint64(len(v)))+len(v)))
	return protowire.AppendBytes(protowire.AppendKey(dst, numberRaw, protowire.Bytes), v)
}

func (e *encoder) intOrString(dst []byte, n int32) (_ []byte, err error) {
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
