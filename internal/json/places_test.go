package json

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlacesAreToldInOrder(t *testing.T) {
	var paths []string
	last := int64(-1)
	places := func(document string) []string {
		paths, last = nil, -1
		Places([]byte(document), func(path []byte, offset int64) {
			require.Greater(t, offset, last)
			paths, last = append(paths, string(path)), offset
		})
		return paths
	}
	require.Equal(t, []string{"b", "a", "a.c", "a.c[0].x", "a[d.e]", "b"}, places(`{"b":1,"a":{"c":[{"x":1}],"d.e":2},"b":3}`))
	require.Equal(t, []string{"a", "b"}, places(`{"a":1,"b":`), "up to where it ends")
	require.Empty(t, places(`[]`))
}
