package apitest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/client"
)

// BenchmarkNewToFirstAnswer is what every test pays for a server of its own. The clean-up is measured apart.
func BenchmarkNewToFirstAnswer(b *testing.B) {
	var starts, stops []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		s := &scope{}
		began := time.Now()
		c := client.For(apitest.New(s, Widgets).Client(), Widgets)
		_, err := c.Create(b.Context(), widget("a"))
		starts = append(starts, time.Since(began))
		require.NoError(b, err)
		began = time.Now()
		problems := s.end()
		stops = append(stops, time.Since(began))
		require.Empty(b, problems)
	}
	b.ReportMetric(median(starts), "median-start-ms")
	b.ReportMetric(median(stops), "median-stop-ms")
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2].Microseconds()) / 1000
}
