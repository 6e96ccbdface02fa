package json

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/kindwright/kindwright/internal/clip"
)

// DefaultMaxDepth is the default limit on the nesting of documents.
const DefaultMaxDepth = 512

// maxDuplicates limits the duplicates that are reported for one document.
const maxDuplicates = 100

// TreeOptions control how strict [DecodeTree] is. The zero value is the strictest.
type TreeOptions struct {
	// MaxDepth limits the nesting of objects and arrays. Zero means DefaultMaxDepth.
	MaxDepth int
	// Duplicates is called with the path, such as "spec.bar", of each member whose name the object
	// already contains. It is called at most 100 times per document. The last member wins. If
	// Duplicates is nil, a duplicate is an error.
	Duplicates func(path string)
	// Memory bounds about how many bytes the tree may take. The members of metadata that the server
	// keeps in structures of its own may take a fourth of it each: managedFields, ownerReferences
	// and finalizers. A document that takes more is a *SyntaxError with TooLarge set. Zero means no
	// bound.
	//
	// Source: S1.
	Memory int
	// Shared lets texts of the tree share the memory of data, which must never change then. A text that
	// is kept for long keeps all of data.
	Shared bool
	// Floats makes numbers float64, as other readers of JSON do, with one difference: integers beyond
	// 2^53, of which a float64 holds every second at most, become int64, or uint64 if they do not fit.
	// Larger ones become the nearest float64.
	Floats bool
	// Kept holds values of members named fieldsV1 between documents. Nil decodes each anew.
	Kept *Kept
}

// RequestMemory is the Memory of a document that a client sends. An object of 1.5 MiB with 60,000
// members is below it, and a schema of that size. The smallest values take a hundred times the bytes of their text.
const RequestMemory = 12 << 20

// What parts of a tree take, about, with the memory that growing takes on the way.
const (
	objectBytes = 48  // an empty object
	groupBytes  = 280 // the first eight members of an object
	tableBytes  = 700 // the ninth member, which changes the form of the map
	memberBytes = 120 // each later member
	arrayBytes  = 24
	itemBytes   = 56
	textBytes   = 16 // a string beside its bytes
	scalarBytes = 8
)

// DecodeTree decodes one JSON document to a tree. Numbers without fraction and exponent become
// int64, others float64. It rejects integers outside int64 (except as Go writes a float64), floats
// outside float64, a byte order mark, invalid UTF-8, lone surrogates, deep nesting, and anything
// but whitespace after the document. Errors are a [*SyntaxError].
//
// Unless o says so, the tree does not share memory with data. Time and memory are linear in len(data).
func DecodeTree(data []byte, o TreeOptions) (any, error) {
	d := decoders.Get().(*decoder)
	d.scanner = scanner{data: data}
	d.maxDepth = o.MaxDepth
	if d.maxDepth <= 0 {
		d.maxDepth = DefaultMaxDepth
	}
	d.duplicates, d.reported, d.turns = o.Duplicates, 0, Turns{}
	d.shared, d.floats, d.kept = o.Shared, o.Floats, o.Kept
	d.ahead = 2 * len(data)
	d.left, d.quota = math.MaxInt, 0
	if o.Memory > 0 {
		d.left, d.quota = o.Memory, o.Memory/4
	}
	tree, err := d.document()
	d.release()
	return tree, err
}

// Valid checks that data is one well-formed JSON document, nested at most DefaultMaxDepth deep. It
// does not check for duplicate names or numbers out of range; decoding does. Errors are a
// [*SyntaxError] without a path.
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

// decoders holds scratch memory and interned member names between calls. Callers cannot observe its
// contents.
var decoders = sync.Pool{New: func() any { return new(decoder) }}

type decoder struct {
	scanner
	maxDepth   int
	duplicates func(path string)
	reported   int
	left       int // of TreeOptions.Memory
	turns      Turns
	ahead      int    // how many more bytes to look at in advance
	quota      int    // of what one of the members of metadata may take; zero for no bound
	path       []Step // the open objects and arrays with the current position in each
	values     []any  // a stack; each open array appends its items
	scratch    []byte
	shared     bool
	floats     bool
	kept       *Kept
	names      [256]string // an intern table of recent member names, indexed by hash
	texts      [256]any    // the same for short texts, ready to be put into a tree
}

