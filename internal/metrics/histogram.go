package metrics

import (
	"math"
	"sync/atomic"

	snapshot "github.com/kindwright/kindwright/metrics"
)

// A Histogram counts observations in buckets. Its methods may be called concurrently.
type Histogram struct {
	bounds []float64
	counts []atomic.Uint64 // one more than bounds, not cumulative
	sum    number
}

func newHistogram(bounds []float64) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

// Observe counts v in the bucket with the smallest bound that is at least v. It ignores NaN, which
// would make the sum useless for the rest of the process' life.
func (h *Histogram) Observe(v float64) {
	if math.IsNaN(v) {
		return
	}
	// Most observations are in one of the first buckets, where a linear search is the faster one.
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.add(v)
}

// read takes the count from the buckets, so that the two agree while observations go on. The sum may
// be ahead or behind by the observations of that moment.
func (h *Histogram) read(s *snapshot.Sample) {
	s.Buckets = make([]snapshot.Bucket, len(h.bounds))
	for i := range h.counts {
		s.Count += h.counts[i].Load()
		if i < len(h.bounds) {
			s.Buckets[i] = snapshot.Bucket{Bound: h.bounds[i], Count: s.Count}
		}
	}
	s.Sum = h.sum.load()
}

// Exponential returns n bounds: the first is start, each next one is factor times the one before.
func Exponential(start, factor float64, n int) []float64 {
	bounds := make([]float64, n)
	for i := range bounds {
		bounds[i] = start
		start *= factor
	}
	return bounds
}

// Linear returns n bounds: the first is start, each next one is width more than the one before.
func Linear(start, width float64, n int) []float64 {
	bounds := make([]float64, n)
	for i := range bounds {
		bounds[i] = start + float64(i)*width
	}
	return bounds
}
