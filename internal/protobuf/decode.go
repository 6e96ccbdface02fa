package protobuf

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/protowire"
)

const (
	// maxDepth is the maximum nesting of messages.
	maxDepth = 100

	// maxValues limits the values that are known of at once: those of the messages around a place.
	// An empty value takes two bytes on the wire and many more here.
	//
	// Source: S1.
	maxValues = 200_000
)

// AppendJSON decodes the message of an object and appends it as JSON, which is what a JSON client
// would have sent for the same Go value. It omits zero fields if their json tag says so and skips
// unknown fields, unless Exact is set. Members are in the order of field numbers. The JSON is valid and has no duplicate
// names.
//
// apiVersion and kind come from the envelope. They are omitted if they are empty or if the Go type
// has no TypeMeta.
//
// AppendJSON appends at most limit bytes. If it fails, it returns an [*Error] and dst unchanged.
// Time and memory are linear in the length of the message and limit.
func (d *Descriptor) AppendJSON(dst, message []byte, apiVersion, kind string, limit int) ([]byte, error) {
	r, ok := d.decoders.Get().(*decoder)
	if !ok {
		r = new(decoder)
	}
	start := len(dst)
	dst = slices.Grow(dst, min(len(message)+len(message)/4+64, limit))
	r.data, r.out, r.limit, r.exact = message, append(dst, '{'), start+limit, d.Exact
	if d.typed {
		r.typeMeta("apiVersion", apiVersion)
		r.typeMeta("kind", kind)
	}
	err := r.object(d.root)
	out := r.out
	if err != nil {
		out, err = dst[:start], r.located(err)
	}
	r.release(d)
	return out, err
}

// decoder decodes one message. For each nested message, it first scans all fields and records the
// positions of their values. Then it writes field by field. It needs the first pass because fields
// may be in any order, repeated, or split into parts.
type decoder struct {
	trace
	data   []byte
	out    []byte
	limit  int // of len(out)
	exact  bool
	depth  int
	values []value   // a stack of the values in the messages being read
	chains []chain   // a stack of the values of each field, for each message being read
	pairs  []pairing // a stack of the entries of each map being written
}

// none is the index of an absent value.
const none int32 = -1

// A value is one value on the wire. A malicious message can contain very many of them, so it is
// small.
type value struct {
	// For wire type bytes, the position in the data, with the start in the upper and the end in the
	// lower 32 bits. For other wire types, the value itself.
	bits uint64
	next int32 // index of the next value of the same field, or none
}

func place32(start, end int) uint64 { return uint64(start)<<32 | uint64(end) }

// chain is the list of values of one field.
type chain struct{ first, last int32 }

// pairing is one entry of a map.
type pairing struct {
	key   []byte
	value int32 // or none
}

// Limits on the memory that a pooled decoder retains.
const (
	maxPooledValues = 8 << 10
	maxPooledChains = 4 << 10
)

func (r *decoder) release(d *Descriptor) {
	if cap(r.values) > maxPooledValues || cap(r.chains) > maxPooledChains || cap(r.pairs) > maxPooledEntries {
		return
	}
	clear(r.pairs[:cap(r.pairs)])
	clear(r.steps[:cap(r.steps)])
	*r = decoder{trace: trace{r.steps[:0]}, values: r.values[:0], chains: r.chains[:0], pairs: r.pairs[:0]}
	d.decoders.Put(r)
}

func (r *decoder) typeMeta(name, value string) {
	if value != "" {
		r.comma()
		r.out = append(append(append(r.out, '"'), name...), `":`...)
		r.out = json.AppendString(r.out, value)
	}
}

func (r *decoder) object(root *message) error {
	if len(r.data) > math.MaxInt32 {
		return fail("the message is too long")
	}
	r.values = append(r.values, value{bits: place32(0, len(r.data)), next: none})
	if _, err := r.message(root, chain{}); err != nil {
		return err
	}
	r.out = append(r.out, '}')
	return r.fits()
}

func (r *decoder) fits() error {
	if len(r.out) > r.limit {
		return &Error{Reason: "the object is too large", TooLarge: true}
	}
	return nil
}

// comma writes a comma unless the next value is the first of its object or array.
func (r *decoder) comma() {
	if c := r.out[len(r.out)-1]; c != '{' && c != '[' {
		r.out = append(r.out, ',')
	}
}

// payload returns the content of a string, bytes or message value.
func (r *decoder) payload(v int32) []byte {
	bits := r.values[v].bits
	return r.data[bits>>32 : bits&math.MaxUint32]
}

// each yields the values of a chain.
func (r *decoder) each(c chain) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for v := c.first; v != none && yield(v) && v != c.last; {
			v = r.values[v].next
		}
	}
}

// message writes the members of a message. If there are several values, they are parts of the same
// message. zero reports whether all fields are zero.
func (r *decoder) message(m *message, c chain) (zero bool, err error) {
	if r.depth++; r.depth > maxDepth {
		return false, fail("nested more than %d levels deep", maxDepth)
	}
	base, values := len(r.chains), len(r.values)
	for range m.fields {
		r.chains = append(r.chains, chain{none, none})
	}
	for v := range r.each(c) {
		if err := r.scan(m, base, v); err != nil {
			return false, err
		}
	}
	zero = true
	for i := range m.fields {
		absent, err := r.field(&m.fields[i], r.chains[base+i])
		if err != nil {
			return false, err
		}
		zero = zero && absent
	}
	r.chains, r.values = r.chains[:base], r.values[:values]
	r.depth--
	return zero, nil
}

