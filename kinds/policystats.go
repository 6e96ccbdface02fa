package kinds

import (
	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/admission/policy"
	"github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/internal/metrics/apiserver"
)

// PolicyStats counts the checks of admission policies. The zero value is ready for use.
type PolicyStats struct {
	checks     apiserver.Policies
	conditions apiserver.MatchConditions
}

// CollectMetrics registers the metrics.
func (s *PolicyStats) CollectMetrics(r *metrics.Registry) {
	s.checks.CollectMetrics(r)
	s.conditions.CollectMetrics(r)
}

func (s *PolicyStats) checked(c policy.Check) {
	s.checks.Checked(apiserver.PolicyCheck{
		Policy: c.Policy, Binding: c.Binding, Failure: string(c.Failure), Action: c.Action, Took: c.Took,
	})
}

func (s *PolicyStats) matched(e match.Evaluation) { s.conditions.Judged(conditionsJudged(e)) }

func conditionsJudged(e match.Evaluation) apiserver.MatchJudged {
	return apiserver.MatchJudged{
		Name: e.Name, Operation: string(e.Operation), Mutating: e.Mutating, Errors: e.Errors, Excluded: e.Excluded, Took: e.Took,
	}
}

// PolicyOption changes how policies are evaluated.
type PolicyOption func(*withPolicies)

// CountChecks counts in s. It is for definitions that hide the one of [WithPolicies] from the server, which
// otherwise shows its metrics.
func CountChecks(s *PolicyStats) PolicyOption { return func(w *withPolicies) { w.stats = s } }
