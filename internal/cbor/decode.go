package cbor

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/kindwright/kindwright/internal/json"
)

// ErrTooLarge says that a document would be longer than the limit as JSON, or that an object and
// those around it have more than maxNames members.
var ErrTooLarge = errors.New("the document is too large as JSON")

// maxNames limits the members of the objects that are open at a time. No document with more of them is
// decoded afterwards: a member of a large object takes 120 bytes of json.RequestMemory.
//
// Source: S1.
const maxNames = json.RequestMemory / 120

// The tags that change how their content is read (RFC 8949, 3.4). The content of any other is read
// as if it had none.
const (
	tagTime      = 0 // as text
	tagEpoch     = 1
	tagBignum    = 2
	tagNegBignum = 3
	tagBase64URL = 21 // bytes that are text in this encoding
	tagBase64    = 22
	tagHex       = 23
)

// ToJSON converts one document to JSON of at most limit bytes. Time is linear in the length of both
// but for the names of an object, which are sorted; memory beside the result is a few bytes for each
// name of the objects that are open at a time.
func ToJSON(document []byte, limit int) ([]byte, error) {
	d := decoder{data: document, limit: limit, out: make([]byte, 0, min(limit, len(document)+len(document)/2+64))}
	if err := d.value(0); err != nil {
		if errors.Is(err, ErrTooLarge) {
			return nil, err
		}
		return nil, fmt.Errorf("byte %d: %w", min(d.pos, len(document)), err)
	}
	if d.pos < len(document) {
		return nil, fmt.Errorf("byte %d: there is more after the document", d.pos)
	}
	return d.out, nil
}

// decoder reads one document.
type decoder struct {
	data  []byte
	pos   int
	out   []byte
	limit int
	names []span // of all open objects
	turns json.Turns
}

// span is where a name stands in the document.
type span struct{ from, to uint32 }

// head is the first bytes of a data item.
type head struct {
	major byte
	info  byte
	n     uint64 // the argument; meaningless for the info indefinite
}

var errEnd = errors.New("the document ends too early")

func (d *decoder) head() (head, error) {
	if d.pos >= len(d.data) {
		return head{}, errEnd
	}
	d.turns.At(d.pos)
	h := head{major: d.data[d.pos] &^ 0x1f, info: d.data[d.pos] & 0x1f}
	d.pos++
	var size int
	switch {
	case h.info < 24:
		h.n = uint64(h.info)
		return h, nil
	case h.info <= 27:
		size = 1 << (h.info - 24)
	case h.info == indefinite:
		return h, nil
	default:
		return h, errors.New("a length is not well-formed")
	}
	if len(d.data)-d.pos < size {
		return h, errEnd
	}
	var wide [8]byte
	copy(wide[8-size:], d.data[d.pos:])
	d.pos += size
	h.n = binary.BigEndian.Uint64(wide[:])
	return h, nil
}

// value reads one data item.
func (d *decoder) value(depth int) error {
	h, err := d.head()
	if err != nil {
		return err
	}
	return d.item(h, depth)
}

func (d *decoder) item(h head, depth int) error {
	if depth > json.DefaultMaxDepth {
		return fmt.Errorf("the document is nested more than %d levels deep", json.DefaultMaxDepth)
	}
	if h.info == indefinite && (h.major < byteString || h.major == tag) {
		return errors.New("a length is not well-formed")
	}
	switch h.major {
	case unsigned, negative:
		return d.integer(h)
	case byteString, textString:
		text, err := d.text(h)
		if err != nil {
			return err
		}
		return d.writeText(text)
	case array:
		return d.array(h, depth)
	case object:
		return d.object(h, depth)
	case tag:
		return d.tagged(h.n, depth)
	}
	return d.simple(h)
}

func (d *decoder) write(text string) error {
	if len(d.out)+len(text) > d.limit {
		return ErrTooLarge
	}
	d.out = append(d.out, text...)
	return nil
}

// checkLength is for what is written without write, whose length is known only afterwards.
func (d *decoder) checkLength() error {
	if len(d.out) > d.limit {
		return ErrTooLarge
	}
	return nil
}

func (d *decoder) integer(h head) error {
	if h.n > math.MaxInt64 {
		return errors.New("an integer does not fit 64 bits")
	}
	n := int64(h.n)
	if h.major == negative {
		n = ^n
	}
	d.out = strconv.AppendInt(d.out, n, 10)
	return d.checkLength()
}