// scan records the values of a message. v is one part of the message.
func (r *decoder) scan(m *message, base int, v int32) error {
	end := int(r.values[v].bits & math.MaxUint32)
	for rest := r.payload(v); len(rest) > 0; {
		f, after, err := protowire.Next(rest)
		if err != nil {
			return &Error{Reason: err.Error()}
		}
		rest = after
		i := m.fieldOf(f.Number)
		if i < 0 && r.exact {
			return fail("field %d is unknown", f.Number)
		}
		if i < 0 || m.fields[i].hidden {
			continue
		}
		of, c := &m.fields[i], &r.chains[base+i]
		switch wire := of.wire(); {
		case f.Type == wire:
			err = r.add(c, f, end-len(rest))
		case f.Type == protowire.Bytes && of.cardinality == list:
			err = r.unpack(c, wire, f.Bytes)
		default:
			err = mismatch(f.Type, wire)
		}
		if err != nil {
			return r.in(err, of)
		}
	}
	return nil
}

func mismatch(got, want protowire.Type) error {
	return fail("has wire type %s, must be %s", got, want)
}

// add records a value of a field. end is the position after it.
func (r *decoder) add(c *chain, f protowire.Field, end int) error {
	if len(r.values) >= maxValues {
		return &Error{Reason: fmt.Sprintf("has more than %d values", maxValues), TooLarge: true}
	}
	v := value{bits: f.Value, next: none}
	if f.Type == protowire.Bytes {
		v.bits = place32(end-len(f.Bytes), end)
	}
	index := int32(len(r.values))
	if len(r.values) == cap(r.values) {
		r.values = slices.Grow(r.values, max(64, len(r.values))) // append alone would grow by a quarter
	}
	r.values = append(r.values, v)
	if c.first == none {
		c.first = index
	} else {
		r.values[c.last].next = index
	}
	c.last = index
	return nil
}

// unpack records the values of a packed list.
func (r *decoder) unpack(c *chain, wire protowire.Type, packed []byte) error {
	for len(packed) > 0 {
		v, rest, err := protowire.Unpack(packed, wire)
		if err != nil {
			return &Error{Reason: err.Error()}
		}
		packed = rest
		if err := r.add(c, protowire.Field{Type: wire, Value: v}, 0); err != nil {
			return err
		}
	}
	return nil
}

// pick returns the values of one field of a message without a descriptor.
func (r *decoder) pick(c chain, number int32, wire protowire.Type) (chain, error) {
	found := chain{none, none}
	for v := range r.each(c) {
		end := int(r.values[v].bits & math.MaxUint32)
		for rest := r.payload(v); len(rest) > 0; {
			f, after, err := protowire.Next(rest)
			if err != nil {
				return found, &Error{Reason: err.Error()}
			}
			rest = after
			switch {
			case f.Number != number:
			case f.Type != wire:
				return found, mismatch(f.Type, wire)
			default:
				if err := r.add(&found, f, end-len(rest)); err != nil {
					return found, err
				}
			}
		}
	}
	return found, nil
}

// field writes the member for a field and reports whether its value is zero.
func (r *decoder) field(f *field, c chain) (zero bool, err error) {
	switch {
	case f.hidden:
		return true, nil
	case c.first == none:
		if f.absentJSON != "" {
			r.comma()
			r.out = append(r.out, f.absentJSON...)
		}
		return true, r.fits()
	case f.inline:
		zero, err = r.message(f.shape.message, c)
		return zero && f.cardinality == one, err
	}
	start := len(r.out)
	r.comma()
	r.out = append(r.out, f.member...)
	switch f.cardinality {
	case list:
		err = r.items(f.shape, c)
	case mapping:
		err = r.mapping(f.shape, c)
	default:
		zero, err = r.value(f.shape, c)
	}
	if err != nil {
		return false, r.in(err, f)
	}
	if zero && f.dropsZero() {
		r.out = r.out[:start]
	}
	return zero && f.cardinality == one, r.fits()
}

// dropsZero reports whether JSON omits a zero value that is present on the wire. It never omits a
// pointer to zero.
func (f *field) dropsZero() bool {
	if f.cardinality == optional {
		return f.slice && f.omitEmpty
	}
	return f.omitEmpty || f.omitZero
}

func (r *decoder) items(s *shape, c chain) error {
	r.out = append(r.out, '[')
	i := 0
	for v := range r.each(c) {
		r.comma()
		if _, err := r.value(s, chain{v, v}); err != nil {
			return r.at(err, json.Item(i))
		}
		if err := r.fits(); err != nil {
			return err
		}
		i++
	}
	r.out = append(r.out, ']')
	return nil
}

