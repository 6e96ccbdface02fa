package bbolt

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

// There is an entry of the index for each key. What updates left behind goes with their compaction.
func TestEntriesOfTheIndexAreSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(entry{}), uintptr(48), "the next size class is 64")
	x := newIndex()
	for rev := range 4 {
		x.push("a", version{position: position{rev: storage.Revision(10 + 10*rev)}})
	}
	e, _ := x.get("a")
	require.Len(t, e.older(), 3)
	v, ok := e.at(25)
	require.True(t, ok)
	require.EqualValues(t, 20, v.rev)
	_, ok = e.at(9)
	require.False(t, ok)
	require.Len(t, x.take(30, 1, nil), 1)
	require.Len(t, e.older(), 2)
	require.Len(t, x.take(40, 10, nil), 2)
	require.Nil(t, e.more, "nothing is kept for them")
	require.Equal(t, 1, x.versions)
}
