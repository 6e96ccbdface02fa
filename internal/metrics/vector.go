package metrics

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	snapshot "github.com/kindwright/kindwright/metrics"
)

// Limit is the largest number of series of one vector. A server with 10,000 kinds that are all in use
// stays below it. What exceeds it is counted together in one more series, each of whose labels has the
// value [Overflow]: sums stay right, and memory stays bounded.
const Limit = 500_000

// Overflow is the value of every label of the series that counts what exceeds the limit.
const Overflow = "overflow"

// A Vector is a family whose series are made one by one.
type Vector[M any] struct {
	desc   Desc
	limit  int
	create func() *M
	read   func(*M, *snapshot.Sample)

	mu       sync.Mutex
	series   map[string]*series[M] // by label values
	overflow *series[M]            // nil until the limit is reached; not in the map
	sorted   []*series[M]          // by label values; nil when it must be made anew; never changed
}

type series[M any] struct {
	values []string // shared with every scrape; never changed
	metric *M
}

// Counters registers a vector of counters.
func Counters(r *Registry, d Desc) *Vector[Counter] {
	d.Type = snapshot.Counter
	return newVector(r, d, func() *Counter { return new(Counter) }, (*Counter).read)
}

// Gauges registers a vector of gauges.
func Gauges(r *Registry, d Desc) *Vector[Gauge] {
	d.Type = snapshot.Gauge
	return newVector(r, d, func() *Gauge { return new(Gauge) }, (*Gauge).read)
}

// Histograms registers a vector of histograms with these bounds, which must grow. The bucket without a
// bound is there in any case.
func Histograms(r *Registry, d Desc, bounds []float64) *Vector[Histogram] {
	d.Type = snapshot.Histogram
	bounds = slices.Clone(bounds)
	for i, b := range bounds {
		if math.IsNaN(b) || math.IsInf(b, 0) || i > 0 && b <= bounds[i-1] {
			panic(fmt.Sprintf("metrics: %s: bounds of buckets must be finite and grow: %v", d.Name, bounds))
		}
	}
	return newVector(r, d, func() *Histogram { return newHistogram(bounds) }, (*Histogram).read)
}

func newVector[M any](r *Registry, d Desc, create func() *M, read func(*M, *snapshot.Sample)) *Vector[M] {
	d.Labels = slices.Clone(d.Labels)
	v := &Vector[M]{desc: d, limit: Limit, create: create, read: read, series: map[string]*series[M]{}}
	r.add(&v.desc, v)
	return v
}

// With returns the counter, gauge or histogram with these values of the labels, and makes the series
// if it is not there yet. Callers keep the result: With takes a lock. It panics if the number of values
// is not that of the labels.
func (v *Vector[M]) With(values ...string) *M {
	checkValues(v.desc.Name, v.desc.Labels, values)
	k := key(values)
	v.mu.Lock()
	defer v.mu.Unlock()
	if s := v.series[k]; s != nil {
		return s.metric
	}
	if len(v.series) >= v.limit {
		if v.overflow == nil {
			v.overflow = &series[M]{slices.Repeat([]string{Overflow}, len(values)), v.create()}
			v.sorted = nil
		}
		return v.overflow.metric
	}
	values = slices.Clone(values)
	tidy(values)
	s := &series[M]{values, v.create()}
	v.series[k], v.sorted = s, nil
	return s.metric
}

// Remove removes the series with these values, if it exists. A caller that still holds the result
// of With can keep counting, but no scrape shows it.
func (v *Vector[M]) Remove(values ...string) {
	k := key(values)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.series[k] != nil {
		delete(v.series, k)
		v.sorted = nil
	}
}

func (v *Vector[M]) name() string { return v.desc.Name }

func (v *Vector[M]) gather() snapshot.Family {
	f := v.desc.family()
	sorted := v.inOrder()
	f.Samples = make([]snapshot.Sample, len(sorted))
	for i, s := range sorted {
		f.Samples[i].Labels = s.values
		v.read(s.metric, &f.Samples[i])
	}
	return f
}

func (v *Vector[M]) inOrder() []*series[M] {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.sorted == nil {
		v.sorted = make([]*series[M], 0, len(v.series)+1)
		for _, s := range v.series {
			v.sorted = append(v.sorted, s)
		}
		slices.SortFunc(v.sorted, func(a, b *series[M]) int { return slices.Compare(a.values, b.values) })
		if v.overflow != nil {
			v.addOverflow()
		}
	}
	return v.sorted
}

// addOverflow inserts the overflow among the sorted series. It replaces a series with the same
// values that a caller made: two of them would make the scrape invalid.
func (v *Vector[M]) addOverflow() {
	at, taken := slices.BinarySearchFunc(v.sorted, v.overflow.values, func(s *series[M], values []string) int { return slices.Compare(s.values, values) })
	if taken {
		v.sorted[at] = v.overflow
		return
	}
	v.sorted = slices.Insert(v.sorted, at, v.overflow)
}

// key joins values with a byte that no valid UTF-8 contains, so that no two lists have the same key.
func key(values []string) string {
	for _, s := range values {
		if strings.ToValidUTF8(s, "") != s {
			values = slices.Clone(values)
			tidy(values)
			break
		}
	}
	return strings.Join(values, "\xff")
}

// tidy makes values valid UTF-8, as the text form demands.
func tidy(values []string) {
	for i, s := range values {
		values[i] = strings.ToValidUTF8(s, "\uFFFD")
	}
}

func checkValues(family string, labels, values []string) {
	if len(labels) != len(values) {
		panic(fmt.Sprintf("metrics: %s has %d labels, not %d", family, len(labels), len(values)))
	}
}
