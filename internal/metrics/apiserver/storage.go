package apiserver

import (
	"time"

	"github.com/kindwright/kindwright/internal/metrics"
	snapshot "github.com/kindwright/kindwright/metrics"
)

// Storage has the families about calls of the store.
type Storage struct {
	times  *metrics.Vector[metrics.Histogram]
	errors *metrics.Vector[metrics.Counter]
}

// NewStorage registers the families of storage calls. If size is not nil, each scrape calls it for the
// size of the store in bytes, which is left out if size cannot tell.
func NewStorage(r *metrics.Registry, size func() (bytes int64, ok bool)) *Storage {
	if size != nil {
		r.Collect([]metrics.Desc{{
			Name: "apiserver_storage_size_bytes", Type: snapshot.Gauge, Labels: []string{"storage_cluster_id"},
			Help: "Space that the store takes on disk.",
		}}, func(b *metrics.Batch) {
			if n, ok := size(); ok {
				b.Add(0, float64(n), "store-0")
			}
		})
	}
	return &Storage{
		times: metrics.Histograms(r, metrics.Desc{
			Name: "kindwright_storage_operation_duration_seconds", Labels: []string{"operation"}, Help: "Time of a call of the store.",
		}, append([]float64{0.0001, 0.0005, 0.001, 0.0025}, durations...)),
		errors: metrics.Counters(r, metrics.Desc{
			Name: "kindwright_storage_operation_errors_total", Labels: []string{"operation"}, Help: "Calls of the store that failed.",
		}),
	}
}

// Operation returns the handle of one method of the store.
func (s *Storage) Operation(name string) *StorageOperation {
	return &StorageOperation{s.times.With(name), s.errors.With(name)}
}

// StorageOperation has the series of one method of the store.
type StorageOperation struct {
	took   *metrics.Histogram
	failed *metrics.Counter
}

// Observe counts a call.
func (o *StorageOperation) Observe(took time.Duration, err error) {
	o.took.Observe(took.Seconds())
	if err != nil {
		o.failed.Inc()
	}
}
