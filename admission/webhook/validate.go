package webhook

import (
	"slices"
	"strings"

	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/webhook"
	"github.com/kindwright/kindwright/internal/words"
	"github.com/kindwright/kindwright/status"
)

// Validate reports what is wrong with a configuration, in the words of Kubernetes. old is nil for a new
// one: what was accepted before is accepted again. rules says what expressions may use.
// Source: WHK-01 to WHK-11.
func (c *ValidatingWebhookConfiguration) Validate(old *ValidatingWebhookConfiguration, rules cel.RuleOptions, f *status.Fields) {
	v := validation{rules: rules}
	if old != nil {
		for i := range old.Webhooks {
			v.old = append(v.old, &old.Webhooks[i])
		}
		v.update = true
	}
	for i := range c.Webhooks {
		v.webhook(&c.Webhooks[i], f.At("webhooks").Index(i))
	}
}

// Validate reports what is wrong with a configuration, in the words of Kubernetes. old is nil for a new
// one: what was accepted before is accepted again. rules says what expressions may use.
// Source: WHK-01 to WHK-11.
func (c *MutatingWebhookConfiguration) Validate(old *MutatingWebhookConfiguration, rules cel.RuleOptions, f *status.Fields) {
	v := validation{rules: rules}
	if old != nil {
		for i := range old.Webhooks {
			v.old = append(v.old, old.Webhooks[i].common())
		}
		v.update = true
	}
	for i := range c.Webhooks {
		w, at := &c.Webhooks[i], f.At("webhooks").Index(i)
		v.webhook(w.common(), at)
		choice(w.ReinvocationPolicy, at.Child("reinvocationPolicy"), IfNeeded, Never)
	}
}

// validation checks one configuration that is about to be stored.
type validation struct {
	rules  cel.RuleOptions
	update bool
	old    []*ValidatingWebhook
	seen   []string // names
}

// all reports whether something holds for every webhook of the stored configuration. What holds there
// may not be broken, and what does not may stay as it is.
func (v *validation) all(holds func(*ValidatingWebhook) bool) bool {
	return !slices.ContainsFunc(v.old, func(w *ValidatingWebhook) bool { return !holds(w) })
}

func (v *validation) webhook(w *ValidatingWebhook, at status.Field) {
	validateName(w.Name, at.Child("name"))
	if slices.Contains(v.seen, w.Name) && w.Name != "" && v.unique() {
		at.Child("name").Duplicate(w.Name)
	}
	v.seen = append(v.seen, w.Name)
	choice(w.FailurePolicy, at.Child("failurePolicy"), Fail, Ignore)
	choice(w.MatchPolicy, at.Child("matchPolicy"), match.Equivalent, match.Exact)
	match.ValidateSelector(w.NamespaceSelector, at.Child("namespaceSelector"))
	match.ValidateSelector(w.ObjectSelector, at.Child("objectSelector"))
	effects := []string{None, NoneOnDryRun}
	if !v.all(isQuiet) {
		effects = []string{None, NoneOnDryRun, Some, Unknown}
	}
	if w.SideEffects == nil {
		at.Child("sideEffects").Required("must specify one of " + strings.Join(effects, ", "))
	}
	choice(w.SideEffects, at.Child("sideEffects"), effects...)
	if t := w.TimeoutSeconds; t != nil && (*t < minTimeout || *t > maxTimeout) {
		at.Child("timeoutSeconds").Invalid(*t, "the timeout value must be between 1 and 30 seconds")
	}
	webhook.ValidateClient(w.ClientConfig.URL, (*webhook.ServiceReference)(w.ClientConfig.Service), at.Child("clientConfig"))
	v.conditions(w, at.Child("matchConditions"))
	for i := range w.Rules {
		w.Rules[i].Validate(at.Child("rules").Index(i))
	}
	recognized := v.all(func(w *ValidatingWebhook) bool { return webhook.CanSend(w.AdmissionReviewVersions) })
	webhook.ValidateVersions(w.AdmissionReviewVersions, recognized, "must specify one of v1, v1beta1", at.Child("admissionReviewVersions"))
}

// isQuiet reports whether a webhook can be asked about dry runs.
func isQuiet(w *ValidatingWebhook) bool {
	return w.SideEffects != nil && (*w.SideEffects == None || *w.SideEffects == NoneOnDryRun)
}

// unique reports whether names must differ: they need not if two are equal already.
func (v *validation) unique() bool {
	var names []string
	for _, w := range v.old {
		if slices.Contains(names, w.Name) {
			return false
		}
		names = append(names, w.Name)
	}
	return true
}

// conditions checks the match conditions, unless those of all webhooks were stored as they are.
func (v *validation) conditions(w *ValidatingWebhook, at status.Field) {
	if len(w.MatchConditions) == 0 {
		return
	}
	known := map[string]bool{}
	for _, old := range v.old {
		if old.Name == w.Name && slices.Equal(old.MatchConditions, w.MatchConditions) {
			return
		}
		for _, c := range old.MatchConditions {
			known[c.Expression] = true
		}
	}
	scope, err := cel.NewAdmission(cel.AdmissionOptions{
		Release: v.rules.Release, Prices: v.rules.Prices, Known: func(expression string) bool { return known[expression] },
	})
	match.ValidateConditions(w.MatchConditions, at, func(expression string) string {
		if err == nil {
			_, err := scope.Compile(expression, true, cel.Bool())
			if err == nil {
				return ""
			}
			return err.Error()
		}
		return err.Error()
	})
}

func choice(value *string, at status.Field, of ...string) {
	if value != nil && !slices.Contains(of, *value) {
		at.NotSupported(*value, of...)
	}
}

// validateName reports a name that is not fully qualified. Source: WHK-01.
func validateName(name string, at status.Field) {
	if name == "" {
		at.Required("")
		return
	}
	if problems := words.SubdomainProblems(name); len(problems) > 0 {
		at.Invalid(name, strings.Join(problems, ","))
		return
	}
	if strings.Count(name, ".") < 2 {
		at.Invalid(name, "should be a domain with at least three segments separated by dots")
	}
}