// text reads the content of a string, which may come in pieces.
func (d *decoder) text(h head) ([]byte, error) {
	if h.info != indefinite {
		return d.bytes(h)
	}
	all, err := d.roomForPieces()
	if err != nil {
		return nil, err
	}
	for {
		piece, err := d.head()
		switch {
		case err != nil:
			return nil, err
		case piece == head{major: simple, info: indefinite}:
			return all, nil
		case piece.major != h.major || piece.info == indefinite:
			return nil, errors.New("a string has a piece of another type")
		}
		text, err := d.bytes(piece)
		if err != nil {
			return nil, err
		}
		if h.major == textString && !utf8.Valid(text) {
			return nil, errUTF8
		}
		all = append(all, text...)
	}
}

// roomForPieces makes room for a string that comes in pieces, by looking how long they are.
func (d *decoder) roomForPieces() ([]byte, error) {
	start, length := d.pos, 0
	defer func() { d.pos = start }()
	for {
		piece, err := d.head()
		if err != nil {
			return nil, err
		}
		if piece.info == indefinite || piece.major != byteString && piece.major != textString {
			return make([]byte, 0, length), nil // the end, or what the caller rejects
		}
		text, err := d.bytes(piece)
		if err != nil {
			return nil, err
		}
		length += len(text)
	}
}

// bytes reads the content of a string of known length. It shares the memory of the document.
func (d *decoder) bytes(h head) ([]byte, error) {
	if h.n > uint64(len(d.data)-d.pos) {
		return nil, errEnd
	}
	text := d.data[d.pos : d.pos+int(h.n)]
	d.pos += int(h.n)
	return text, nil
}

var errUTF8 = errors.New("a string is not UTF-8")

func (d *decoder) writeText(text []byte) error {
	if !utf8.Valid(text) {
		return errUTF8
	}
	length := json.QuotedLen(text)
	if len(d.out)+length > d.limit {
		return ErrTooLarge
	}
	d.out = json.AppendStringOf(slices.Grow(d.out, length), text)
	return d.checkLength()
}

// more reports whether an array or object has another item, and reads the end of one that has no
// length.
func (d *decoder) more(h head, read uint64) (bool, error) {
	if h.info != indefinite {
		return read < h.n, nil
	}
	if d.pos >= len(d.data) {
		return false, errEnd
	}
	if d.data[d.pos] == simple|indefinite {
		d.pos++
		return false, nil
	}
	return true, nil
}

func (d *decoder) array(h head, depth int) error {
	if err := d.write("["); err != nil {
		return err
	}
	for read := uint64(0); ; read++ {
		more, err := d.more(h, read)
		if err != nil {
			return err
		}
		if !more {
			return d.write("]")
		}
		if read > 0 {
			if err := d.write(","); err != nil {
				return err
			}
		}
		if err := d.value(depth + 1); err != nil {
			return err
		}
	}
}

func (d *decoder) object(h head, depth int) error {
	if err := d.write("{"); err != nil {
		return err
	}
	first := len(d.names)
	for read := uint64(0); ; read++ {
		more, err := d.more(h, read)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if read > 0 {
			if err := d.write(","); err != nil {
				return err
			}
		}
		if err := d.name(); err != nil {
			return err
		}
		if err := d.value(depth + 1); err != nil {
			return err
		}
	}
	if err := d.distinct(d.names[first:]); err != nil {
		return err
	}
	d.names = d.names[:first]
	return d.write("}")
}

// name reads the name of a member.
func (d *decoder) name() error {
	h, err := d.head()
	if err != nil {
		return err
	}
	if h.major != byteString && h.major != textString || h.info == indefinite {
		return errors.New("the name of a member is not a string of known length")
	}
	from := d.pos
	text, err := d.bytes(h)
	if err != nil {
		return err
	}
	if d.pos > math.MaxUint32 || len(d.names) == maxNames {
		return ErrTooLarge
	}
	if len(d.names) == cap(d.names) {
		d.names = slices.Grow(d.names, max(64, len(d.names))) // append alone would grow by a quarter
	}
	d.names = append(d.names, span{uint32(from), uint32(d.pos)})
	if err := d.writeText(text); err != nil {
		return err
	}
	return d.write(":")
}

// distinct rejects a name that an object has twice.
func (d *decoder) distinct(names []span) error {
	text := func(s span) []byte { return d.data[s.from:s.to] }
	slices.SortFunc(names, func(a, b span) int { return bytes.Compare(text(a), text(b)) })
	for i := 1; i < len(names); i++ {
		if bytes.Equal(text(names[i-1]), text(names[i])) {
			return fmt.Errorf("the name %.64q is given twice", text(names[i]))
		}
	}
	return nil
}

