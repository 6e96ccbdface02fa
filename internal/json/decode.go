package json

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// DefaultMaxDepth is how deep a document may be nested unless a caller says otherwise.
const DefaultMaxDepth = 512

// maxDuplicates bounds how many duplicates one document gets reported; the rest change nothing about the answer.
const maxDuplicates = 100

// TreeOptions say how strictly [DecodeTree] reads. The zero value is the strictest.
type TreeOptions struct {
	// MaxDepth is the number of nested objects and arrays allowed; zero means DefaultMaxDepth.
	MaxDepth int
	// Duplicates is called for each member whose name its object already had, with a path such as "spec.bar", at most
	// 100 times for one document; the last member wins. When nil, the first duplicate is an error.
	Duplicates func(path string)
}

// DecodeTree reads one JSON document as a tree. Numbers without fraction and exponent are int64, others float64; an
// integer outside int64 (unless it is how Go writes a float) and a float outside float64 are refused, as are a byte
// order mark, invalid UTF-8, lone surrogates, deep nesting and anything but blanks after the document. The error is a
// [*SyntaxError].
//
// The tree shares no memory with data. Time and memory are linear in len(data).
func DecodeTree(data []byte, o TreeOptions) (any, error) {
	d := decoders.Get().(*decoder)
	d.scanner = scanner{data: data}
	d.maxDepth = o.MaxDepth
	if d.maxDepth <= 0 {
		d.maxDepth = DefaultMaxDepth
	}
	d.duplicates, d.reported = o.Duplicates, 0
	tree, err := d.document()
	d.release()
	return tree, err
}

// Valid tells whether data is one JSON document by its grammar and text alone, nested at most DefaultMaxDepth deep;
// duplicate names and the size of numbers are left to whoever decodes it. The error is a [*SyntaxError] without path.
func Valid(data []byte) error {
	s := scanner{data: data}
	s.blanks()
	if err := s.skip(DefaultMaxDepth); err != nil {
		return err
	}
	s.blanks()
	if s.pos < len(data) {
		return s.unexpected("after the end of the document")
	}
	return nil
}

// decoders holds scratch memory and the names of members between calls, nothing that a caller could observe.
var decoders = sync.Pool{New: func() any { return new(decoder) }}

type decoder struct {
	scanner
	maxDepth   int
	duplicates func(path string)
	reported   int
	path       []Step // the open objects and arrays, and where in them we are
	values     []any  // a stack: each open array collects its items at the end of it
	scratch    []byte
	names      [256]string // member names seen lately, by a hash of them
}

func (d *decoder) release() {
	if cap(d.values) > maxPooledMembers || cap(d.scratch) > maxPooledBytes {
		return
	}
	clear(d.values[:cap(d.values)])
	clear(d.path[:cap(d.path)])
	d.scanner, d.duplicates = scanner{}, nil
	d.path, d.values = d.path[:0], d.values[:0]
	decoders.Put(d)
}

func (d *decoder) document() (any, error) {
	d.blanks()
	tree, err := d.value()
	if err != nil {
		return nil, d.locate(err)
	}
	d.blanks()
	if d.pos < len(d.data) {
		return nil, d.locate(d.unexpected("after the end of the document"))
	}
	return tree, nil
}

// locate gives a scanner's error its place in the document.
func (d *decoder) locate(err *SyntaxError) error {
	err.Path = FormatPath(d.path)
	return err
}

func (d *decoder) value() (any, *SyntaxError) {
	switch c := d.peek(); {
	case c == '"':
		return d.text()
	case c == '{':
		return d.object()
	case c == '[':
		return d.array()
	case c == '-' || '0' <= c && c <= '9':
		return d.number()
	case c == 't':
		return true, d.literal("true")
	case c == 'f':
		return false, d.literal("false")
	case c == 'n':
		return nil, d.literal("null")
	default:
		return nil, d.unexpected("where a value should be")
	}
}

func (d *decoder) text() (any, *SyntaxError) {
	raw, simple, err := d.stringBytes()
	if err != nil {
		return nil, err
	}
	if simple {
		return string(raw[1 : len(raw)-1]), nil
	}
	if err := d.unquote(raw); err != nil {
		return nil, err
	}
	return string(d.scratch), nil
}

// unquote resolves escapes and checks UTF-8 into the scratch buffer.
func (d *decoder) unquote(raw []byte) *SyntaxError {
	var err error
	if d.scratch, err = jsontext.AppendUnquote(d.scratch[:0], raw); err != nil {
		return &SyntaxError{Offset: int64(d.pos - len(raw)), Reason: badText}
	}
	return nil
}

// name reads the name of a member. Names repeat from document to document, so that most of them are found ready.
func (d *decoder) name() (string, *SyntaxError) {
	if d.peek() != '"' {
		return "", d.unexpected("where a name should be")
	}
	raw, simple, err := d.stringBytes()
	if err != nil {
		return "", err
	}
	text := raw[1 : len(raw)-1]
	if !simple {
		if err := d.unquote(raw); err != nil {
			return "", err
		}
		text = d.scratch
	}
	return d.intern(text), nil
}

