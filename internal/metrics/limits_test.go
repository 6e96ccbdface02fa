package metrics

import (
	"testing"

	"github.com/stretchr/testify/require"

	snapshot "github.com/kindwright/kindwright/metrics"
)

// Values of labels that are not allowed are one series, whatever the type of the family, and what
// is disabled is not shown.
func TestLimitsFoldSeriesAndHideFamilies(t *testing.T) {
	var r Registry
	h := NewHistogram([]float64{1})
	h.Observe(0.5)
	labels := []string{"code", "verb"}
	one(&r, Desc{Name: "requests", Type: snapshot.Counter, Labels: labels}, func(b *Batch) {
		b.Add(0, 2, "200", "GET")
		b.Add(0, 3, "201", "GET")
		b.Add(0, 4, "404", "GET")
		b.Add(0, 1, "404", "PUT")
	})
	r.Collect([]Desc{
		{Name: "seconds", Type: snapshot.Histogram, Labels: labels}, {Name: "running", Type: snapshot.Gauge, Labels: []string{"verb"}},
	}, func(b *Batch) {
		b.Observed(0, h, []float64{1}, "200", "GET")
		b.Observed(0, h, []float64{1}, "200", "PUT")
		b.Observed(0, h, []float64{1}, "200", "POST")
		b.Add(1, 7, "GET")
	})
	one(&r, Desc{Name: "gone", Type: snapshot.Gauge}, func(b *Batch) { b.Add(0, 1) })
	r.Limit(Limits{
		Disabled: []string{"gone", "unknown", "gone"},
		Allowed: map[string]map[string][]string{
			"requests": {"code": {"201", "500"}}, "seconds": {"verb": {"PUT"}, "other": {""}}, "running": {"verb": {"PUT"}},
			"nothing": {"verb": {"GET"}},
		},
	})
	want := []string{
		"cardinality_enforcement_unexpected_categorizations_total 10", "disabled_metrics_total 2",
		`requests{code="201",verb="GET"} 3`, `requests{code="unexpected",verb="GET"} 6`, `requests{code="unexpected",verb="PUT"} 1`,
		`running{verb="unexpected"} 7`,
		`seconds_bucket{code="200",verb="PUT",le="1"} 1`, `seconds_bucket{code="200",verb="PUT",le="+Inf"} 1`,
		`seconds_sum{code="200",verb="PUT"} 0.5`, `seconds_count{code="200",verb="PUT"} 1`,
		`seconds_bucket{code="200",verb="unexpected",le="1"} 2`, `seconds_bucket{code="200",verb="unexpected",le="+Inf"} 2`,
		`seconds_sum{code="200",verb="unexpected"} 1`, `seconds_count{code="200",verb="unexpected"} 2`,
	}
	require.Equal(t, want, lines(t, &r))
	require.Equal(t, want, lines(t, &r), "a scrape changes nothing")
}
