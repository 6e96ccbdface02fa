package cbor

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
)

// The major types (RFC 8949, 3.1), in the bits where they stand.
const (
	unsigned   = 0 << 5
	negative   = 1 << 5
	byteString = 2 << 5
	textString = 3 << 5
	array      = 4 << 5
	object     = 5 << 5
	tag        = 6 << 5
	simple     = 7 << 5
)

// The values of the major type simple that JSON has, and the floats.
const (
	falseValue = 20
	trueValue  = 21
	nullValue  = 22
	float16    = 25
	float32s   = 26
	float64s   = 27

	indefinite = 31 // the length is unknown; for the major type simple, the end of what has none
)

// selfDescribed begins every document (RFC 8949, 3.4.6).
const selfDescribed = "\xd9\xd9\xf7"

// Append appends a JSON document as CBOR.
func Append(dst, document []byte) ([]byte, error) {
	tree, err := json.DecodeTree(document, json.TreeOptions{})
	if err != nil {
		return dst, fmt.Errorf("write as CBOR: %w", err)
	}
	return appendValue(append(dst, selfDescribed...), tree), nil
}

// AppendEvent appends the event of a watch about a JSON document.
func AppendEvent(dst []byte, kind string, document []byte) ([]byte, error) {
	dst = append(dst, selfDescribed...)
	dst = appendHead(dst, object, 2)
	dst = appendText(appendText(dst, "type"), kind)
	return Append(appendText(dst, "object"), document)
}

// AppendListHead appends a list up to its first item. head is the same as JSON: an object that
// breaks off in its last member, an array. The length of a list is not known when it begins.
func AppendListHead(dst, head []byte) ([]byte, error) {
	whole := append(slices.Clone(head), `]}`...)
	tree, err := json.DecodeTree(whole, json.TreeOptions{})
	list, ok := tree.(map[string]any)
	if err != nil || !ok {
		return dst, fmt.Errorf("write a list as CBOR: its head is damaged: %w", err)
	}
	dst = append(append(dst, selfDescribed...), object|indefinite)
	for _, name := range order(list) {
		if items, ok := list[name].([]any); ok && len(items) == 0 {
			continue
		}
		dst = appendValue(appendText(dst, name), list[name])
	}
	for name, value := range list {
		if items, ok := value.([]any); ok && len(items) == 0 {
			dst = appendText(dst, name)
		}
	}
	return append(dst, array|indefinite), nil
}

// AppendItem appends one item of a list.
func AppendItem(dst, item []byte) ([]byte, error) {
	tree, err := json.DecodeTree(item, json.TreeOptions{})
	if err != nil {
		return dst, fmt.Errorf("write an item as CBOR: %w", err)
	}
	return appendValue(dst, tree), nil
}

// AppendListTail appends the end of a list. tail is the same as JSON: the end of the array, and
// further members.
func AppendListTail(dst, tail []byte) ([]byte, error) {
	const items = "items" // any name will do
	whole := append([]byte(`{"`+items+`":[`), tail...)
	tree, err := json.DecodeTree(whole, json.TreeOptions{})
	list, ok := tree.(map[string]any)
	if err != nil || !ok {
		return dst, fmt.Errorf("write a list as CBOR: its tail is damaged: %w", err)
	}
	delete(list, items)
	dst = append(dst, simple|indefinite)
	for _, name := range order(list) {
		dst = appendValue(appendText(dst, name), list[name])
	}
	return append(dst, simple|indefinite), nil
}

// appendValue appends a tree.
func appendValue(dst []byte, value any) []byte {
	switch v := value.(type) {
	case map[string]any:
		dst = appendHead(dst, object, uint64(len(v)))
		for _, name := range order(v) {
			dst = appendValue(appendText(dst, name), v[name])
		}
		return dst
	case []any:
		dst = appendHead(dst, array, uint64(len(v)))
		for _, item := range v {
			dst = appendValue(dst, item)
		}
		return dst
	case string:
		return appendText(dst, v)
	case bool:
		if v {
			return append(dst, simple|trueValue)
		}
		return append(dst, simple|falseValue)
	case int64:
		if v < 0 {
			return appendHead(dst, negative, uint64(^v))
		}
		return appendHead(dst, unsigned, uint64(v))
	case float64:
		return appendFloat(dst, v)
	}
	return append(dst, simple|nullValue)
}

// order returns the names of an object in the order of their encoded form: a shorter one comes
// first.
func order(v map[string]any) []string {
	names := make([]string, 0, len(v))
	for name := range v {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	return names
}

func appendText(dst []byte, s string) []byte {
	return append(appendHead(dst, byteString, uint64(len(s))), s...)
}

// appendHead appends a major type and its argument in the shortest form.
func appendHead(dst []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(dst, major|byte(n))
	case n <= math.MaxUint8:
		return append(dst, major|24, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, major|25), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, major|27), n)
}

// appendFloat appends a float in the shortest form that keeps its value.
func appendFloat(dst []byte, v float64) []byte {
	f := float32(v)
	if float64(f) != v {
		return binary.BigEndian.AppendUint64(append(dst, simple|float64s), math.Float64bits(v))
	}
	if h, ok := half(f); ok {
		return binary.BigEndian.AppendUint16(append(dst, simple|float16), h)
	}
	return binary.BigEndian.AppendUint32(append(dst, simple|float32s), math.Float32bits(f))
}

// half returns the float of 16 bits with the same value, if there is one.
func half(f float32) (h uint16, ok bool) {
	bits := math.Float32bits(f)
	sign := uint16(bits>>16) & 0x8000
	exponent, fraction := int(bits>>23&0xff)-127, bits&0x7fffff
	switch {
	case bits&0x7fffffff == 0:
		return sign, true
	case exponent >= -14 && exponent <= 15 && fraction&0x1fff == 0:
		return sign | uint16(exponent+15)<<10 | uint16(fraction>>13), true
	case exponent >= -24 && exponent < -14: // without a leading one
		shift := uint(-exponent - 1)
		if all := fraction | 0x800000; all&(1<<shift-1) == 0 {
			return sign | uint16(all>>shift), true
		}
	}
	return 0, false
}
