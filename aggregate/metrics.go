package aggregate

import "github.com/kindwright/kindwright/internal/metrics"

// CollectMetrics registers what is counted about back ends.
func (a *Aggregator) CollectMetrics(r *metrics.Registry) { a.counts.CollectMetrics(r, a.availability) }

// availability tells of each APIService whether requests for its group version can be answered, as far as
// this process knows. It waits for no lock: a scrape must not wait for a store that hangs.
func (a *Aggregator) availability(yield func(name string, available bool)) {
	t := a.table.Load()
	for gv, s := range t.services {
		b := t.backends[gv]
		yield(s.Name, b != nil && b.now.Load().available || b == nil && s.Spec.Service == nil)
	}
}
