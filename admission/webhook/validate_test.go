package webhook_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

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
