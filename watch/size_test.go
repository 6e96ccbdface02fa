package watch

import (
	"math"
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

// There is an entry for each object, so the collector's size class of it is part of the budget of
// docs/design/0049-memory.md.
func TestEntriesAreSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Entry{}), uintptr(96), "the next class is 112")
}

func TestDigitsOfEveryLength(t *testing.T) {
	for _, power := range append(powers[:], 1<<63, math.MaxUint64) {
		for _, n := range []uint64{power - 1, power, power + 1} {
			require.Equal(t, len(strconv.FormatUint(n, 10)), digits(storage.Revision(n)), "%d", n)
		}
	}
}
