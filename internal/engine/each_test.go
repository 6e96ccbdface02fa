package engine_test

import (
	"errors"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/watch"
)

// entries yields n entries, and then an error if there is one.
func entries(n int, err error) iter.Seq2[*watch.Entry, error] {
	return func(yield func(*watch.Entry, error) bool) {
		for range n {
			if !yield(nil, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func TestEachEndsWithTheFirstFailure(t *testing.T) {
	broken := errors.New("broken")
	for _, n := range []int{0, 1, 4, 5, 100} {
		var calls atomic.Int32
		err := engine.Each(entries(n, broken), 4, func(*watch.Entry) bool { calls.Add(1); return true })
		require.ErrorIs(t, err, broken)
		require.EqualValues(t, n, calls.Load())
	}
	for _, stop := range []int32{1, 4, 5, 50} {
		var calls atomic.Int32
		require.NoError(t, engine.Each(entries(10_000_000, broken), 4, func(*watch.Entry) bool { return calls.Add(1) < stop }))
		require.GreaterOrEqual(t, calls.Load(), stop)
		if stop <= 4 {
			require.Equal(t, stop, calls.Load(), "one at a time")
		}
	}
}
