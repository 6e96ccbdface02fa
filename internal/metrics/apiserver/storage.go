package apiserver

import (
	"sync/atomic"

	"github.com/kindwright/kindwright/internal/metrics"
)

// The families of Storage.
const (
	storageDuration = iota
	storageErrors
	storageSize
)

var storageFamilies = [...]metrics.Desc{
	storageDuration: histogram("kindwright_storage_operation_duration_seconds", "Time of a call of the store.", "operation"),
	storageErrors:   counter("kindwright_storage_operation_errors_total", "Calls of the store that failed.", "operation"),
	storageSize:     gauge("apiserver_storage_size_bytes", "Space that the store takes on disk.", "storage_cluster_id"),
}

var storageTimes = append([]float64{0.0001, 0.0005, 0.001, 0.0025}, durations...)

// Storage has the series about calls of the store, by the name of the method.
type Storage map[string]*StorageOperation

// StorageOperation has the series of one method of the store.
type StorageOperation struct {
	Took   *metrics.Histogram // in seconds
	Failed atomic.Uint64
}

// NewStorage registers the families of the store for these methods. Each scrape calls size for the
// size of the store in bytes, which is left out if size cannot tell.
func NewStorage(r *metrics.Registry, size func() (bytes int64, ok bool), methods ...string) Storage {
	s := Storage{}
	for _, name := range methods {
		s[name] = &StorageOperation{Took: metrics.NewHistogram(storageTimes)}
	}
	r.Collect(storageFamilies[:], func(b *metrics.Batch) {
		for name, op := range s {
			b.Observed(storageDuration, op.Took, storageTimes, name)
			b.Add(storageErrors, float64(op.Failed.Load()), name)
		}
		if n, ok := size(); ok {
			b.Add(storageSize, float64(n), "store-0")
		}
	})
	return s
}