func (d *decoder) release() {
	if cap(d.values) > maxPooledMembers || cap(d.scratch) > maxPooledBytes {
		return
	}
	clear(d.values[:cap(d.values)])
	clear(d.path[:cap(d.path)])
	d.scanner, d.duplicates, d.kept = scanner{}, nil, nil
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

// take accounts for n bytes of the tree.
func (d *decoder) take(n int) *SyntaxError {
	d.turns.At(d.pos)
	if d.left -= n; d.left < 0 {
		return &SyntaxError{Offset: int64(d.pos), TooLarge: true, Reason: "the values up to here would take too much memory: send fewer or larger ones"}
	}
	return nil
}

// costly are the members of metadata that have a bound of their own.
func costly(name string) bool {
	return name == "managedFields" || name == "ownerReferences" || name == "finalizers"
}

// member reads the value of a member of the innermost object.
func (d *decoder) member(name string) (any, *SyntaxError) {
	if d.kept != nil && name == fieldsV1 {
		return d.kept.value(d)
	}
	if d.quota == 0 || len(d.path) != 2 || d.path[0].name != "metadata" || !costly(name) {
		return d.value()
	}
	apart := max(d.left-d.quota, 0)
	d.left -= apart
	value, err := d.value()
	d.left += apart
	return value, err
}

// locate adds the current path to a scanner's error.
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
	if err := d.take(textBytes + len(raw)); err != nil {
		return nil, err
	}
	if simple {
		return d.simple(raw[1 : len(raw)-1]), nil
	}
	if len(raw) > longText {
		own, err := jsontext.AppendUnquote(make([]byte, 0, len(raw)), raw)
		if err != nil {
			return nil, d.badText(raw)
		}
		return view(own), nil
	}
	if err := d.unquote(raw); err != nil {
		return nil, err
	}
	return string(d.scratch), nil
}

// simple returns a text without escapes. Short ones repeat between documents, as names do.
func (d *decoder) simple(text []byte) any {
	if n := len(text); n > 0 && n <= maxInternedBytes {
		slot := &d.texts[slotOf(text)]
		if have, ok := (*slot).(string); !ok || have != string(text) {
			*slot = string(text)
		}
		return *slot
	}
	if d.shared {
		return view(text)
	}
	return string(text)
}

func (d *decoder) badText(raw []byte) *SyntaxError {
	return &SyntaxError{Offset: int64(d.pos - len(raw)), Reason: badText}
}

// unquote resolves escapes and validates UTF-8. The result is in the scratch buffer.
func (d *decoder) unquote(raw []byte) *SyntaxError {
	var err error
	if d.scratch, err = jsontext.AppendUnquote(slices.Grow(d.scratch[:0], len(raw)), raw); err != nil {
		return d.badText(raw)
	}
	return nil
}

// name reads the name of a member. Names repeat between documents, so most of them are found in the
// intern table and need no allocation.
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

// maxInternedBytes is the longest name to keep between documents.
const maxInternedBytes = 48

func (d *decoder) intern(text []byte) string {
	n := len(text)
	if n == 0 || n > maxInternedBytes {
		return string(text)
	}
	slot := &d.names[slotOf(text)]
	if *slot != string(text) {
		*slot = string(text)
	}
	return *slot
}

// slotOf returns the place of a text, which is not empty, in an intern table.
func slotOf(text []byte) uint {
	n := len(text)
	return (uint(text[0])*131 + uint(text[n/2])*31 + uint(text[n-1])*7 + uint(n)) % 256
}

// open enters an object or array. The caller has already seen its first byte.
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
	if err := d.take(objectBytes); err != nil {
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
		if err := d.take(memberCost(len(object)) + len(name)); err != nil {
			return nil, err
		}
		value, err := d.member(name)
		if err != nil {
			return nil, err
		}
		members := len(object)
		if object[name] = value; len(object) == members {
			if err := d.duplicate(start); err != nil {
				return nil, err
			}
		} else if len(object) == manyMembers {
			object = d.withRoom(object)
		}
		d.path[level] = Step{index: noStep}
	}
}

// manyMembers is how many members an object has when the decoder looks how many more there are.
const manyMembers = 4096

// withRoom returns an object with room for the members that follow. A map that grows with them takes
// twice the memory on the way.
func (d *decoder) withRoom(object map[string]any) map[string]any {
	more := min(d.membersAhead(), d.left/memberBytes)
	if more < manyMembers {
		return object
	}
	out := make(map[string]any, len(object)+more)
	maps.Copy(out, object)
	return out
}

