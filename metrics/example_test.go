package metrics_test

import (
	"fmt"
	"iter"
	"slices"

	"github.com/kindwright/kindwright/metrics"
)

// queue is a source of its own: any program can be one.
type queue struct{ waiting int }

func (q queue) Families() iter.Seq[metrics.Family] {
	return slices.Values([]metrics.Family{{
		Name: "queue_waiting", Help: "Items in the queue.", Type: metrics.Gauge,
		Samples: []metrics.Sample{{Value: float64(q.waiting)}},
	}})
}

func ExampleSource() {
	var source metrics.Source = queue{waiting: 3}
	for f := range source.Families() {
		for _, s := range f.Samples {
			fmt.Println(f.Name, f.Type, s.Value)
		}
	}
	// Output: queue_waiting gauge 3
}
