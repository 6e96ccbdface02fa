package apiserver

import (
	"time"

	"github.com/kindwright/kindwright/internal/metrics"
)

// The families of MatchConditions.
const (
	matchTime = iota
	matchErrors
	matchExclusions
)

var matchFamilies = [...]metrics.Desc{
	matchTime: histogram("apiserver_admission_match_condition_evaluation_seconds",
		"Time to evaluate the match conditions of a policy or a webhook.", "name", "kind", "operation", "type"),
	matchErrors: counter("apiserver_admission_match_condition_evaluation_errors_total",
		"Match conditions that could not be evaluated.", "name", "kind", "operation", "type"),
	matchExclusions: counter("apiserver_admission_match_condition_exclusions_total",
		"Writes that a webhook was not asked about because of a match condition.", "name", "kind", "operation", "type"),
}

var matchTimes = []float64{0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25}

// maxMatchConditions bounds the series, since clients choose the names of policies and webhooks.
const maxMatchConditions = 4000

// MatchJudged is one evaluation of the match conditions of a policy or a webhook.
type MatchJudged struct {
	Name, Operation   string
	Webhook, Mutating bool
	Errors            int
	Excluded          bool
	Took              time.Duration
}

// MatchConditions counts the evaluations of match conditions. The zero value is ready for use.
type MatchConditions struct {
	errors, exclusions metrics.Counts
	times              series
}

// CollectMetrics registers the families.
func (m *MatchConditions) CollectMetrics(r *metrics.Registry) {
	r.Collect(matchFamilies[:], func(b *metrics.Batch) {
		m.errors.Report(b, matchErrors)
		m.exclusions.Report(b, matchExclusions)
		m.times.each(func(labels [4]string, h *metrics.Histogram) { b.Observed(matchTime, h, matchTimes, labels[:]...) })
	})
}

// Judged counts an evaluation. The label type is "admit" for mutating webhooks and "validate" for policies of both sorts;
// that of validating webhooks differs between the families. Exclusions by policies are not counted. All of this is as in
// kube-apiserver.
func (m *MatchConditions) Judged(c MatchJudged) {
	kind, of, excluded := "policy", "validate", "validate"
	switch {
	case c.Webhook && c.Mutating:
		kind, of, excluded = "webhook", "admit", "admit"
	case c.Webhook:
		kind, of = "webhook", "validating"
	}
	h := m.times.histogram([4]string{c.Name, kind, c.Operation, of}, matchTimes, maxMatchConditions)
	if h == nil {
		return
	}
	h.Observe(c.Took.Seconds())
	for range c.Errors {
		m.errors.Add(c.Name, kind, c.Operation, of)
	}
	if c.Excluded && c.Webhook {
		m.exclusions.Add(c.Name, kind, c.Operation, excluded)
	}
}
