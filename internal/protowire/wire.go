package protowire

import (
	"errors"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// MaxNumber is the largest field number; the smallest is 1.
const MaxNumber = int32(protowire.MaxValidNumber)

// Type is the wire type of a value, with its number on the wire.
type Type uint8

// The types that a field of a message can have.
const (
	Varint  Type = 0 // an integer of 1 to 10 bytes
	Fixed64 Type = 1 // 8 bytes, little-endian
	Bytes   Type = 2 // a length and that many bytes: text, bytes, a message, a packed list
	Group   Type = 3 // fields up to an end mark; obsolete
	Fixed32 Type = 5 // 4 bytes, little-endian
)

// String returns the name of the type.
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

// The errors of [Next] and [Unpack].
var (
	ErrTruncated = errors.New("the message ends early")
	ErrKey       = errors.New("a field has no valid number")
	ErrType      = errors.New("a field has a type that does not exist")
	ErrOverflow  = errors.New("an integer has more than 64 bits")
	ErrGroup     = errors.New("a group has no end, or an end without a group")
)

// Field is one field of a message.
type Field struct {
	Number int32
	Type   Type
	Value  uint64 // of Varint, Fixed32 and Fixed64
	Bytes  []byte // of Bytes: a part of the message; nil for all other types
}

// Next takes the first field off message, which must not be empty, and returns it with the rest. It
// skips groups as a whole, including nested ones. The cost is linear in the length of the field.
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

// failure returns the error for a negative length n of the library: ErrTruncated if the message is
// cut short, or else other. The texts of the library vary between builds on purpose.
func failure(n int, other error) error {
	if errors.Is(protowire.ParseError(n), io.ErrUnexpectedEOF) {
		return ErrTruncated
	}
	return other
}

// AppendKey appends the key of a value: the field number and the wire type.
func AppendKey(dst []byte, number int32, t Type) []byte {
	return protowire.AppendTag(dst, protowire.Number(number), protowire.Type(t))
}

// AppendVarint appends an integer. Pass a negative one as the uint64 with the same bits; it takes
// 10 bytes.
func AppendVarint(dst []byte, v uint64) []byte { return protowire.AppendVarint(dst, v) }

// AppendFixed32 appends 4 bytes.
func AppendFixed32(dst []byte, v uint32) []byte { return protowire.AppendFixed32(dst, v) }

// AppendFixed64 appends 8 bytes.
func AppendFixed64(dst []byte, v uint64) []byte { return protowire.AppendFixed64(dst, v) }

// AppendBytes appends the length of v and v.
func AppendBytes[V []byte | string](dst []byte, v V) []byte {
	return append(protowire.AppendVarint(dst, uint64(len(v))), v...)
}

// SizeVarint returns the number of bytes that AppendVarint adds: 1 to 10.
func SizeVarint(v uint64) int { return protowire.SizeVarint(v) }

// Each calls with each field of a message, in order, until one call returns an error, which it returns.
func Each(message []byte, with func(f Field) error) error {
	for len(message) > 0 {
		f, rest, err := Next(message)
		if err == nil {
			err = with(f)
		}
		if err != nil {
			return err
		}
		message = rest
	}
	return nil
}
