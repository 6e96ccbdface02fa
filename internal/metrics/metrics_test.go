package metrics

import (
	"bytes"
	"errors"
	"iter"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	snapshot "github.com/kindwright/kindwright/metrics"
)

func written(t *testing.T, r *Registry) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, r.Families()))
	return b.String()
}

// lines returns the lines that are not comments.
func lines(t *testing.T, r *Registry) []string {
	t.Helper()
	var out []string
	for line := range strings.Lines(written(t, r)) {
		if !strings.HasPrefix(line, "#") {
			out = append(out, strings.TrimSuffix(line, "\n"))
		}
	}
	return out
}

// one registers a family that has what add adds.
func one(r *Registry, d Desc, add func(*Batch)) { r.Collect([]Desc{d}, add) }

// shown registers a histogram of its own.
func shown(r *Registry, bounds ...float64) *Histogram {
	h := NewHistogram(bounds)
	one(r, Desc{Name: "h", Type: snapshot.Histogram}, func(b *Batch) { b.Observed(0, h, bounds) })
	return h
}

func TestBoundsBelongToTheirBuckets(t *testing.T) {
	var r Registry
	h := shown(&r, 1, 2, 4)
	for _, v := range []float64{math.Inf(-1), 1, math.Nextafter(1, 2), 2, 4, math.Nextafter(4, 5), math.Inf(1)} {
		h.Observe(v)
	}
	got := lines(t, &r)
	require.Equal(t, []string{
		`h_bucket{le="1"} 2`, `h_bucket{le="2"} 4`, `h_bucket{le="4"} 5`, `h_bucket{le="+Inf"} 7`, `h_sum NaN`, `h_count 7`,
	}, got)
	require.EqualValues(t, 7, h.Count())
}

func TestAnObservationOfNaNIsIgnored(t *testing.T) {
	var r Registry
	h := shown(&r, 1)
	h.Observe(math.NaN())
	h.Observe(0.5)
	require.Equal(t, []string{`h_bucket{le="1"} 1`, `h_bucket{le="+Inf"} 1`, `h_sum 0.5`, `h_count 1`}, lines(t, &r))
}

func TestTwoFamiliesShareAHistogram(t *testing.T) {
	h := NewHistogram([]float64{1, 2, 3, 4})
	for _, v := range []float64{1, 2, 3, 4, 5} {
		h.Observe(v)
	}
	for _, c := range []struct {
		bounds []float64
		want   []string
	}{
		{[]float64{2, 4}, []string{`h_bucket{le="2"} 2`, `h_bucket{le="4"} 4`, `h_bucket{le="+Inf"} 5`, `h_sum 15`, `h_count 5`}},
		{[]float64{3}, []string{`h_bucket{le="3"} 3`, `h_bucket{le="+Inf"} 5`, `h_sum 15`, `h_count 5`}},
		{nil, []string{`h_bucket{le="+Inf"} 5`, `h_sum 15`, `h_count 5`}},
	} {
		var r Registry
		one(&r, Desc{Name: "h", Type: snapshot.Histogram}, func(b *Batch) { b.Observed(0, h, c.bounds) })
		require.Equal(t, c.want, lines(t, &r))
	}
}

func TestNumbersAreWrittenAsPrometheusReadsThem(t *testing.T) {
	var r Registry
	var value float64
	one(&r, Desc{Name: "g", Type: snapshot.Gauge}, func(b *Batch) { b.Add(0, value) })
	for v, want := range map[float64]string{
		0: "0", -3: "-3", 1 << 40: "1099511627776", 0.1: "0.1", 1e300: "1e+300", -2.5e-9: "-2.5e-09",
		math.Inf(1): "+Inf", math.Inf(-1): "-Inf",
	} {
		value = v
		require.Equal(t, []string{"g " + want}, lines(t, &r))
	}
	value = math.NaN()
	require.Equal(t, []string{"g NaN"}, lines(t, &r))
}

func TestHelpAndLabelsAreEscaped(t *testing.T) {
	var r Registry
	d := Desc{Name: "c", Help: "a \\ \"b\"\nc", Type: snapshot.Counter, Labels: []string{"x"}}
	one(&r, d, func(b *Batch) { b.Add(0, 1, "a \\ \"b\"\nc\xff") })
	require.Equal(t, "# HELP c a \\\\ \"b\"\\nc\n# TYPE c counter\nc{x=\"a \\\\ \\\"b\\\"\\nc\uFFFD\"} 1\n", written(t, &r))
}

