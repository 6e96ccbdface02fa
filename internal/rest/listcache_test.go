package rest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

// Names that differ in their last letters alone, as generated ones do, end segments here and there.
func TestSegmentsEndByName(t *testing.T) {
	for _, pattern := range []string{"w%05d", "%05x-pod", "team-%d-of-many", "%d"} {
		ends := 0
		for i := range 100_000 {
			if endsSegment(storage.ObjectKey("example.dev/widgets", "default", fmt.Sprintf(pattern, i))) {
				ends++
			}
		}
		require.InDelta(t, 100_000/128, ends, 250, pattern)
	}
}
