package apiserver

import "github.com/kindwright/kindwright/internal/metrics"

// Filters has the family about the links of the request chain.
type Filters struct {
	times *metrics.Vector[metrics.Histogram]
}

// NewFilters registers the family of filters.
func NewFilters(r *metrics.Registry) *Filters {
	return &Filters{metrics.Histograms(r, metrics.Desc{
		Name: "apiserver_request_filter_duration_seconds", Labels: []string{"filter"},
		Help: "Time that a link of the request chain takes, without the links behind it.",
	}, []float64{0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 5, 10, 15, 30})}
}

// Filter returns the histogram of one link, which observes seconds. The names that dashboards know are
// authentication, audit, impersonation and authorization.
func (f *Filters) Filter(name string) *metrics.Histogram { return f.times.With(name) }