func TestFamiliesAndSeriesAreSorted(t *testing.T) {
	var r Registry
	one(&r, Desc{Name: "m", Type: snapshot.Counter, Labels: []string{"a", "b"}}, func(b *Batch) {
		b.Add(0, 1, "2", "1")
		b.Add(0, 1, "1", "2")
		b.Add(0, 2, "1", "1")
	})
	one(&r, Desc{Name: "z", Type: snapshot.Counter}, func(b *Batch) { b.Add(0, 1) })
	one(&r, Desc{Name: "empty", Type: snapshot.Counter}, func(*Batch) {})
	r.Collect([]Desc{{Name: "y", Type: snapshot.Gauge, Labels: []string{"l"}}, {Name: "b", Type: snapshot.Gauge}, {Name: "none", Type: snapshot.Gauge}}, func(b *Batch) {
		b.Add(0, 2, "two")
		b.Add(0, 1, "one")
		b.Add(1, 5)
	})
	want := []string{"b 5", `m{a="1",b="1"} 2`, `m{a="1",b="2"} 1`, `m{a="2",b="1"} 1`, `y{l="one"} 1`, `y{l="two"} 2`, "z 1"}
	require.Equal(t, want, lines(t, &r))
	require.Equal(t, want, lines(t, &r))
}

func TestSamplesWithTheSameLabelsAreAddedUp(t *testing.T) {
	var r Registry
	h := NewHistogram([]float64{1})
	h.Observe(1)
	h.Observe(2)
	r.Collect([]Desc{{Name: "c", Type: snapshot.Counter, Labels: []string{"a"}}, {Name: "h", Type: snapshot.Histogram}}, func(b *Batch) {
		b.Add(0, 1, "x")
		b.Add(0, 5, "y")
		b.Add(0, 2, "x")
		b.Observed(1, h, []float64{1})
		b.Observed(1, h, []float64{1})
	})
	require.Equal(t, []string{`c{a="x"} 3`, `c{a="y"} 5`, `h_bucket{le="1"} 2`, `h_bucket{le="+Inf"} 4`, "h_sum 6", "h_count 4"}, lines(t, &r))
}

func TestACallerMayStopReading(t *testing.T) {
	var r Registry
	add := func(b *Batch) { b.Add(0, 1) }
	one(&r, Desc{Name: "b", Type: snapshot.Gauge}, add)
	one(&r, Desc{Name: "d", Type: snapshot.Gauge}, add)
	r.Collect([]Desc{{Name: "a", Type: snapshot.Gauge}, {Name: "c", Type: snapshot.Gauge}, {Name: "e", Type: snapshot.Gauge}}, func(b *Batch) {
		b.Add(0, 1)
		b.Add(1, 1)
		b.Add(2, 1)
	})
	for n := 1; n <= 5; n++ {
		var names []string
		for f := range r.Families() {
			if names = append(names, f.Name); len(names) == n {
				break
			}
		}
		require.Equal(t, []string{"a", "b", "c", "d", "e"}[:n], names)
	}
}

func TestANumberOfLabelsThatIsWrongPanics(t *testing.T) {
	for _, labels := range [][]string{nil, {"x", "y"}} {
		var r Registry
		one(&r, Desc{Name: "c", Type: snapshot.Counter, Labels: []string{"a"}}, func(b *Batch) { b.Add(0, 1, labels...) })
		require.Panics(t, func() { lines(t, &r) })
	}
}

// TestCountsAreExact scrapes while others count.
func TestCountsAreExact(t *testing.T) {
	const workers, rounds = 8, 2000
	var r Registry
	histogram := shown(&r, 1, 2)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := range rounds {
				histogram.Observe(float64(i % 3))
			}
		})
	}
	group.Go(func() {
		for range 200 {
			for f := range r.Families() {
				for _, s := range f.Samples {
					for i, b := range s.Buckets {
						if b.Count > s.Count || i > 0 && b.Count < s.Buckets[i-1].Count {
							t.Errorf("buckets of one scrape do not add up: %v of %d", s.Buckets, s.Count)
						}
					}
				}
			}
		}
	})
	group.Wait()
	require.Equal(t, []string{
		`h_bucket{le="1"} 10672`, `h_bucket{le="2"} 16000`, `h_bucket{le="+Inf"} 16000`, "h_sum 15992", "h_count 16000",
	}, lines(t, &r))
}

// brokenWriter fails after a number of writes.
type brokenWriter struct{ left int }

var errBroken = errors.New("connection reset")

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

func TestWriteStopsAtTheFirstError(t *testing.T) {
	read := 0
	var many iter.Seq[snapshot.Family] = func(yield func(snapshot.Family) bool) {
		for ; read < 1000 && yield(snapshot.Family{Name: "a", Help: strings.Repeat("x", 1<<12), Type: snapshot.Gauge, Samples: make([]snapshot.Sample, 100)}); read++ {
		}
	}
	require.ErrorIs(t, Write(&brokenWriter{left: 1}, many), errBroken)
	require.Less(t, read, 100)
	require.ErrorIs(t, Write(new(brokenWriter), slices.Values([]snapshot.Family{{Name: "a"}})), errBroken)
}

