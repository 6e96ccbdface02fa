package metrics_test

import (
	"fmt"
	"os"
	"sync/atomic"

	"github.com/kindwright/kindwright/internal/metrics"
	snapshot "github.com/kindwright/kindwright/metrics"
)

// families are described once, for every registry.
var families = []metrics.Desc{
	{Name: "requests_total", Help: "Requests by code.", Type: snapshot.Counter, Labels: []string{"code"}},
	{Name: "request_seconds", Help: "Duration of requests.", Type: snapshot.Histogram},
}

func Example() {
	var ok atomic.Uint64
	bounds := []float64{0.1, 1}
	took := metrics.NewHistogram(bounds)

	var registry metrics.Registry
	registry.Collect(families, func(b *metrics.Batch) { // for each scrape
		b.Add(0, float64(ok.Load()), "200")
		b.Observed(1, took, bounds)
	})

	for range 3 { // for each request
		ok.Add(1)
		took.Observe(0.25)
	}

	if err := metrics.Write(os.Stdout, registry.Families()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// # HELP request_seconds Duration of requests.
	// # TYPE request_seconds histogram
	// request_seconds_bucket{le="0.1"} 0
	// request_seconds_bucket{le="1"} 3
	// request_seconds_bucket{le="+Inf"} 3
	// request_seconds_sum 0.75
	// request_seconds_count 3
	// # HELP requests_total Requests by code.
	// # TYPE requests_total counter
	// requests_total{code="200"} 3
}
