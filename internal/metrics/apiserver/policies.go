package apiserver

import (
	"time"

	"github.com/kindwright/kindwright/internal/metrics"
)

// The families of Policies.
const (
	policyChecks = iota
	policyDuration
	mutationChecks
	mutationDuration
)

var policyFamilies = [...]metrics.Desc{
	policyChecks: counter("apiserver_validating_admission_policy_check_total",
		"Checks of validating admission policies.", "policy", "policy_binding", "error_type", "enforcement_action"),
	policyDuration: histogram("apiserver_validating_admission_policy_check_duration_seconds",
		"Time of checks of validating admission policies.", "policy", "policy_binding", "error_type", "enforcement_action"),
	mutationChecks: counter("apiserver_mutating_admission_policy_check_total",
		"Evaluations of mutating admission policies.", "policy", "policy_binding", "error_type"),
	mutationDuration: histogram("apiserver_mutating_admission_policy_check_duration_seconds",
		"Time of evaluations of mutating admission policies.", "policy", "policy_binding", "error_type"),
}

var policyTimes = []float64{0.0000005, 0.001, 0.01, 0.1, 1}

// PolicyCheck is one check of an admission policy. The action is empty for a mutation.
type PolicyCheck struct {
	Policy, Binding string
	Failure, Action string
	Took            time.Duration
}

// Policies counts the checks of admission policies. The zero value is ready for use.
type Policies struct{ checks series }

// maxPolicyChecks bounds the series, since clients choose the names of policies.
const maxPolicyChecks = 20_000

// CollectMetrics registers the families.
func (m *Policies) CollectMetrics(r *metrics.Registry) {
	r.Collect(policyFamilies[:], func(b *metrics.Batch) {
		m.checks.each(func(labels [4]string, h *metrics.Histogram) {
			count, duration, all := policyChecks, policyDuration, labels[:]
			if labels[3] == "" {
				count, duration, all = mutationChecks, mutationDuration, labels[:3]
			}
			b.Add(count, float64(h.Count()), all...)
			b.Observed(duration, h, policyTimes, all...)
		})
	})
}

// Checked counts a check.
func (m *Policies) Checked(c PolicyCheck) {
	labels := [4]string{c.Policy, c.Binding, c.Failure, c.Action}
	if h := m.checks.histogram(labels, policyTimes, maxPolicyChecks); h != nil {
		h.Observe(c.Took.Seconds())
	}
}
