package gc

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
)

// A uid comes from clients. Whatever is in it, it does not name the dependents of another.
func TestUIDsOfEveryShapeAreKeptApart(t *testing.T) {
	uids := []meta.UID{"a", "a\x00", "a\x00/r/x", "a\x00\x01/r/x", "a\x00\xff", "\x00", "a\x01", "a\xff"}
	x := newIndex()
	for _, uid := range uids {
		x.add(uid, "/r/"+string(uid[len(uid)-1:])+"/of")
		x.add(uid, "/r/x")
	}
	for _, uid := range uids {
		require.Equal(t, slices.Sorted(slices.Values([]string{"/r/" + string(uid[len(uid)-1:]) + "/of", "/r/x"})),
			slices.Sorted(x.dependents(uid, "")), "%q", uid)
	}
	var owners []meta.UID
	for owner := range x.below("/r/x") {
		owners = append(owners, owner)
	}
	require.ElementsMatch(t, uids, slices.Compact(owners))
	for _, uid := range uids {
		x.remove(uid, "/r/x")
		x.remove(uid, "/r/"+string(uid[len(uid)-1:])+"/of")
	}
	_, found := x.first("a", "")
	require.False(t, found)
}
