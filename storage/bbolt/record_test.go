package bbolt

import (
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// These bytes are in files out there.
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
