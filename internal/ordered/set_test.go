package ordered_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/ordered"
	"github.com/kindwright/kindwright/internal/random"
)

// tagged is the same item as another one with the same key.
type tagged struct {
	key string
	tag int
}

// A set is a sorted slice in which an item takes the place of the same one.
func TestSetAgainstSlice(t *testing.T) {
	byKey := func(a, b tagged) int { return strings.Compare(a.key, b.key) }
	random.Check(t, func(t *random.T) {
		set := ordered.NewSet(func(a, b tagged) bool { return a.key < b.key })
		var plain []tagged
		key := random.StringOf("abc", 0, 4)
		for step := range random.Range(1, 150).Draw(t, "steps") {
			item := tagged{key.Draw(t, "key"), step}
			at, had := slices.BinarySearchFunc(plain, item, byKey)
			got, ok := set.Get(tagged{key: item.key})
			require.Equal(t, had, ok)
			if had {
				require.Equal(t, plain[at], got)
			}
			switch {
			case random.Range(0, 3).Draw(t, "remove") == 0:
				set.Remove(tagged{key: item.key})
				if had {
					plain = slices.Delete(plain, at, at+1)
				}
			case had:
				set.Add(item)
				plain[at] = item
			default:
				set.Add(item)
				plain = slices.Insert(plain, at, item)
			}
			from := tagged{key: key.Draw(t, "from")}
			rank, _ := slices.BinarySearchFunc(plain, from, byKey)
			require.Equal(t, len(plain), set.Len())
			require.Equal(t, rank, set.Rank(from))
			require.Equal(t, append([]tagged{}, plain[rank:]...), append([]tagged{}, slices.Collect(set.Ascend(from))...))
			for range set.Ascend(from) {
				break // which ends the walk
			}
		}
	})
}