// membersAhead returns how many members follow in the innermost object, or 0 if the decoder has looked
// ahead far enough in this document: objects within objects would be looked through again and again.
func (d *decoder) membersAhead() (n int) {
	depth := 0
	for i := d.pos; i < min(len(d.data), d.pos+d.ahead); i++ {
		switch d.data[i] {
		case '"':
			i += textLength(d.data[i:]) - 1
		case '{', '[':
			depth++
		case ',':
			if depth == 0 {
				n++
			}
		case '}', ']':
			if depth--; depth < 0 {
				d.ahead -= i - d.pos
				return n
			}
		}
	}
	d.ahead = 0
	return 0
}

// textLength returns the length of the text that data begins with, quotes included. A text without
// an end has the length of data.
func textLength(data []byte) int {
	for i := 1; ; i++ {
		end := bytes.IndexByte(data[i:], '"')
		if end < 0 {
			return len(data)
		}
		escapes := 0
		for i += end; data[i-1-escapes] == '\\'; escapes++ {
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}

// memberCost is what one more member of an object takes.
func memberCost(members int) int {
	switch {
	case members == 0:
		return groupBytes
	case members < 8:
		return 0
	case members == 8:
		return tableBytes
	}
	return memberBytes
}

// duplicate handles a repeated member at the end of the current path.
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
	if err := d.take(arrayBytes); err != nil {
		return nil, err
	}
	level, base := len(d.path)-1, len(d.values)
	var long [][]any // the items of a long array but for the last ones
	for {
		end, err := d.separator(']', len(d.values) == base && long == nil)
		if err != nil {
			return nil, err
		}
		if end {
			break
		}
		d.path[level].index = len(long)*longItems + len(d.values) - base
		if err := d.take(itemBytes); err != nil {
			return nil, err
		}
		value, err := d.value()
		if err != nil {
			return nil, err
		}
		if len(d.values) == cap(d.values) {
			d.values = slices.Grow(d.values, max(64, len(d.values))) // append alone would grow by a quarter
		}
		if d.values = append(d.values, value); len(d.values)-base == longItems {
			long = append(long, slices.Clone(d.values[base:]))
			d.values = d.values[:base]
		}
	}
	d.close()
	array := make([]any, 0, len(long)*longItems+len(d.values)-base)
	for _, items := range long {
		array = append(array, items...)
	}
	array = append(array, d.values[base:]...)
	d.values = d.values[:base]
	return array, nil
}

// longItems is how many items of an array wait on the stack of values. Those of a longer array are
// put aside in pieces: a stack that doubles would take up to three times the memory of the array.
const longItems = 4096

func (d *decoder) number() (any, *SyntaxError) {
	start := d.pos
	if err := d.take(scalarBytes); err != nil {
		return nil, err
	}
	raw, integer, err := d.numberBytes()
	if err != nil {
		return nil, err
	}
	if integer && d.floats {
		if v, ok := exactFloat(raw); ok {
			return v, nil
		}
		integer = false
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
			Reason: "integer " + clip.Text(string(raw[:min(len(raw), 64)]), 40) + " does not fit in 64 bits",
		}
	}
	f, ferr := strconv.ParseFloat(string(raw), 64)
	if ferr != nil {
		reason := "invalid number"
		if errors.Is(ferr, strconv.ErrRange) {
			reason = "number is beyond the range of a 64-bit float"
		}
		return nil, &SyntaxError{Offset: int64(start), Reason: reason}
	}
	if f == 0 {
		f = 0 // normalise -0, whose text would be read back as an integer
	}
	return f, nil
}

// exactFloat reads an integer as TreeOptions.Floats says. It returns false if it has no exact value.
func exactFloat(raw []byte) (any, bool) {
	if i, ok := parseInteger(raw); ok {
		if i > maxExact || i < -maxExact {
			return i, true
		}
		return float64(i), true
	}
	u, err := strconv.ParseUint(string(raw), 10, 64)
	return u, err == nil
}

// maxExact is up to where a float64 tells each integer from the next.
const maxExact = 1 << 53

// writtenFloat handles integers outside int64. It accepts those that are the text of a float64 in
// Go and JavaScript, such as 10000000000000000000 for 1e19, because clients must be able to send
// back what they received. It rejects all others, because a float would change their value.
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

// parseInteger parses a syntactically valid integer. It returns false if the value does not fit in
// an int64.
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
