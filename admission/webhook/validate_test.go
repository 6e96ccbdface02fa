package webhook_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/admission/webhook"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// S22: each webhook of a configuration was compared with all that are stored, and each with a name that comes twice with
// all pairs of them: a body of 3 MiB took hours.
func TestS22_WebhooksOfAConfigurationAreComparedOnce(t *testing.T) {
	n := effort.Of(100_000)
	quiet, at := webhook.None, "https://hooks.example.com/"
	one := func(name string) webhook.ValidatingWebhook {
		return webhook.ValidatingWebhook{
			Name: name, SideEffects: &quiet, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: webhook.ClientConfig{URL: &at},
		}
	}
	var old, next webhook.ValidatingWebhookConfiguration
	for i := range n {
		old.Webhooks = append(old.Webhooks, one("a"+strconv.Itoa(i)+".example.com"))
		next.Webhooks = append(next.Webhooks, one("same.example.com"))
	}
	count := func(c, before *webhook.ValidatingWebhookConfiguration) (duplicates, others int) {
		f := &status.Fields{}
		c.Validate(before, cel.RuleOptions{}, f)
		for _, problem := range f.Errors() {
			if problem.Type == meta.CauseFieldValueDuplicate {
				duplicates++
			} else {
				others++
			}
		}
		return duplicates, others
	}
	duplicates, others := count(&old, &old)
	require.Zero(t, duplicates+others)
	duplicates, others = count(&next, &old)
	require.Equal(t, n-1, duplicates)
	require.Zero(t, others)
	duplicates, others = count(&next, &next)
	require.Zero(t, duplicates+others, "what was stored so may stay so")
}

// WHK-01 to WHK-11: an answer that names several faults of a webhook lists them as kube-apiserver does.
func TestWHK_01_to_11_FaultsComeInOrder(t *testing.T) {
	bad := "Bad"
	seconds := int32(31)
	selector := &meta.LabelSelector{MatchLabels: map[string]string{"-a": "b"}}
	wrong := webhook.MutatingWebhook{
		Name: "a.com", FailurePolicy: &bad, MatchPolicy: &bad, SideEffects: &bad, TimeoutSeconds: &seconds, ReinvocationPolicy: &bad,
		NamespaceSelector: selector, ObjectSelector: selector, Rules: make([]match.RuleWithOperations, 1),
		MatchConditions: []match.Condition{{Name: "a", Expression: "1"}}, AdmissionReviewVersions: []string{"v7"},
	}
	c := webhook.MutatingWebhookConfiguration{Webhooks: []webhook.MutatingWebhook{wrong, wrong}}
	f := &status.Fields{}
	c.Validate(nil, cel.RuleOptions{}, f)
	var got []string
	for _, problem := range f.Errors() {
		got = append(got, problem.Field)
	}
	var want []string
	for _, at := range []string{"webhooks[0].", "webhooks[1]."} {
		for _, field := range []string{
			"name", "rules[0].operations", "rules[0].apiGroups", "rules[0].apiVersions", "rules[0].resources", "failurePolicy", "matchPolicy",
			"sideEffects", "timeoutSeconds", "namespaceSelector.matchLabels", "objectSelector.matchLabels", "reinvocationPolicy", "clientConfig",
			"matchConditions[0].expression", "admissionReviewVersions",
		} {
			want = append(want, at+field)
		}
	}
	require.Equal(t, append(want, "webhooks[1].name"), got)
}
