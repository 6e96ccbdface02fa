package metrics_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/metrics"
	snapshot "github.com/kindwright/kindwright/metrics"
)

// Counters and histograms begin again after a reset, gauges and what is new stay.
func TestABaselineIsSubtracted(t *testing.T) {
	counts := map[string]float64{"a": 3, "b": 5}
	h := metrics.NewHistogram([]float64{1, 2})
	h.Observe(0.5)
	var r metrics.Registry
	r.Collect([]metrics.Desc{
		{Name: "c_total", Type: snapshot.Counter, Labels: []string{"l"}},
		{Name: "g", Type: snapshot.Gauge},
		{Name: "h_seconds", Type: snapshot.Histogram},
		{Name: "process_c_total", Type: snapshot.Counter},
	}, func(b *metrics.Batch) {
		for l, v := range counts {
			b.Add(0, v, l)
		}
		b.Add(1, 7)
		b.Observed(2, h, []float64{1, 2})
		b.Add(3, 9)
	})
	base := metrics.NewBaseline(r.Families())
	read := func() string {
		var out strings.Builder
		require.NoError(t, metrics.Write(&out, base.Since(r.Families())))
		var lines []string
		for line := range strings.Lines(out.String()) {
			if !strings.HasPrefix(line, "#") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		return strings.Join(lines, "\n")
	}
	require.Equal(t, "g 7\nprocess_c_total 9", read())
	counts["b"], counts["c"] = 6, 1
	h.Observe(1.5)
	require.Equal(t, `c_total{l="b"} 1
c_total{l="c"} 1
g 7
h_seconds_bucket{le="1"} 0
h_seconds_bucket{le="2"} 1
h_seconds_bucket{le="+Inf"} 1
h_seconds_sum 1.5
h_seconds_count 1
process_c_total 9`, read())
	counts["b"] = 2
	require.Contains(t, read(), `c_total{l="b"} 2`, "a counter that began again")
}
