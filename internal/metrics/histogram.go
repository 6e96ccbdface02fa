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
	sum    atomic.Uint64   // the bits of a float64
}

// NewHistogram returns a histogram with these bounds, which must be finite and grow. It keeps them.
// The bucket without a bound is there in any case.
func NewHistogram(bounds []float64) *Histogram {
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
	for {
		sum := h.sum.Load()
		if h.sum.CompareAndSwap(sum, math.Float64bits(math.Float64frombits(sum)+v)) {
			return
		}
	}
}

// Count returns the number of observations.
func (h *Histogram) Count() (n uint64) {
	for i := range h.counts {
		n += h.counts[i].Load()
	}
	return n
}

// read returns the state of the histogram with some of its bounds as buckets. It takes the count from
// the buckets, so that the two agree while observations go on. The sum may be ahead or behind by the
// observations of that moment.
func (h *Histogram) read(bounds []float64) snapshot.Sample {
	s := snapshot.Sample{Buckets: make([]snapshot.Bucket, 0, len(bounds))}
	for i := range h.counts {
		s.Count += h.counts[i].Load()
		if n := len(s.Buckets); i < len(h.bounds) && n < len(bounds) && h.bounds[i] == bounds[n] {
			s.Buckets = append(s.Buckets, snapshot.Bucket{Bound: h.bounds[i], Count: s.Count})
		}
	}
	s.Sum = math.Float64frombits(h.sum.Load())
	return s
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
