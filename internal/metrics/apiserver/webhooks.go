package apiserver

import (
	"strconv"
	"sync"
	"time"

	"github.com/kindwright/kindwright/internal/metrics"
)

// The families of Webhooks.
const (
	hookDuration = iota
	hookRequests
	hookRejections
	hookIgnored
)

var webhookFamilies = [...]metrics.Desc{
	hookDuration: histogram("apiserver_admission_webhook_admission_duration_seconds",
		"Time of calls of admission webhooks.", "name", "type", "operation", "rejected"),
	hookRequests: counter("apiserver_admission_webhook_request_total",
		"Calls of admission webhooks.", "name", "type", "operation", "code", "rejected"),
	hookRejections: counter("apiserver_admission_webhook_rejection_count",
		"Writes that were rejected because of an admission webhook.", "name", "type", "operation", "error_type", "rejection_code"),
	hookIgnored: counter("apiserver_admission_webhook_fail_open_count",
		"Calls of admission webhooks that failed and were ignored.", "name", "type"),
}

var webhookTimes = []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 25}

// maxWebhooks bounds the names in labels, since clients choose them.
const maxWebhooks = 1000

// AdmissionCall is one call of an admission webhook.
type AdmissionCall struct {
	Name, Type, Operation string
	Failure               string // as in the label error_type
	Code                  int    // of the answer
	RejectionCode         int    // that the webhook asked for, or of its failure
	Rejected, Ignored     bool
	Took                  time.Duration
}

// Webhooks counts the calls of admission webhooks. The zero value is ready for use.
type Webhooks struct {
	requests, rejections, ignored metrics.Counts

	mu    sync.Mutex
	names map[string]bool
	times map[[4]string]*metrics.Histogram
}

// CollectMetrics registers the families.
func (m *Webhooks) CollectMetrics(r *metrics.Registry) {
	r.Collect(webhookFamilies[:], func(b *metrics.Batch) {
		m.requests.Report(b, hookRequests)
		m.rejections.Report(b, hookRejections)
		m.ignored.Report(b, hookIgnored)
		m.mu.Lock()
		defer m.mu.Unlock()
		for labels, h := range m.times {
			b.Observed(hookDuration, h, webhookTimes, labels[:]...)
		}
	})
}

// Called counts a call.
func (m *Webhooks) Called(c AdmissionCall) {
	h := m.histogram(c)
	if h == nil {
		return
	}
	h.Observe(c.Took.Seconds())
	rejected := strconv.FormatBool(c.Rejected)
	m.requests.Add(c.Name, c.Type, c.Operation, codeText(c.Code), rejected)
	if c.Rejected {
		m.rejections.Add(c.Name, c.Type, c.Operation, c.Failure, codeText(c.RejectionCode))
	}
	if c.Ignored {
		m.ignored.Add(c.Name, c.Type)
	}
}

// codeText bounds the codes that a webhook can make up.
func codeText(code int) string { return strconv.Itoa(min(max(code, 0), 600)) }

// histogram returns the histogram of a call, nil beyond the bound of names.
func (m *Webhooks) histogram(c AdmissionCall) *metrics.Histogram {
	labels := [4]string{c.Name, c.Type, c.Operation, strconv.FormatBool(c.Rejected)}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.names[c.Name] {
		if len(m.names) >= maxWebhooks {
			return nil
		}
		if m.names == nil {
			m.names, m.times = map[string]bool{}, map[[4]string]*metrics.Histogram{}
		}
		m.names[c.Name] = true
	}
	h := m.times[labels]
	if h == nil {
		h = metrics.NewHistogram(webhookTimes)
		m.times[labels] = h
	}
	return h
}
