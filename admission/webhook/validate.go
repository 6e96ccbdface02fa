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
	var before []*ValidatingWebhook
	if old != nil {
		for i := range old.Webhooks {
			before = append(before, &old.Webhooks[i])
		}
	}
	v := newValidation(rules, before)
	for i := range c.Webhooks {
		v.webhook(&c.Webhooks[i], f.At("webhooks").Index(i), func() {})
	}
}

// Validate reports what is wrong with a configuration, in the words of Kubernetes. old is nil for a new
// one: what was accepted before is accepted again. rules says what expressions may use.
// Source: WHK-01 to WHK-11.
func (c *MutatingWebhookConfiguration) Validate(old *MutatingWebhookConfiguration, rules cel.RuleOptions, f *status.Fields) {
	var before []*ValidatingWebhook
	if old != nil {
		for i := range old.Webhooks {
			before = append(before, old.Webhooks[i].common())
		}
	}
	v := newValidation(rules, before)
	for i := range c.Webhooks {
		w, at := &c.Webhooks[i], f.At("webhooks").Index(i)
		v.webhook(w.common(), at, func() { choice(w.ReinvocationPolicy, at.Child("reinvocationPolicy"), IfNeeded, Never) })
	}
}

// validation checks one configuration that is about to be stored. What holds for every webhook of the
// stored configuration may not be broken, and what does not may stay as it is.
type validation struct {
	rules cel.RuleOptions
	seen  map[string]bool // names

	stored      map[string][]*ValidatingWebhook // by name
	expressions map[string]bool                 // of the stored match conditions

	// Whether all stored webhooks can be asked about dry runs, can read a version, and differ in their names.
	quiet, recognized, unique bool
}

func newValidation(rules cel.RuleOptions, old []*ValidatingWebhook) *validation {
	v := &validation{
		rules: rules, seen: map[string]bool{}, stored: map[string][]*ValidatingWebhook{}, expressions: map[string]bool{},
		quiet: true, recognized: true, unique: true,
	}
	for _, w := range old {
		v.quiet = v.quiet && isQuiet(w)
		v.recognized = v.recognized && webhook.CanSend(w.AdmissionReviewVersions)
		v.unique = v.unique && v.stored[w.Name] == nil
		v.stored[w.Name] = append(v.stored[w.Name], w)
		for _, c := range w.MatchConditions {
			v.expressions[c.Expression] = true
		}
	}
	return v
}

// webhook checks one webhook. Errors come in the order in which kube-apiserver lists them. more checks what only
// one sort of webhooks has.
func (v *validation) webhook(w *ValidatingWebhook, at status.Field, more func()) {
	validateName(w.Name, at.Child("name"))
	for i := range w.Rules {
		w.Rules[i].Validate(at.Child("rules").Index(i))
	}
	choice(w.FailurePolicy, at.Child("failurePolicy"), Fail, Ignore)
	choice(w.MatchPolicy, at.Child("matchPolicy"), match.Equivalent, match.Exact)
	effects := []string{None, NoneOnDryRun}
	if !v.quiet {
		effects = []string{None, NoneOnDryRun, Some, Unknown}
	}
	if w.SideEffects == nil {
		at.Child("sideEffects").Required("must specify one of " + strings.Join(effects, ", "))
	}
	choice(w.SideEffects, at.Child("sideEffects"), effects...)
	if t := w.TimeoutSeconds; t != nil && (*t < minTimeout || *t > maxTimeout) {
		at.Child("timeoutSeconds").Invalid(*t, "the timeout value must be between 1 and 30 seconds")
	}
	match.ValidateSelector(w.NamespaceSelector, at.Child("namespaceSelector"))
	match.ValidateSelector(w.ObjectSelector, at.Child("objectSelector"))
	more()
	webhook.ValidateClient(w.ClientConfig.URL, (*webhook.ServiceReference)(w.ClientConfig.Service), at.Child("clientConfig"))
	v.conditions(w, at.Child("matchConditions"))
	webhook.ValidateVersions(w.AdmissionReviewVersions, v.recognized, "must specify one of v1, v1beta1", at.Child("admissionReviewVersions"))
	if v.seen[w.Name] && w.Name != "" && v.unique {
		at.Child("name").Duplicate(w.Name)
	}
	v.seen[w.Name] = true
}

// isQuiet reports whether a webhook can be asked about dry runs.
func isQuiet(w *ValidatingWebhook) bool {
	return w.SideEffects != nil && (*w.SideEffects == None || *w.SideEffects == NoneOnDryRun)
}

// conditions checks the match conditions, unless those of all webhooks were stored as they are.
func (v *validation) conditions(w *ValidatingWebhook, at status.Field) {
	if len(w.MatchConditions) == 0 {
		return
	}
	for _, old := range v.stored[w.Name] {
		if slices.Equal(old.MatchConditions, w.MatchConditions) {
			return
		}
	}
	scope, err := cel.NewAdmission(cel.AdmissionOptions{
		Release: v.rules.Release, Prices: v.rules.Prices, Known: func(expression string) bool { return v.expressions[expression] },
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
