package clientgolang

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kindwright/kindwright/metrics"
)

// An Option changes what New returns.
type Option func(*Collector)

// Labels adds labels with fixed values to every sample. The default is none.
func Labels(l prometheus.Labels) Option { return func(c *Collector) { c.labels = l } }

// WithoutRuntime leaves out the families of the Go runtime and of the process. A registry that has the
// library's own collectors of them refuses a scrape in which they occur twice. By default they are there.
func WithoutRuntime() Option { return func(c *Collector) { c.withoutRuntime = true } }

// Collector is a prometheus.Collector for a source.
type Collector struct {
	source         metrics.Source
	labels         prometheus.Labels
	withoutRuntime bool
}

var _ prometheus.Collector = (*Collector)(nil)

// New returns a collector that reads source during each scrape.
func New(source metrics.Source, opts ...Option) *Collector {
	c := &Collector{source: source}
	for _, o := range opts {
		if o != nil {
			o(c)
		}
	}
	return c
}

// Describe sends nothing: which families there are depends on what the server serves.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends one metric for each sample of the source. A sample that the library refuses becomes an
// error of the scrape.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	for f := range c.source.Families() {
		if c.withoutRuntime && (strings.HasPrefix(f.Name, "go_") || strings.HasPrefix(f.Name, "process_")) {
			continue
		}
		desc := prometheus.NewDesc(f.Name, f.Help, f.Labels, c.labels)
		for _, s := range f.Samples {
			m, err := sample(desc, f.Type, s)
			if err != nil {
				m = prometheus.NewInvalidMetric(desc, fmt.Errorf("%s: %w", f.Name, err))
			}
			out <- m
		}
	}
}

func sample(d *prometheus.Desc, t metrics.Type, s metrics.Sample) (prometheus.Metric, error) {
	switch t {
	case metrics.Counter:
		return prometheus.NewConstMetric(d, prometheus.CounterValue, s.Value, s.Labels...)
	case metrics.Gauge:
		return prometheus.NewConstMetric(d, prometheus.GaugeValue, s.Value, s.Labels...)
	case metrics.Histogram:
		buckets := make(map[float64]uint64, len(s.Buckets))
		for _, b := range s.Buckets {
			buckets[b.Bound] = b.Count
		}
		return prometheus.NewConstHistogram(d, s.Count, s.Sum, buckets, s.Labels...)
	case metrics.Summary:
		quantiles := make(map[float64]float64, len(s.Quantiles))
		for _, q := range s.Quantiles {
			quantiles[q.Share] = q.Value
		}
		return prometheus.NewConstSummary(d, s.Count, s.Sum, quantiles, s.Labels...)
	}
	return nil, fmt.Errorf("unknown type %q", t)
}
