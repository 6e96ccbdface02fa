package protowire

import (
	"errors"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// MaxNumber is the greatest number a field can have; the least is 1.
const MaxNumber = int32(protowire.MaxValidNumber)

// Type is how a value is written. The numbers are those of the wire.
type Type uint8

// The types that a field of a message can have.
const (
	Varint  Type = 0 // an integer of 1 to 10 bytes
	Fixed64 Type = 1 // 8 bytes, little end first
	Bytes   Type = 2 // a length and as many bytes: text, bytes, a message, a packed list
	Group   Type = 3 // fields up to an end mark; nobody writes them any more
	Fixed32 Type = 5 // 4 bytes, little end first
)

// String names the type for people.
func (t Type) String() string {
	switch t {
	case Varint:
		return "varint"
	case Fixed64:
		return "fixed64"
	case Bytes:
		return "bytes"
	case Group:
		return "group"
	case Fixed32:
		return "fixed32"
	}
	return "unknown"
}

// What can be wrong with a message. The errors of [Next] and [Unpack] are among these.
var (
	ErrTruncated = errors.New("the message ends early")
	ErrKey       = errors.New("a field has no valid number")
	ErrType      = errors.New("a field has a type that does not exist")
	ErrOverflow  = errors.New("an integer has more than 64 bits")
	ErrGroup     = errors.New("a group has no end, or an end without a group")
)

// Field is one field of a message as it came.
type Field struct {
	Number int32
	Type   Type
	Value  uint64 // of Varint, Fixed32 and Fixed64
	Bytes  []byte // of Bytes: a part of the message; nil for all other types
}

// Next takes the first field off message, which must not be empty, and returns it with what
// follows. Groups are stepped over whole, whatever is nested in them; the cost is linear in the
// length of the field.
func Next(message []byte) (f Field, rest []byte, err error) {
	number, typ, n := protowire.ConsumeTag(message)
	if n < 0 {
		return f, nil, failure(n, ErrKey)
	}
	f.Number, f.Type, rest = int32(number), Type(typ), message[n:]
	if number > protowire.MaxValidNumber {
		return f, nil, ErrKey
	}
	problem := ErrOverflow
	switch typ {
	case protowire.VarintType:
		f.Value, n = protowire.ConsumeVarint(rest)
	case protowire.Fixed64Type:
		f.Value, n = protowire.ConsumeFixed64(rest)
	case protowire.Fixed32Type:
		var v uint32
		v, n = protowire.ConsumeFixed32(rest)
		f.Value = uint64(v)
	case protowire.BytesType:
		f.Bytes, n = protowire.ConsumeBytes(rest)
	case protowire.StartGroupType:
		n, problem = protowire.ConsumeFieldValue(number, typ, rest), ErrGroup
	case protowire.EndGroupType:
		return f, nil, ErrGroup
	default:
		return f, nil, ErrType
	}
	if n < 0 {
		return f, nil, failure(n, problem)
	}
	return f, rest[n:], nil
}

// Unpack takes a number of type t off the front of a packed list, which must not be empty.
func Unpack(packed []byte, t Type) (v uint64, rest []byte, err error) {
	var n int
	switch t {
	case Varint:
		v, n = protowire.ConsumeVarint(packed)
	case Fixed64:
		v, n = protowire.ConsumeFixed64(packed)
	case Fixed32:
		var short uint32
		short, n = protowire.ConsumeFixed32(packed)
		v = uint64(short)
	default:
		return 0, nil, ErrType
	}
	if n < 0 {
		return 0, nil, failure(n, ErrOverflow)
	}
	return v, packed[n:], nil
}

// failure tells apart the reason that all reads share. The library's own texts vary from build to
// build on purpose.
func failure(n int, other error) error {
	if errors.Is(protowire.ParseError(n), io.ErrUnexpectedEOF) {
		return ErrTruncated
	}
	return other
}

// AppendKey appends what stands before a value: the number of its field and how it is written.
func AppendKey(dst []byte, number int32, t Type) []byte {
	return protowire.AppendTag(dst, protowire.Number(number), protowire.Type(t))
}

// AppendVarint appends an integer. A negative one is given as the uint64 with the same bits and
// takes 10 bytes.
func AppendVarint(dst []byte, v uint64) []byte { return protowire.AppendVarint(dst, v) }

// AppendFixed32 appends 4 bytes.
func AppendFixed32(dst []byte, v uint32) []byte { return protowire.AppendFixed32(dst, v) }

// AppendFixed64 appends 8 bytes.
func AppendFixed64(dst []byte, v uint64) []byte { return protowire.AppendFixed64(dst, v) }

// AppendBytes appends the length of v and v.
func AppendBytes[V []byte | string](dst []byte, v V) []byte {
	return append(protowire.AppendVarint(dst, uint64(len(v))), v...)
}

// SizeVarint is the number of bytes that AppendVarint adds: 1 to 10.
func SizeVarint(v uint64) int { return protowire.SizeVarint(v) }
