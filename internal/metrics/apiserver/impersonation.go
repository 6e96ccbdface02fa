package apiserver

import (
	"slices"
	"time"

	"github.com/kindwright/kindwright/internal/metrics"
)

// The families of Impersonation.
const (
	impersonations = iota
	impersonationDuration
	impersonationQuestions
	impersonationQuestionDuration
)

var impersonationFamilies = [...]metrics.Desc{
	impersonations:         counter("apiserver_impersonation_attempts_total", "Attempts to act as somebody else.", "decision", "mode"),
	impersonationDuration:  histogram("apiserver_impersonation_attempts_duration_seconds", "Time to find out whether somebody may act as another.", "decision", "mode"),
	impersonationQuestions: counter("apiserver_impersonation_authorization_attempts_total", "Questions to the authorizer about impersonation.", "decision", "mode"),
	impersonationQuestionDuration: histogram("apiserver_impersonation_authorization_attempts_duration_seconds",
		"Time of the authorizer for a question about impersonation.", "decision", "mode"),
}

// Impersonation counts who acts as somebody else.
type Impersonation struct {
	modes               []string
	attempts, questions [][2]*metrics.Histogram // by mode; refused, then allowed
}

// NewImpersonation registers the families of impersonation in these modes.
func NewImpersonation(r *metrics.Registry, modes ...string) *Impersonation {
	m := &Impersonation{modes: modes}
	for range modes {
		m.attempts = append(m.attempts, [2]*metrics.Histogram{metrics.NewHistogram(accessTimes), metrics.NewHistogram(accessTimes)})
		m.questions = append(m.questions, [2]*metrics.Histogram{metrics.NewHistogram(accessTimes), metrics.NewHistogram(accessTimes)})
	}
	r.Collect(impersonationFamilies[:], func(b *metrics.Batch) {
		add := func(count, duration int, all [][2]*metrics.Histogram) {
			for i, of := range all {
				for allowed, h := range of {
					if h.Count() == 0 {
						continue
					}
					decision, mode := [2]string{"denied", "allowed"}[allowed], modes[i]
					if allowed == 0 && count == impersonations {
						mode = "" // no mode allowed it, as Kubernetes has it
					}
					b.Add(count, float64(h.Count()), decision, mode)
					b.Observed(duration, h, accessTimes, decision, mode)
				}
			}
		}
		add(impersonations, impersonationDuration, m.attempts)
		add(impersonationQuestions, impersonationQuestionDuration, m.questions)
	})
	return m
}

// Attempt counts an attempt.
func (m *Impersonation) Attempt(mode string, allowed bool, took time.Duration) {
	m.observe(m.attempts, mode, allowed, took)
}

// Question counts a question to the authorizer.
func (m *Impersonation) Question(mode string, allowed bool, took time.Duration) {
	m.observe(m.questions, mode, allowed, took)
}

func (m *Impersonation) observe(all [][2]*metrics.Histogram, mode string, allowed bool, took time.Duration) {
	i, way := slices.Index(m.modes, mode), 0
	if allowed {
		way = 1
	}
	if i >= 0 {
		all[i][way].Observe(took.Seconds())
	}
}
