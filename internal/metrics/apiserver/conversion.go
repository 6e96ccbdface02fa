package apiserver

import (
	"sync"
	"time"

	"github.com/kindwright/kindwright/internal/metrics"
)

// The families of Conversions.
const (
	conversionDuration = iota
	conversionRequests
	conversionRequestDuration
)

var conversionFamilies = [...]metrics.Desc{
	conversionDuration: histogram("apiserver_crd_conversion_webhook_duration_seconds",
		"Time to convert objects by a webhook.", "crd_name", "from_version", "to_version", "succeeded"),
	conversionRequests: counter("apiserver_conversion_webhook_request_total",
		"Requests to conversion webhooks.", "result", "failure_type"),
	conversionRequestDuration: histogram("apiserver_conversion_webhook_duration_seconds",
		"Time of requests to conversion webhooks.", "result", "failure_type"),
}

var conversionRequestTimes = []float64{0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 45, 60}

// ConversionFailure says why a request to a conversion webhook failed; "" is a success.
type ConversionFailure string

// The failures.
const (
	ConversionCallFailed      ConversionFailure = "conversion_webhook_call_failure"
	ConversionAnswerMalformed ConversionFailure = "conversion_webhook_malformed_response_failure"
	ConversionAnswerPartial   ConversionFailure = "conversion_webhook_partial_response_failure"
	ConversionObjectInvalid   ConversionFailure = "conversion_webhook_invalid_converted_object_failure"
)

// Converted is one request to a conversion webhook.
type Converted struct {
	Definition string
	From, To   string
	Failure    ConversionFailure
	Took       time.Duration
}

// Conversions counts the requests to conversion webhooks. The zero value is ready for use.
type Conversions struct {
	byKind series

	mu       sync.Mutex
	requests map[ConversionFailure]*metrics.Histogram
}

// maxConverted bounds the series by definition and versions, whose names clients choose.
const maxConverted = 20_000

// CollectMetrics registers the families.
func (m *Conversions) CollectMetrics(r *metrics.Registry) {
	r.Collect(conversionFamilies[:], func(b *metrics.Batch) {
		m.byKind.each(func(labels [4]string, h *metrics.Histogram) {
			b.Observed(conversionDuration, h, accessTimes, labels[:]...)
		})
		m.mu.Lock()
		defer m.mu.Unlock()
		for failure, h := range m.requests {
			result := "success"
			if failure != "" {
				result = "failure"
			}
			b.Add(conversionRequests, float64(h.Count()), result, string(failure))
			b.Observed(conversionRequestDuration, h, conversionRequestTimes, result, string(failure))
		}
	})
}

// Converted counts a request.
func (m *Conversions) Converted(c Converted) {
	succeeded := "false"
	if c.Failure == "" {
		succeeded = "true"
	}
	if h := m.byKind.histogram([4]string{c.Definition, c.From, c.To, succeeded}, accessTimes, maxConverted); h != nil {
		h.Observe(c.Took.Seconds())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.requests == nil {
		m.requests = map[ConversionFailure]*metrics.Histogram{}
	}
	if m.requests[c.Failure] == nil {
		m.requests[c.Failure] = metrics.NewHistogram(conversionRequestTimes)
	}
	m.requests[c.Failure].Observe(c.Took.Seconds())
}
