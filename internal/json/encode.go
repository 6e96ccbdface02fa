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

// maxEncodeDepth only stops trees that are wrong, such as one that contains itself.
const maxEncodeDepth = 10_000

// AppendTree appends the canonical JSON of a tree to dst. Two trees that are [Equal] have the same bytes, and decoding
// the bytes gives a tree equal to the one written. It fails with a [*TypeError] when the tree holds anything but
// map[string]any, []any, string, bool, nil, int64 and float64, a NaN or an infinity, or text that is not UTF-8; the
// result is then dst as it was.
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

// AppendString appends s to dst as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	out, _ := appendText(dst, s)
	return out
}

// encoders holds scratch memory between calls, nothing that a caller could observe.
var encoders = sync.Pool{New: func() any { return new(encoder) }}

// maxPooledMembers bounds what one pooled encoder or decoder keeps.
const maxPooledMembers = 4096

type member struct {
	name  string
	value any
}

type encoder struct {
	members []member // a stack: each open object sorts its members at the end of it
	depth   int
	path    []Step // filled on the way out of an error, innermost first
}

func (e *encoder) release() {
	if cap(e.members) > maxPooledMembers {
		return
	}
	clear(e.members[:cap(e.members)])
	e.members, e.depth, e.path = e.members[:0], 0, nil
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
			return dst, e.fail("not a finite number")
		}
		return appendFloat(dst, v), nil
	default:
		return dst, e.fail(fmt.Sprintf("Go type %T has no place in a tree", v))
	}
}

func (e *encoder) object(dst []byte, object map[string]any) ([]byte, error) {
	if e.depth++; e.depth > maxEncodeDepth {
		return dst, e.fail("nested too deeply")
	}
	base := len(e.members)
	for name, value := range object {
		e.members = append(e.members, member{name, value})
	}
	slices.SortFunc(e.members[base:], func(a, b member) int { return strings.Compare(a.name, b.name) })

	dst = append(dst, '{')
	for i := range len(object) {
		m := e.members[base+i]
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

// at adds one step to the place of an error on its way to the top.
func (e *encoder) at(err error, s Step) error {
	e.path = append(e.path, s)
	return err
}

// located gives an error that reached the top its place.
func (e *encoder) located(err error) error {
	if failure, ok := err.(*TypeError); ok {
		slices.Reverse(e.path)
		failure.Path = FormatPath(e.path)
	}
	return err
}

// appendText is AppendString that tells whether the text was valid.
func appendText(dst []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x80 {
			return jsontext.AppendQuote(dst, s)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"'), nil
}

// The integers of a tree are those of int64, half-open at the top as floats see it.
const (
	minInteger = -1 << 63
	maxInteger = 1 << 63
)

// integral returns the integer that a float is, if it is one that a tree can hold.
func integral(f float64) (int64, bool) {
	if f >= minInteger && f < maxInteger && f == math.Trunc(f) {
		return int64(f), true
	}
	return 0, false
}

// appendFloat writes an integral float with all its digits, so that it reads back as the integer it equals, and one
// beyond int64 with an exponent, so that it does not read as an integer that we refuse.
func appendFloat(dst []byte, f float64) []byte {
	if i, ok := integral(f); ok {
		return strconv.AppendInt(dst, i, 10)
	}
	if math.Abs(f) >= maxInteger {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	return jsontext.AppendFloat(dst, f, 64)
}
