package config_test

import (
	"fmt"

	"github.com/kindwright/kindwright/config"
)

func ExampleParseAuthorization() {
	c, err := config.ParseAuthorization([]byte(`
apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- {type: RBAC, name: rbac}
- type: Webhook
  name: corporate
  webhook:
    timeout: 45s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {type: InClusterConfig}
    matchConditions:
    - expression: request.resourceAttributes.namespace == 'payroll'
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Authorizers[1].Webhook.AuthorizedTTL)
	fmt.Println(c.Validate(config.AuthorizationRules{Types: []string{"RBAC"}}))
	// Output:
	// 5m0s
	// authorizers[1].webhook.timeout: Invalid value: "45s": must be > 0s and <= 30s
}
