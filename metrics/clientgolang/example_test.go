package clientgolang_test

import (
	"fmt"
	"iter"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kindwright/kindwright/metrics"
	"github.com/kindwright/kindwright/metrics/clientgolang"
)

// server stands for a server of ours.
type server struct{}

func (server) Families() iter.Seq[metrics.Family] {
	return slices.Values([]metrics.Family{{
		Name: "apiserver_storage_objects", Help: "Objects in the store.", Type: metrics.Gauge, Labels: []string{"resource"},
		Samples: []metrics.Sample{{Labels: []string{"widgets.example.com"}, Value: 3}},
	}})
}

func Example() {
	registry := prometheus.NewRegistry()
	registry.MustRegister(clientgolang.New(server{}, clientgolang.Labels(prometheus.Labels{"server": "one"})))

	families, err := registry.Gather()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			fmt.Println(f.GetName(), m.GetLabel()[0].GetValue(), m.GetLabel()[1].GetValue(), m.GetGauge().GetValue())
		}
	}
	// Output: apiserver_storage_objects widgets.example.com one 3
}