// mapping writes the entries of a map, sorted by key. If a key is repeated, the last entry wins.
func (r *decoder) mapping(s *shape, c chain) error {
	base, sorted, entries := len(r.pairs), true, 0
	for range r.each(c) {
		entries++
	}
	r.pairs = slices.Grow(r.pairs, entries)
	for v := range r.each(c) {
		keys, err := r.pick(chain{v, v}, numberKey, protowire.Bytes)
		if err != nil {
			return err
		}
		values, err := r.pick(chain{v, v}, numberValue, s.wire())
		if err != nil {
			return err
		}
		p := pairing{value: values.last}
		if keys.last != none {
			p.key = r.payload(keys.last)
		}
		if last := len(r.pairs) - 1; last >= base && bytes.Compare(r.pairs[last].key, p.key) >= 0 {
			sorted = false
		}
		r.pairs = append(r.pairs, p)
	}
	if !sorted {
		slices.SortStableFunc(r.pairs[base:], func(a, b pairing) int { return bytes.Compare(a.key, b.key) })
	}
	r.out = append(r.out, '{')
	for i := base; i < len(r.pairs); i++ {
		start := len(r.out)
		if err := r.pairing(r.pairs[i], s); err != nil {
			return err
		}
		if next := i + 1; next < len(r.pairs) && bytes.Equal(r.pairs[i].key, r.pairs[next].key) {
			r.out = r.out[:start] // drop it only now, so that an invalid entry is an error
		}
	}
	r.out = append(r.out, '}')
	r.pairs = r.pairs[:base]
	return nil
}

func (r *decoder) pairing(p pairing, s *shape) (err error) {
	r.comma()
	if err := r.text(p.key); err != nil {
		return err
	}
	r.out = append(r.out, ':')
	if p.value == none {
		r.out = append(r.out, s.zeroJSON...)
	} else if _, err = r.value(s, chain{p.value, p.value}); err != nil {
		return r.at(err, json.Name(string(p.key)))
	}
	return r.fits()
}

// value writes a value and reports whether it is zero. If there are several, the last one wins.
// Messages are merged instead.
func (r *decoder) value(s *shape, c chain) (zero bool, err error) {
	noted := len(r.values)
	zero, err = r.form(s, c)
	r.values = r.values[:noted]
	return zero, err
}

func (r *decoder) form(s *shape, c chain) (zero bool, err error) {
	switch s.kind {
	case kindText:
		text := r.payload(c.last)
		return len(text) == 0, r.text(text)
	case kindBool, kindInteger, kindUnsigned, kindFloat:
		return r.number(s, r.values[c.last].bits)
	case kindBytes:
		data := r.payload(c.last)
		r.out = append(r.out, '"')
		r.out = append(base64.StdEncoding.AppendEncode(r.out, data), '"')
		return len(data) == 0, nil
	case kindMessage:
		r.out = append(r.out, '{')
		zero, err = r.message(s.message, c)
		r.out = append(r.out, '}')
		return zero, err
	case kindTime, kindMicroTime:
		return r.instant(s.kind, c)
	case kindDuration:
		return r.duration(c)
	case kindQuantity:
		return r.quantity(c)
	case kindRaw:
		return r.raw(c)
	case kindIntOrString:
		return r.intOrString(c)
	}
	return r.alternative(s, c)
}

// text writes a string.
func (r *decoder) text(text []byte) error {
	plain, size := true, len(text)
	for _, b := range text {
		switch {
		case b == '"' || b == '\\' || '\b' <= b && b <= '\r' && b != '\v':
			size++ // for a backslash
		case b < ' ':
			size += len(`\u0000`) - 1
		case b < utf8.RuneSelf:
			continue
		}
		plain = false
	}
	if len(r.out)+size > r.limit {
		return &Error{Reason: "the object is too large", TooLarge: true} // before it takes memory
	}
	if plain {
		r.out = append(append(append(r.out, '"'), text...), '"')
		return nil
	}
	if !utf8.Valid(text) {
		return fail("the text is not valid UTF-8")
	}
	r.out = json.AppendString(r.out, string(text))
	return nil
}

// number writes a number or a boolean. Integers that are too long are truncated, as protobuf
// requires.
func (r *decoder) number(s *shape, bits uint64) (zero bool, err error) {
	unused := 64 - s.bits
	switch s.kind {
	case kindBool:
		r.out = strconv.AppendBool(r.out, bits != 0)
		return bits == 0, nil
	case kindInteger:
		v := int64(bits<<unused) >> unused
		r.out = strconv.AppendInt(r.out, v, 10)
		return v == 0, nil
	case kindUnsigned:
		v := bits << unused >> unused
		r.out = strconv.AppendUint(r.out, v, 10)
		return v == 0, nil
	}
	v := math.Float64frombits(bits)
	if s.bits == 32 {
		single := float64(math.Float32frombits(uint32(bits)))
		if v, err = strconv.ParseFloat(strconv.FormatFloat(single, 'g', -1, 32), 64); err != nil {
			return false, fail("must be a finite number")
		}
	}
	if r.out, err = json.AppendTree(r.out, v); err != nil {
		return false, fail("must be a finite number")
	}
	return v == 0, nil
}
