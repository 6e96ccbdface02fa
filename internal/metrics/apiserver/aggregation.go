package apiserver

import (
	"sync"

	"github.com/kindwright/kindwright/internal/metrics"
)

// The families of Aggregation.
const (
	backEndUnavailable = iota
	backEndLost
)

var aggregationFamilies = [...]metrics.Desc{
	backEndUnavailable: gauge("aggregator_unavailable_apiservice",
		"APIServices: 1 if requests cannot be sent to the server behind.", "name"),
	backEndLost: counter("aggregator_unavailable_apiservice_total",
		"How often a server behind an APIService ceased to be available, by the reason.", "name", "reason"),
}

// maxLost bounds the series by reason. Resolvers of programs may have reasons of their own.
const maxLost = 20_000

// Aggregation counts how other servers came and went that a server answers for. The zero value is ready for
// use.
type Aggregation struct {
	mu   sync.Mutex
	lost map[[2]string]int // by the name of the APIService, and the reason
}

// Lost counts that a server is not available any more.
func (a *Aggregation) Lost(name, reason string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := [2]string{name, reason}
	if a.lost == nil {
		a.lost = map[[2]string]int{}
	}
	if _, known := a.lost[key]; known || len(a.lost) < maxLost {
		a.lost[key]++
	}
}

// CollectMetrics registers the families. all calls yield for each APIService that there is.
func (a *Aggregation) CollectMetrics(r *metrics.Registry, all func(yield func(name string, available bool))) {
	r.Collect(aggregationFamilies[:], func(b *metrics.Batch) {
		there := map[string]bool{}
		all(func(name string, available bool) {
			there[name] = true
			value := 1.0
			if available {
				value = 0
			}
			b.Add(backEndUnavailable, value, name)
		})
		a.mu.Lock()
		defer a.mu.Unlock()
		for key, n := range a.lost {
			if !there[key[0]] { // its series go with it
				delete(a.lost, key)
				continue
			}
			b.Add(backEndLost, float64(n), key[:]...)
		}
	})
}
