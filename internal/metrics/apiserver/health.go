package apiserver

import (
	"iter"
	"strings"
	"sync"

	"github.com/kindwright/kindwright/internal/metrics"
	snapshot "github.com/kindwright/kindwright/metrics"
)

// The families of Health.
const (
	checkState = iota
	checkResults
)

var healthFamilies = [...]metrics.Desc{
	checkState:   gauge("kubernetes_healthcheck", "The last result of a health check: 1 if it passed.", "name", "type"),
	checkResults: counter("kubernetes_healthchecks_total", "Results of health checks.", "name", "type", "status"),
}

// Health counts the results of health checks.
type Health struct {
	mu     sync.Mutex
	checks map[check]results
}

// A check of an endpoint: healthz, livez or readyz.
type check struct{ name, endpoint string }

type results struct {
	last           float64 // 1 if it passed
	passed, failed float64
}

// NewHealth registers the families of health checks.
func NewHealth(r *metrics.Registry) *Health {
	h := &Health{checks: map[check]results{}}
	r.Collect(healthFamilies[:], func(b *metrics.Batch) {
		h.mu.Lock()
		defer h.mu.Unlock()
		for c, n := range h.checks {
			b.Add(checkState, n.last, c.name, c.endpoint)
			b.Add(checkResults, n.passed, c.name, c.endpoint, "success")
			b.Add(checkResults, n.failed, c.name, c.endpoint, "error")
		}
	})
	return h
}

// HealthAlone returns the families of Health among others.
func HealthAlone(all iter.Seq[snapshot.Family]) iter.Seq[snapshot.Family] {
	return func(yield func(snapshot.Family) bool) {
		for f := range all {
			if strings.HasPrefix(f.Name, healthFamilies[checkState].Name) && !yield(f) {
				return
			}
		}
	}
}

// Observe counts one result of a check of an endpoint: healthz, livez or readyz.
func (h *Health) Observe(name, endpoint string, passed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.checks[check{name, endpoint}]
	if n.last = 0; passed {
		n.last, n.passed = 1, n.passed+1
	} else {
		n.failed++
	}
	h.checks[check{name, endpoint}] = n
}