// tagged reads the content of a tag.
func (d *decoder) tagged(number uint64, depth int) error {
	h, err := d.head()
	if err != nil {
		return err
	}
	switch number {
	case tagBignum, tagNegBignum:
		return errors.New("an integer does not fit 64 bits")
	case tagTime:
		return d.timeText(h)
	case tagEpoch:
		return d.epoch(h)
	case tagBase64URL, tagBase64, tagHex:
		if h.major == byteString {
			return d.encoded(number, h)
		}
	}
	return d.item(h, depth+1)
}

// encoded reads bytes that are text in JSON.
func (d *decoder) encoded(number uint64, h head) error {
	data, err := d.text(h)
	if err != nil {
		return err
	}
	length := base64.StdEncoding.EncodedLen(len(data))
	if number == tagHex {
		length = hex.EncodedLen(len(data))
	}
	if len(d.out)+length+len(`""`) > d.limit {
		return ErrTooLarge
	}
	d.out = append(slices.Grow(d.out, length+len(`""`)), '"')
	switch number {
	case tagBase64URL:
		d.out = base64.RawURLEncoding.AppendEncode(d.out, data)
	case tagHex:
		d.out = hex.AppendEncode(d.out, data)
	default:
		d.out = base64.StdEncoding.AppendEncode(d.out, data)
	}
	d.out = append(d.out, '"')
	return nil
}

// timeText reads a time that is text.
func (d *decoder) timeText(h head) error {
	if h.major != textString && h.major != byteString {
		return errors.New("a time is not text")
	}
	text, err := d.text(h)
	if err != nil {
		return err
	}
	if _, err := time.Parse(time.RFC3339Nano, string(text)); err != nil {
		return errors.New("a time does not have the form of RFC 3339")
	}
	return d.writeText(text)
}

// epoch reads a time that is a number of seconds.
func (d *decoder) epoch(h head) error {
	var at time.Time
	switch {
	case h.info == indefinite || h.n > math.MaxInt64 && h.major != simple:
		return errors.New("a time is not a number of seconds")
	case h.major == unsigned:
		at = time.Unix(int64(h.n), 0)
	case h.major == negative:
		at = time.Unix(^int64(h.n), 0)
	case h.major == simple && h.info >= float16:
		seconds, err := float(h)
		if err != nil {
			return err
		}
		whole, fraction := math.Modf(seconds)
		if math.Abs(whole) > 1<<53 {
			return errors.New("a time is not within the years that have four digits")
		}
		at = time.Unix(int64(whole), int64(fraction*1e9))
	default:
		return errors.New("a time is not a number of seconds")
	}
	if at = at.UTC(); at.Year() < 0 || at.Year() > 9999 {
		return errors.New("a time is not within the years that have four digits")
	}
	return d.writeText([]byte(at.Format(time.RFC3339Nano)))
}

// simple reads true, false, null and floats.
func (d *decoder) simple(h head) error {
	switch {
	case h.info == indefinite:
		return errors.New("an end stands where nothing has begun")
	case h.info == falseValue:
		return d.write("false")
	case h.info == trueValue:
		return d.write("true")
	case h.info == nullValue:
		return d.write("null")
	case h.info < float16:
		return fmt.Errorf("simple value %d has no meaning in JSON", h.n)
	}
	f, err := float(h)
	if err != nil {
		return err
	}
	if d.out, err = json.AppendTree(d.out, f); err != nil {
		return err
	}
	return d.checkLength()
}

// float returns the value of a float, which is finite.
func float(h head) (float64, error) {
	f := math.Float64frombits(h.n)
	switch h.info {
	case float16:
		f = widened(uint16(h.n))
	case float32s:
		f = float64(math.Float32frombits(uint32(h.n)))
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, errors.New("NaN and infinities have no meaning in JSON")
	}
	return f, nil
}

// widened returns the value of a float of 16 bits.
func widened(h uint16) float64 {
	exponent, fraction := int(h>>10&0x1f), float64(h&0x3ff)
	var f float64
	switch exponent {
	case 0:
		f = math.Ldexp(fraction, -24)
	case 0x1f:
		f = math.Inf(1)
		if fraction != 0 {
			return math.NaN()
		}
	default:
		f = math.Ldexp(fraction+0x400, exponent-25)
	}
	if h&0x8000 != 0 {
		return -f
	}
	return f
}
