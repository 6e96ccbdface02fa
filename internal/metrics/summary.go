package metrics

import (
	"math"
	"math/bits"
	"sync"
	"time"

	snapshot "github.com/kindwright/kindwright/metrics"
)

// A Summary keeps durations of the last five hours, by the hour. Each power of two has sixteen buckets, so a quantile
// is within four hundredths of the duration that it stands for.
const (
	summaryHours   = 5
	summaryShare   = 4  // bits below the first that tell buckets apart
	summaryLongest = 40 // bits of the longest duration in nanoseconds, eighteen minutes; longer ones count as that
	summaryBuckets = (summaryLongest - summaryShare + 1) << summaryShare
)

// summaryQuantiles are those of kube-apiserver.
var summaryQuantiles = [...]float64{0.5, 0.9, 0.99}

// Summary knows the count and the sum of all durations, and quantiles of the latest. Its zero value is ready, and it
// is safe for concurrent use.
type Summary struct {
	mu    sync.Mutex
	count uint64
	sum   time.Duration
	hours [summaryHours]struct {
		hour    int64 // since 1970
		buckets [summaryBuckets]uint32
	}
}

// Observe counts a duration that ended at a time.
func (s *Summary) Observe(at time.Time, d time.Duration) {
	hour := at.Unix() / 3600
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	s.sum += d
	of := &s.hours[hour%summaryHours]
	if of.hour != hour {
		of.hour = hour
		clear(of.buckets[:])
	}
	of.buckets[summaryBucket(d)]++
}

// Sample returns what is known at a time. A quantile of nothing is NaN, as in kube-apiserver.
func (s *Summary) Sample(at time.Time) snapshot.Sample {
	hour := at.Unix() / 3600
	s.mu.Lock()
	defer s.mu.Unlock()
	var all [summaryBuckets]uint64
	total := uint64(0)
	for i := range s.hours {
		if s.hours[i].hour <= hour-summaryHours || s.hours[i].hour > hour {
			continue
		}
		for b, n := range s.hours[i].buckets {
			all[b] += uint64(n)
			total += uint64(n)
		}
	}
	out := snapshot.Sample{Count: s.count, Sum: s.sum.Seconds()}
	for _, share := range summaryQuantiles {
		out.Quantiles = append(out.Quantiles, snapshot.Quantile{Share: share, Value: quantile(&all, total, share)})
	}
	return out
}

// quantile returns the middle of the bucket that the share reaches, in seconds.
func quantile(all *[summaryBuckets]uint64, total uint64, share float64) float64 {
	rank, seen := max(uint64(math.Ceil(share*float64(total))), 1), uint64(0)
	for b, n := range all {
		if seen += n; seen >= rank {
			return summaryMiddle(b).Seconds()
		}
	}
	return math.NaN()
}

// summaryBucket returns the bucket of a duration: small ones have one each.
func summaryBucket(d time.Duration) int {
	n := min(uint64(max(d, 0)), 1<<summaryLongest-1)
	shift := max(bits.Len64(n)-summaryShare-1, 0)
	return shift<<summaryShare + int(n>>shift)
}

// summaryMiddle is the duration that a bucket stands for.
func summaryMiddle(bucket int) time.Duration {
	shift := max(bucket>>summaryShare-1, 0)
	first := time.Duration(bucket-shift<<summaryShare) << shift
	return first + time.Duration(1)<<shift/2
}
