package apiserver

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/internal/metrics"
)

// WebhookCall is how a question to a webhook ended.
type WebhookCall uint8

// How it can end.
const (
	CallSucceeded WebhookCall = iota
	CallCanceled              // by the one who asked
	CallTimedOut
	CallFailed
	calls
)

var callNames = [calls]string{"success", "canceled", "timeout", "error"}

// The families of Authorizers.
const (
	authorizerDecisions = iota
	webhookEvaluations
	webhookDuration
	webhookFailOpen
	webhookFailClosed
	conditionErrors
	conditionExclusions
	conditionDuration
)

var authorizerFamilies = [...]metrics.Desc{
	authorizerDecisions: counter("apiserver_authorization_decisions_total", "Decisions that ended the search, by the authorizer that made them.", "type", "name", "decision"),
	webhookEvaluations:  counter("apiserver_authorization_webhook_evaluations_total", "Questions to authorization webhooks.", "name", "result"),
	webhookDuration:     histogram("apiserver_authorization_webhook_duration_seconds", "Time of a question to an authorization webhook.", "name", "result"),
	webhookFailOpen:     counter("apiserver_authorization_webhook_evaluations_fail_open_total", "Failed questions that other authorizers decided.", "name", "result"),
	webhookFailClosed:   counter("apiserver_authorization_webhook_evaluations_fail_closed_total", "Failed questions that denied a request.", "name", "result"),
	conditionErrors:     counter("apiserver_authorization_match_condition_evaluation_errors_total", "Requests whose match conditions could not be evaluated.", "type", "name"),
	conditionExclusions: counter("apiserver_authorization_match_condition_exclusions_total", "Requests about which a webhook was not asked for its match conditions.", "type", "name"),
	conditionDuration:   histogram("apiserver_authorization_match_condition_evaluation_seconds", "Time of the match conditions of a request.", "type", "name"),
}

var (
	callTimes      = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
	conditionTimes = []float64{0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25}
)

// Authorizers counts what single authorizers do, by their names. Those come from the configuration
// and never from a request. The zero value is ready.
type Authorizers struct {
	mu  sync.Mutex
	all map[authorizerKey]*Authorizer // guarded by mu
}

type authorizerKey struct{ kind, name string }

// Authorizer counts what one authorizer does. Its methods may be called concurrently.
type Authorizer struct {
	allowed, denied    atomic.Uint64
	calls              [calls]*metrics.Histogram
	open, closed       [calls]atomic.Uint64
	failures, excluded atomic.Uint64
	conditions         *metrics.Histogram
}

// Of returns the series of an authorizer.
func (a *Authorizers) Of(kind, name string) *Authorizer {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := authorizerKey{kind, name}
	z := a.all[key]
	if z == nil {
		z = &Authorizer{conditions: metrics.NewHistogram(conditionTimes)}
		for i := range z.calls {
			z.calls[i] = metrics.NewHistogram(callTimes)
		}
		if a.all == nil {
			a.all = map[authorizerKey]*Authorizer{}
		}
		a.all[key] = z
	}
	return z
}

// Decided counts a decision that ended the search.
func (z *Authorizer) Decided(how Authorization) {
	switch how {
	case Allowed:
		z.allowed.Add(1)
	case Denied:
		z.denied.Add(1)
	case NoOpinion, AuthorizationFailed: // others are asked, or the server counts it
	}
}

// Called counts a question to a webhook.
func (z *Authorizer) Called(how WebhookCall, took time.Duration) {
	z.calls[min(how, CallFailed)].Observe(took.Seconds())
}

// FellThrough counts a failed question, and whether the request was denied for it.
func (z *Authorizer) FellThrough(how WebhookCall, denied bool) {
	if denied {
		z.closed[min(how, CallFailed)].Add(1)
	} else {
		z.open[min(how, CallFailed)].Add(1)
	}
}

// Matched counts an evaluation of match conditions.
func (z *Authorizer) Matched(matches bool, err error, took time.Duration) {
	z.conditions.Observe(took.Seconds())
	switch {
	case err != nil:
		z.failures.Add(1)
	case !matches:
		z.excluded.Add(1)
	}
}

// CollectMetrics registers the families.
func (a *Authorizers) CollectMetrics(r *metrics.Registry) {
	r.Collect(authorizerFamilies[:], func(b *metrics.Batch) {
		a.mu.Lock()
		all := maps.Clone(a.all)
		a.mu.Unlock()
		for key, z := range all {
			z.collect(b, key)
		}
	})
}

func (z *Authorizer) collect(b *metrics.Batch, key authorizerKey) {
	add := func(family int, n uint64, labels ...string) {
		if n > 0 {
			b.Add(family, float64(n), labels...)
		}
	}
	add(authorizerDecisions, z.allowed.Load(), key.kind, key.name, "allowed")
	add(authorizerDecisions, z.denied.Load(), key.kind, key.name, "denied")
	add(conditionErrors, z.failures.Load(), key.kind, key.name)
	add(conditionExclusions, z.excluded.Load(), key.kind, key.name)
	if z.conditions.Count() > 0 {
		b.Observed(conditionDuration, z.conditions, conditionTimes, key.kind, key.name)
	}
	for how, name := range callNames {
		add(webhookEvaluations, z.calls[how].Count(), key.name, name)
		add(webhookFailOpen, z.open[how].Load(), key.name, name)
		add(webhookFailClosed, z.closed[how].Load(), key.name, name)
		if z.calls[how].Count() > 0 {
			b.Observed(webhookDuration, z.calls[how], callTimes, key.name, name)
		}
	}
}
