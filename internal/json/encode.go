package json

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// maxEncodeDepth stops invalid trees, such as one that contains itself.
const maxEncodeDepth = 10_000

// AppendTree appends the canonical JSON of a tree to dst. Trees that are [Equal] have the same
// bytes, and decoding the bytes returns an equal tree. AppendTree returns a [*TypeError] if the
// tree contains another type than map[string]any, []any, string, bool, nil, int64 and float64, a
// NaN or an infinity, or text that is not UTF-8. The result is then dst unchanged.
func AppendTree(dst []byte, tree any) ([]byte, error) {
	e := encoders.Get().(*encoder)
	start := len(dst)
	out, err := e.value(dst, tree)
	if err != nil {
		err = e.located(err)
		out = dst[:start]
	}
	e.release()
	return out, err
}

// Length returns about how many bytes AppendTree appends: exactly so many but for numbers, which may be
// shorter, and for texts with characters that have to be escaped, which are longer. What AppendTree
// cannot encode has any length.
func Length(tree any) int {
	var n length
	n.add(tree, 0)
	return int(n)
}

// length counts bytes.
type length int

// add counts a value, and reports whether it is not nested too deeply.
func (n *length) add(tree any, depth int) bool {
	const longestNumber = 20
	if depth > maxEncodeDepth {
		return false
	}
	switch v := tree.(type) {
	case map[string]any:
		*n += length(len("{}") + max(0, len(v)-1))
		for name, value := range v {
			*n += length(len(`"":`) + len(name) + strings.Count(name, `"`)) // managed fields quote names
			if !n.add(value, depth+1) {
				return false
			}
		}
	case []any:
		*n += length(len("[]") + max(0, len(v)-1))
		for _, value := range v {
			if !n.add(value, depth+1) {
				return false
			}
		}
	case string:
		*n += length(len(`""`) + len(v))
	case bool, nil:
		*n += length(len("false"))
	default:
		*n += longestNumber
	}
	return true
}

// AppendStored is [AppendTree] for an object, without the resourceVersion in its metadata.
func AppendStored(dst []byte, object map[string]any) ([]byte, error) {
	e := encoders.Get().(*encoder)
	e.stored = true
	start := len(dst)
	out, err := e.object(dst, object)
	if err != nil {
		err = e.located(err)
		out = dst[:start]
	}
	e.release()
	return out, err
}

// AppendString appends s to dst as a JSON string. It replaces invalid UTF-8 by U+FFFD.
func AppendString(dst []byte, s string) []byte {
	out, _ := appendText(dst, s)
	return out
}

// AppendStringOf is [AppendString] for a text in bytes, which it does not copy first.
func AppendStringOf(dst, text []byte) []byte { return AppendString(dst, view(text)) }

// encoders holds scratch memory between calls. Callers cannot observe its contents.
var encoders = sync.Pool{New: func() any { return new(encoder) }}

// maxPooledMembers limits the memory that a pooled encoder or decoder retains.
const maxPooledMembers = 4096

type member struct {
	name  string
	value any
}

type encoder struct {
	members []member // a stack; each open object appends its members and sorts them
	depth   int
	stored  bool   // the document is an object, written without its resourceVersion
	within  string // the member of the document that is being written
	path    []Step // filled while an error returns, innermost step first
}

func (e *encoder) release() {
	if cap(e.members) > maxPooledMembers {
		return
	}
	clear(e.members[:cap(e.members)])
	*e = encoder{members: e.members[:0]}
	encoders.Put(e)
}

func (e *encoder) value(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case map[string]any:
		return e.object(dst, v)
	case []any:
		return e.array(dst, v)
	case string:
		out, err := appendText(dst, v)
		if err != nil {
			return dst, e.fail("text is not valid UTF-8")
		}
		return out, nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case nil:
		return append(dst, "null"...), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return dst, e.fail("must be a finite number")
		}
		return appendFloat(dst, v), nil
	default:
		return dst, e.fail(fmt.Sprintf("Go type %T is not allowed in a tree", v))
	}
}

func (e *encoder) object(dst []byte, object map[string]any) ([]byte, error) {
	if e.depth++; e.depth > maxEncodeDepth {
		return dst, e.fail("nested too deeply")
	}
	base := len(e.members)
	e.members = slices.Grow(e.members, len(object))
	bare := e.stored && e.depth == 2 && e.within == "metadata"
	for name, value := range object {
		if bare && name == "resourceVersion" {
			continue
		}
		e.members = append(e.members, member{name, value})
	}
	slices.SortFunc(e.members[base:], func(a, b member) int { return strings.Compare(a.name, b.name) })

	dst = append(dst, '{')
	for i := range len(e.members) - base {
		m := e.members[base+i]
		if e.depth == 1 {
			e.within = m.name
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendText(dst, m.name); err != nil {
			return dst, e.fail("a name is not valid UTF-8")
		}
		dst = append(dst, ':')
		if dst, err = e.value(dst, m.value); err != nil {
			return dst, e.at(err, Name(m.name))
		}
	}
	e.members = e.members[:base]
	e.depth--
	return append(dst, '}'), nil
}

func (e *encoder) array(dst []byte, array []any) ([]byte, error) {
	if e.depth++; e.depth > maxEncodeDepth {
		return dst, e.fail("nested too deeply")
	}
	dst = append(dst, '[')
	for i, v := range array {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = e.value(dst, v); err != nil {
			return dst, e.at(err, Item(i))
		}
	}
	e.depth--
	return append(dst, ']'), nil
}

func (e *encoder) fail(reason string) error { return &TypeError{Reason: reason} }

// at adds one step to the path of an error while it returns.
func (e *encoder) at(err error, s Step) error {
	e.path = append(e.path, s)
	return err
}

// located sets the path of an error that has returned to the top.
func (e *encoder) located(err error) error {
	if failure, ok := err.(*TypeError); ok {
		slices.Reverse(e.path)
		failure.Path = FormatPath(e.path)
	}
	return err
}

// QuotedLen returns the length of a valid text in JSON, with its quotes.
func QuotedLen[T string | []byte](text T) int {
	n := len(text) + len(`""`)
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"', c == '\\', c == '\b', c == '\t', c == '\n', c == '\f', c == '\r':
			n++
		case c < ' ':
			n += len(`\u0000`) - 1
		}
	}
	return n
}

// longText is the length above which a text gets its room at once: growing step by step would take a
// multiple of it.
const longText = 32 << 10

// appendText is AppendString that also reports invalid text.
func appendText(dst []byte, s string) ([]byte, error) {
	if len(s) > longText {
		dst = slices.Grow(dst, QuotedLen(s))
	}
	if plain(bytesOf(s)) < len(s) {
		return jsontext.AppendQuote(dst, s)
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"'), nil
}

// The range of integers in a tree, as floats. The upper bound is exclusive, because the largest
// int64 is not a float.
const (
	minInteger = -1 << 63
	maxInteger = 1 << 63
)

// integral returns f as an integer if it is whole and within the range of a tree's integers.
func integral(f float64) (int64, bool) {
	if f >= minInteger && f < maxInteger && f == math.Trunc(f) {
		return int64(f), true
	}
	return 0, false
}

// appendFloat writes a whole float with all its digits, so that it is read back as the integer that
// it equals. It writes a float outside int64 with an exponent, because DecodeTree would reject some
// of these as integers.
func appendFloat(dst []byte, f float64) []byte {
	if i, ok := integral(f); ok {
		return strconv.AppendInt(dst, i, 10)
	}
	if math.Abs(f) >= maxInteger {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	return jsontext.AppendFloat(dst, f, 64)
}
