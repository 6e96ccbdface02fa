package protowire

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNextReadsWhatWasAppended(t *testing.T) {
	var message []byte
	message = AppendVarint(AppendKey(message, 1, Varint), math.MaxUint64)
	message = AppendFixed64(AppendKey(message, 15, Fixed64), math.Float64bits(1.5))
	message = AppendFixed32(AppendKey(message, 16, Fixed32), 7)
	message = AppendBytes(AppendKey(message, MaxNumber, Bytes), "text")
	message = AppendBytes(AppendKey(message, 2, Bytes), []byte(nil))
	var got []Field
	for rest := message; len(rest) > 0; {
		var f Field
		var err error
		f, rest, err = Next(rest)
		require.NoError(t, err)
		got = append(got, f)
	}
	require.Equal(t, []Field{
		{Number: 1, Type: Varint, Value: math.MaxUint64},
		{Number: 15, Type: Fixed64, Value: math.Float64bits(1.5)},
		{Number: 16, Type: Fixed32, Value: 7},
		{Number: MaxNumber, Type: Bytes, Bytes: []byte("text")},
		{Number: 2, Type: Bytes, Bytes: []byte{}},
	}, got)
}

func TestNextStepsOverGroups(t *testing.T) {
	group := []byte{0x0b, 0x13, 0x08, 0x01, 0x14, 0x0c} // 1: { 2: { 1: 1 } }
	f, rest, err := Next(append(group, 0x08, 0x02))
	require.NoError(t, err)
	require.Equal(t, Field{Number: 1, Type: Group}, f)
	require.Equal(t, []byte{0x08, 0x02}, rest)
}

func TestNextRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		message string
		want    error
	}{
		"half a key":                    {"\x80", ErrTruncated},
		"a key alone":                   {"\x08", ErrTruncated},
		"half an integer":               {"\x08\xff", ErrTruncated},
		"an integer of 11 bytes":        {"\x08" + strings.Repeat("\xff", 10) + "\x01", ErrOverflow},
		"half of 8 bytes":               {"\x09\x01\x02", ErrTruncated},
		"half of 4 bytes":               {"\x0d\x01\x02", ErrTruncated},
		"fewer bytes than announced":    {"\x0a\x05abcd", ErrTruncated},
		"2 GiB announced":               {"\x0a\xff\xff\xff\xff\x07ab", ErrTruncated},
		"2^64-1 bytes announced":        {"\x0a" + strings.Repeat("\xff", 9) + "\x01", ErrTruncated},
		"a length of more than 64 bits": {"\x0a" + strings.Repeat("\xff", 10) + "\x01", ErrOverflow},
		"number 0":                      {"\x00\x01", ErrKey},
		"a number beyond the greatest":  {"\x80\x80\x80\x80\x10\x01", ErrKey},
		"type 6":                        {"\x0e\x01", ErrType},
		"type 7":                        {"\x0f\x01", ErrType},
		"an end without a group":        {"\x0c", ErrGroup},
		"a group without end":           {"\x0b\x08\x01", ErrTruncated},
		"a group with another's end":    {"\x0b\x14", ErrGroup},
		"groups nested very deeply":     {strings.Repeat("\x0b", 1<<20), ErrGroup},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Next([]byte(c.message))
			require.ErrorIs(t, err, c.want)
		})
	}
}

func TestUnpack(t *testing.T) {
	packed := AppendFixed64(AppendFixed32(AppendVarint(nil, 300), 7), 8)
	for _, c := range []struct {
		of   Type
		want uint64
	}{{Varint, 300}, {Fixed32, 7}, {Fixed64, 8}} {
		v, rest, err := Unpack(packed, c.of)
		require.NoError(t, err)
		require.Equal(t, c.want, v)
		packed = rest
	}
	require.Empty(t, packed)
	for _, of := range []Type{Varint, Fixed32, Fixed64} {
		_, _, err := Unpack([]byte{0xac}, of)
		require.ErrorIs(t, err, ErrTruncated)
	}
	_, _, err := Unpack(bytes.Repeat([]byte{0xff}, 11), Varint)
	require.ErrorIs(t, err, ErrOverflow)
	_, _, err = Unpack([]byte{1, 1}, Bytes)
	require.ErrorIs(t, err, ErrType)
}

func TestSizeVarint(t *testing.T) {
	for _, v := range []uint64{0, 1, 127, 128, 16383, 16384, math.MaxUint32, math.MaxUint64} {
		require.Len(t, AppendVarint(nil, v), SizeVarint(v))
	}
}

func TestTypesHaveNames(t *testing.T) {
	require.Equal(t, "varint fixed64 bytes group fixed32 unknown",
		strings.Join([]string{Varint.String(), Fixed64.String(), Bytes.String(), Group.String(), Fixed32.String(), Type(6).String()}, " "))
}

func FuzzNext(f *testing.F) {
	f.Add([]byte{0x0a, 0x01, 'a'})
	f.Add([]byte{0x0b, 0x0c})
	f.Fuzz(func(t *testing.T, message []byte) {
		for rest := message; len(rest) > 0; {
			field, after, err := Next(rest)
			if err != nil {
				return
			}
			require.Less(t, len(after), len(rest))
			require.LessOrEqual(t, len(field.Bytes), len(rest))
			rest = after
		}
	})
}
