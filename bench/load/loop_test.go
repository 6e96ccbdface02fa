package load_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/bench/load"
)

func TestEveryOperationRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		seen := map[int]int{}
		busy, most := 0, 0
		out := load.Loop{Workers: 4, Operations: 40}.Run(t.Context(), func(_ context.Context, w, i int) (int64, error) {
			mu.Lock()
			seen[i]++
			busy++
			most = max(most, busy)
			mu.Unlock()
			time.Sleep(time.Duration(i+1) * time.Millisecond)
			mu.Lock()
			busy--
			mu.Unlock()
			assert.Less(t, w, 4)
			return 10, nil
		})
		require.Len(t, seen, 40)
		for i, n := range seen {
			assert.Equal(t, 1, n, i)
		}
		assert.Equal(t, 4, most)
		assert.Equal(t, int64(400), out.Bytes)
		assert.Zero(t, out.Failed)
		require.NoError(t, out.Failure)
		require.Len(t, out.Latencies, 40)
		assert.Equal(t, time.Millisecond, out.Latencies[0])
		assert.Equal(t, 40*time.Millisecond, out.Latencies[39])
	})
}

func TestFailuresAreCountedAndEndTheLoop(t *testing.T) {
	first := errors.New("the first")
	out := load.Loop{Workers: 1, Operations: 1000}.Run(t.Context(), func(_ context.Context, _, i int) (int64, error) {
		if i == 0 {
			return 5, nil
		}
		if i == 1 {
			return 5, first
		}
		return 5, errors.New("another")
	})
	assert.Equal(t, 100, out.Failed)
	require.ErrorIs(t, out.Failure, first)
	assert.Equal(t, int64(5), out.Bytes)
	assert.Len(t, out.Latencies, 1)
}

func TestTimeEndsTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := load.Loop{Workers: 2, Operations: 1000, Time: time.Second}.Run(t.Context(), func(context.Context, int, int) (int64, error) {
			time.Sleep(300 * time.Millisecond)
			return 0, nil
		})
		assert.Len(t, out.Latencies, 8, "at 0, 0.3, 0.6 and 0.9 seconds")
		assert.Equal(t, 1200*time.Millisecond, out.Elapsed)
	})
}

func TestTimeDoesNotEndTheLoopTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := load.Loop{Workers: 1, Operations: 1000, Time: time.Second, AtLeast: 3}.Run(t.Context(), func(context.Context, int, int) (int64, error) {
			time.Sleep(700 * time.Millisecond)
			return 0, nil
		})
		assert.Len(t, out.Latencies, 3)
	})
}

func TestRateSpacesOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		out := load.Loop{Workers: 3, Operations: 5, Rate: 10}.Run(t.Context(), func(context.Context, int, int) (int64, error) {
			mu.Lock()
			at = append(at, time.Since(start))
			mu.Unlock()
			time.Sleep(250 * time.Millisecond)
			return 0, nil
		})
		assert.Equal(t, []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond, 400 * time.Millisecond}, at)
		assert.Equal(t, 650*time.Millisecond, out.Elapsed)
	})
}

func TestEndOfTheContextEndsTheLoop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out := load.Loop{Workers: 1, Operations: 10, Rate: 1e6}.Run(ctx, func(_ context.Context, _, i int) (int64, error) {
		if i == 2 {
			cancel()
		}
		return 0, nil
	})
	assert.Len(t, out.Latencies, 3)
}

func TestPercentile(t *testing.T) {
	assert.Zero(t, load.Percentile(nil, 0.5))
	var d []time.Duration
	for i := range 100 {
		d = append(d, time.Duration(i+1))
	}
	for p, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 0.995: 100, 1: 100} {
		assert.Equal(t, want, load.Percentile(d, p), p)
	}
	assert.Equal(t, time.Duration(7), load.Percentile([]time.Duration{7}, 0.99))
}

func TestMedian(t *testing.T) {
	assert.Zero(t, load.Median(nil))
	assert.InDelta(t, 2, load.Median([]float64{3, 1, 2}), 0)
	assert.InDelta(t, 2.5, load.Median([]float64{9, 1, 2, 3}), 0)
}
