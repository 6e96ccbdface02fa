package watch

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// There is an entry for each object, so the collector's size class of it is part of the budget of
// docs/design/0049-memory.md.
func TestEntriesAreSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Entry{}), uintptr(96), "the next class is 112")
}
