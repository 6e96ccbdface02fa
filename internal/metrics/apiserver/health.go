package apiserver

import "github.com/kindwright/kindwright/internal/metrics"

// Health has the families about health checks.
type Health struct {
	state   *metrics.Vector[metrics.Gauge]
	results *metrics.Vector[metrics.Counter]
}

// NewHealth registers the families of health checks.
func NewHealth(r *metrics.Registry) *Health {
	return &Health{
		state: metrics.Gauges(r, metrics.Desc{
			Name: "kubernetes_healthcheck", Labels: []string{"name", "type"}, Help: "The last result of a health check: 1 if it passed.",
		}),
		results: metrics.Counters(r, metrics.Desc{
			Name: "kubernetes_healthchecks_total", Labels: []string{"name", "type", "status"}, Help: "Results of health checks.",
		}),
	}
}

// Check returns the handle of one check of one endpoint: healthz, livez or readyz.
func (h *Health) Check(name, endpoint string) *HealthCheck {
	return &HealthCheck{h.state.With(name, endpoint), h.results.With(name, endpoint, "success"), h.results.With(name, endpoint, "error")}
}

// HealthCheck has the series of one check.
type HealthCheck struct {
	state          *metrics.Gauge
	passed, failed *metrics.Counter
}

// Observe counts one result.
func (c *HealthCheck) Observe(passed bool) {
	if passed {
		c.state.Set(1)
		c.passed.Inc()
		return
	}
	c.state.Set(0)
	c.failed.Inc()
}
