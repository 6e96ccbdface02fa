package effort_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/effort"
)

func TestATenthUnderTheRaceDetector(t *testing.T) {
	want := map[int]int{1: 1, 9: 9, 10: 10, 25: 25, 1000: 1000}
	if effort.Raced {
		want = map[int]int{1: 1, 9: 1, 10: 1, 25: 2, 1000: 100}
	}
	for n, some := range want {
		require.Equal(t, some, effort.Of(n), "%d", n)
	}
}
