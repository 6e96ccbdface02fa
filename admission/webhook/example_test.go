package webhook_test

import (
	"fmt"

	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/admission/webhook"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/status"
)

// A configuration is checked before it is stored. The URL of this one is not safe, and it does not say
// whether the webhook has side effects.
func Example() {
	url := "http://policy.example.com/review"
	c := &webhook.ValidatingWebhookConfiguration{Webhooks: []webhook.ValidatingWebhook{{
		Name:         "policy.example.com",
		ClientConfig: webhook.ClientConfig{URL: &url},
		Rules: []match.RuleWithOperations{{
			Operations: []string{"CREATE"},
			Rule:       match.Rule{APIGroups: []string{"example.dev"}, APIVersions: []string{"v1"}, Resources: []string{"widgets"}},
		}},
		AdmissionReviewVersions: []string{"v1"},
	}}}
	c.Default()
	fmt.Println("asked for at most", *c.Webhooks[0].TimeoutSeconds, "seconds")
	var f status.Fields
	c.Validate(nil, cel.RuleOptions{}, &f)
	for _, problem := range f.Errors() {
		fmt.Println(problem.Field)
	}
	// Output:
	// asked for at most 10 seconds
	// webhooks[0].sideEffects
	// webhooks[0].clientConfig.url
}