func TestRuntimeIsDescribed(t *testing.T) {
	var r Registry
	CollectRuntime(&r)
	got := values(&r)
	require.Len(t, got, len(readings)+3)
	runtime.GC()
	got = values(&r)
	for _, name := range []string{"go_goroutines", "go_threads", "go_memstats_alloc_bytes", "go_memstats_heap_objects", "go_memstats_sys_bytes", "go_memstats_next_gc_bytes", "go_memstats_last_gc_time_seconds"} {
		require.Positive(t, got[name].Value, name)
	}
	pauses := got["go_gc_duration_seconds"]
	require.Len(t, pauses.Quantiles, 5)
	require.Positive(t, pauses.Count)
	require.Equal(t, []string{runtime.Version()}, got["go_info"].Labels)
	require.Contains(t, written(t, &r), `go_gc_duration_seconds{quantile="0.75"} `)
}

func TestTheRuntimeStillHasEachReading(t *testing.T) {
	values := readRuntime()
	for _, name := range []string{"/sched/goroutines:goroutines", "/sched/threads/total:threads", "/gc/heap/goal:bytes", "/memory/classes/total:bytes", "/memory/classes/other:bytes"} {
		require.Positive(t, values[name], name)
	}
}

// values returns the first sample of each family.
func values(r *Registry) map[string]snapshot.Sample {
	out := map[string]snapshot.Sample{}
	for f := range r.Families() {
		out[f.Name] = f.Samples[0]
	}
	return out
}

func TestProcessIsDescribed(t *testing.T) {
	proc := fstest.MapFS{
		"self/stat": {Data: []byte("42 (a b) c) S 1 42 42 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 9 0 3000 1048576 25 18446744073709551615 1 1\n")},
		"self/fd/0": {}, "self/fd/1": {}, "self/fd/5": {},
		"self/limits": {Data: []byte("Limit                     Soft Limit           Hard Limit           Units     \nMax open files            1024                 524288               files     \n")},
		"stat":        {Data: []byte("cpu  1 2 3\nbtime 1700000000\n")},
	}
	var r Registry
	CollectProcess(&r, proc)
	require.Equal(t, []string{
		"process_cpu_seconds_total 2", "process_max_fds 1024", "process_open_fds 3",
		"process_resident_memory_bytes " + strconv.Itoa(25*os.Getpagesize()), "process_start_time_seconds 1700000030", "process_virtual_memory_bytes 1048576",
	}, lines(t, &r))
}

func TestWhatProcDoesNotSayHasNoSample(t *testing.T) {
	for _, proc := range []fstest.MapFS{
		{},
		{"self/stat": {Data: []byte("42 (cut")}},
		{"self/stat": {Data: []byte("42 (a) S 1")}, "self/limits": {Data: []byte("Max open files            unlimited\n")}, "stat": {Data: []byte("btime")}},
	} {
		var r Registry
		CollectProcess(&r, proc)
		require.Empty(t, lines(t, &r))
	}
}

// FuzzLabel reads back what Write makes of a label's value.
func FuzzLabel(f *testing.F) {
	for _, s := range []string{"", `a\n"b"`, "a\nb\\", "\xff\xfe", "ü\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		var r Registry
		one(&r, Desc{Name: "c", Type: snapshot.Counter, Labels: []string{"x"}}, func(b *Batch) { b.Add(0, 1, value) })
		got := lines(t, &r)
		require.Len(t, got, 1)
		quoted, ok := strings.CutPrefix(got[0], `c{x="`)
		require.True(t, ok)
		quoted, ok = strings.CutSuffix(quoted, `"} 1`)
		require.True(t, ok)
		require.NotRegexp(t, `(^|[^\\])(\\\\)*"`, quoted, "a quote that is not escaped ends the value")
		require.Equal(t, strings.ToValidUTF8(value, "\uFFFD"), strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\"`, `"`).Replace(quoted))
	})
}

func BenchmarkObserve(b *testing.B) {
	h := NewHistogram(Exponential(0.001, 2, 15))
	b.ReportAllocs()
	for b.Loop() {
		h.Observe(0.003)
	}
}

func BenchmarkScrape(b *testing.B) {
	var r Registry
	one(&r, Desc{Name: "c", Help: "Something.", Type: snapshot.Counter, Labels: []string{"a", "b", "c", "d"}}, func(b *Batch) {
		for i := range 10_000 {
			b.Add(0, 1, "verb", strconv.Itoa(i), "v1", "200")
		}
	})
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, Write(&brokenWriter{left: math.MaxInt}, r.Families()))
	}
}

func TestCountsAreByAllLabels(t *testing.T) {
	var r Registry
	var c Counts
	one(&r, Desc{Name: "c", Type: snapshot.Counter, Labels: []string{"a", "b"}}, func(b *Batch) { c.Report(b, 0) })
	require.Empty(t, lines(t, &r))
	var adding sync.WaitGroup
	for range 100 {
		adding.Go(func() {
			c.Add("x", "")
			c.Add("", "x")
			c.Add("x", "")
		})
	}
	adding.Wait()
	require.Equal(t, []string{`c{a="",b="x"} 100`, `c{a="x",b=""} 200`}, lines(t, &r))
}
