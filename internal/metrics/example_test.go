package metrics_test

import (
	"fmt"
	"os"

	"github.com/kindwright/kindwright/internal/metrics"
	snapshot "github.com/kindwright/kindwright/metrics"
)

func Example() {
	var registry metrics.Registry
	requests := metrics.Counters(&registry, metrics.Desc{Name: "requests_total", Help: "Requests by code.", Labels: []string{"code"}})
	seconds := metrics.Histograms(&registry, metrics.Desc{Name: "request_seconds", Help: "Duration of requests."}, []float64{0.1, 1})
	registry.Collect([]metrics.Desc{{Name: "queue_length", Help: "Requests that wait.", Type: snapshot.Gauge}}, func(b *metrics.Batch) {
		b.Add(0, 7)
	})

	ok, took := requests.With("200"), seconds.With() // once, where the server is put together
	for range 3 {
		ok.Inc() // for each request
		took.Observe(0.25)
	}

	if err := metrics.Write(os.Stdout, registry.Families()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// # HELP queue_length Requests that wait.
	// # TYPE queue_length gauge
	// queue_length 7
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
