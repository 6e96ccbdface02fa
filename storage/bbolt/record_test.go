package bbolt

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Existing files contain these bytes.
func TestFormatIsStable(t *testing.T) {
	r := record{
		pos: position{0x0102030405060708, 9}, prev: position{0x0102030405060700, 1},
		nanos: 1_700_000_000_123_456_789, key: []byte("/sys/key/"), value: []byte("value"),
	}
	data, sum := r.appendTo(nil)
	require.Equal(t, "01020304050607080009", hex.EncodeToString(r.pos.appendTo(nil)))
	require.Equal(t, "0e39c84101000001010203040506070017979cfe3d85cd1500092f7379732f6b65792f76616c7565", hex.EncodeToString(data))
	require.Equal(t, "11065e26129ce402", fmt.Sprintf("%016x", fingerprint(r.pos, sum)))
	s := state{id: [16]byte{1, 2, 3}, copied: true, last: 10, reserved: 20, compacted: 5, records: 3, sum: 0x1122334455667788}
	require.Equal(t, "7e9f03080101020300000000000000000000000000000000000000000a0000000000000014000000000000000500000000000000031122334455667788", hex.EncodeToString(s.encode()))
	require.Equal(t, "6b696e6477726967687400000001fa654ca1", hex.EncodeToString(formatRecord(1)))
}

// Records with a correct checksum that this version cannot have written.
func TestParseRecordRefuses(t *testing.T) {
	r := record{pos: position{7, 1}, key: []byte("/sys/key/"), value: []byte("value")}
	at := r.pos.appendTo(nil)
	sound, _ := r.appendTo(nil)
	_, err := parseRecord(at, sound)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		at, data []byte
		want     error
	}{
		"a key of another length": {at[:9], sound, ErrDamaged},
		"nothing":                 {at, nil, ErrDamaged},
		"half a header":           {at, sound[:recordHeader-1], ErrDamaged},
		"another layout":          {at, changed(at, sound, 4, 3), ErrNewerFormat},
		"half a wide header":      {at, changed(at, sound[:recordHeader+2], 4, 2), ErrDamaged},
		"another flag":            {at, changed(at, sound, 5, 2), ErrNewerFormat},
		"a key beyond the end":    {at, changed(at, sound, 24, 1), ErrDamaged},
	} {
		_, err := parseRecord(c.at, c.data)
		require.ErrorIs(t, err, c.want, name)
	}
}

// changed is a record with one byte replaced and a matching checksum.
func changed(at, data []byte, i int, b byte) []byte {
	data = bytes.Clone(data)
	data[i] = b
	binary.BigEndian.PutUint32(data, recordChecksum(at, data))
	return data
}

func TestParseStateRefuses(t *testing.T) {
	sound := state{last: 10, reserved: 20, compacted: 5}
	got, err := parseState(sound.encode())
	require.NoError(t, err)
	require.Equal(t, sound, got)
	for _, s := range []state{
		{},
		{last: 10, reserved: 9, compacted: 5},
		{last: 10, reserved: 20, compacted: 11},
	} {
		_, err := parseState(s.encode())
		require.ErrorIs(t, err, ErrDamaged, "%+v", s)
	}
	_, err = parseState(sound.encode()[1:])
	require.ErrorIs(t, err, ErrDamaged)
	for n, want := range map[uint32]error{0: ErrDamaged, 1: ErrOlderFormat, 2: nil, 3: nil, 4: ErrNewerFormat} {
		got, err := parseFormat(formatRecord(n))
		require.ErrorIs(t, err, want)
		if want == nil {
			require.Equal(t, n, got)
		}
	}
	_, err = parseFormat(append(formatRecord(format), 0))
	require.ErrorIs(t, err, ErrDamaged)
}
