package metrics

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Quantiles are those of a sorted list, but for the width of a bucket.
func TestSummaryQuantiles(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Unix(1_800_000_000, 0)
	for range 20 {
		var s Summary
		var all []time.Duration
		for range 5000 {
			d := time.Duration(math.Exp(random.Float64() * 27)) // from a nanosecond to nine minutes
			all = append(all, d)
			s.Observe(now, d)
		}
		slices.Sort(all)
		got := s.Sample(now)
		require.EqualValues(t, len(all), got.Count)
		for i, share := range []float64{0.5, 0.9, 0.99} {
			want := all[int(share*float64(len(all)))-1]
			require.InEpsilon(t, want.Seconds(), got.Quantiles[i].Value, 0.04)
			require.InDelta(t, share, got.Quantiles[i].Share, 0)
		}
	}
}

// What is older than five hours has no part in quantiles, and stays in the count and the sum.
func TestSummaryForgets(t *testing.T) {
	var s Summary
	start := time.Unix(1_800_000_000, 0).Truncate(time.Hour)
	empty := s.Sample(start)
	require.True(t, math.IsNaN(empty.Quantiles[0].Value))
	s.Observe(start, time.Hour) // counts as the longest
	s.Observe(start, -1)
	for hour := range 5 {
		s.Observe(start.Add(time.Duration(hour)*time.Hour), time.Millisecond)
	}
	last := s.Sample(start.Add(4 * time.Hour))
	require.InEpsilon(t, 1100, last.Quantiles[2].Value, 0.05)
	later := s.Sample(start.Add(5 * time.Hour))
	require.InEpsilon(t, 0.001, later.Quantiles[2].Value, 0.04)
	require.EqualValues(t, 7, later.Count)
	require.InDelta(t, 3600.005, later.Sum, 1e-6)
	s.Observe(start.Add(9*time.Hour), time.Second) // takes the place of the fourth hour
	require.InEpsilon(t, 1, s.Sample(start.Add(9 * time.Hour)).Quantiles[0].Value, 0.04)
}

// Each duration is in the bucket whose middle is next to it.
func TestSummaryBuckets(t *testing.T) {
	for d := time.Duration(1); d < 1<<summaryLongest; d = d*9/8 + 1 {
		b := summaryBucket(d)
		require.Less(t, b, summaryBuckets)
		require.InDelta(t, d.Seconds(), summaryMiddle(b).Seconds(), d.Seconds()/32+1e-9, d)
	}
}