// maxInternedBytes is the longest name worth keeping between documents.
const maxInternedBytes = 48

func (d *decoder) intern(text []byte) string {
	n := len(text)
	if n == 0 || n > maxInternedBytes {
		return string(text)
	}
	slot := &d.names[(uint(text[0])*131+uint(text[n/2])*31+uint(text[n-1])*7+uint(n))%uint(len(d.names))]
	if *slot != string(text) {
		*slot = string(text)
	}
	return *slot
}

// open steps into an object or array; the caller has seen its first byte.
func (d *decoder) open() *SyntaxError {
	if len(d.path) >= d.maxDepth {
		return d.fail(fmt.Sprintf("nested more than %d levels deep", d.maxDepth))
	}
	d.path = append(d.path, Step{index: noStep})
	d.pos++
	d.blanks()
	return nil
}

func (d *decoder) close() {
	d.path = d.path[:len(d.path)-1]
	d.pos++
}

func (d *decoder) object() (any, *SyntaxError) {
	if err := d.open(); err != nil {
		return nil, err
	}
	object := make(map[string]any)
	level := len(d.path) - 1
	for first := true; ; first = false {
		if end, err := d.separator('}', first); end || err != nil {
			if end {
				d.close()
			}
			return object, err
		}
		start := d.pos
		name, err := d.name()
		if err != nil {
			return nil, err
		}
		if err := d.colon(); err != nil {
			return nil, err
		}
		d.path[level] = Name(name)
		value, err := d.value()
		if err != nil {
			return nil, err
		}
		members := len(object)
		if object[name] = value; len(object) == members {
			if err := d.duplicate(start); err != nil {
				return nil, err
			}
		}
		d.path[level] = Step{index: noStep}
	}
}

// duplicate is told of a member, at the end of the current path, that its object already had.
func (d *decoder) duplicate(offset int) *SyntaxError {
	if d.duplicates == nil {
		return &SyntaxError{Offset: int64(offset), Reason: duplicateReason(FormatPath(d.path))}
	}
	if d.reported++; d.reported <= maxDuplicates {
		d.duplicates(FormatPath(d.path))
	}
	return nil
}

func (d *decoder) array() (any, *SyntaxError) {
	if err := d.open(); err != nil {
		return nil, err
	}
	level, base := len(d.path)-1, len(d.values)
	for {
		end, err := d.separator(']', len(d.values) == base)
		if err != nil {
			return nil, err
		}
		if end {
			break
		}
		d.path[level].index = len(d.values) - base
		value, err := d.value()
		if err != nil {
			return nil, err
		}
		d.values = append(d.values, value)
	}
	d.close()
	array := make([]any, len(d.values)-base)
	copy(array, d.values[base:])
	d.values = d.values[:base]
	return array, nil
}

func (d *decoder) number() (any, *SyntaxError) {
	start := d.pos
	raw, integer, err := d.numberBytes()
	if err != nil {
		return nil, err
	}
	if integer {
		if i, ok := parseInteger(raw); ok {
			return i, nil
		}
		if f, ok := writtenFloat(raw); ok {
			return f, nil
		}
		return nil, &SyntaxError{
			Offset: int64(start),
			Reason: "integer " + truncate(string(raw[:min(len(raw), 64)]), 40) + " does not fit in 64 bits",
		}
	}
	f, ferr := strconv.ParseFloat(string(raw), 64)
	if ferr != nil {
		reason := "bad number"
		if errors.Is(ferr, strconv.ErrRange) {
			reason = "number is beyond the range of a 64-bit float"
		}
		return nil, &SyntaxError{Offset: int64(start), Reason: reason}
	}
	if f == 0 {
		f = 0 // never -0, which has no text that reads back as a float
	}
	return f, nil
}

// writtenFloat tells of digits beyond int64 whether they are how Go and JavaScript write a float of that size, such as
// 10000000000000000000 for 1e19: without them their clients could not send back what they got. Other integers are
// refused, for a float would change them.
func writtenFloat(raw []byte) (float64, bool) {
	if len(raw) > len("-100000000000000000000") {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return 0, false
	}
	var buf [32]byte
	return f, string(jsontext.AppendFloat(buf[:0], f, 64)) == string(raw)
}

// parseInteger reads an integer of correct grammar, exactly or not at all.
func parseInteger(raw []byte) (int64, bool) {
	negative := raw[0] == '-'
	if negative {
		raw = raw[1:]
	}
	if len(raw) > 19 {
		return 0, false
	}
	var n uint64
	for _, c := range raw {
		n = n*10 + uint64(c-'0')
	}
	switch {
	case negative && n <= 1<<63:
		return -int64(n), true
	case !negative && n <= math.MaxInt64:
		return int64(n), true
	}
	return 0, false
}
