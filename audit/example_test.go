package audit_test

import (
	"fmt"

	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/authz"
)

// Bodies of secrets stay out of the log, whatever the later rules say.
func Example() {
	policy, err := audit.ParsePolicy([]byte(`
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  resources: [{group: "", resources: [secrets]}]
- level: None
  verbs: [get, list, watch]
- level: RequestResponse
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	rules, err := audit.Compile(policy)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range []authz.Attributes{
		{ResourceRequest: true, Verb: "create", Resource: "secrets"},
		{ResourceRequest: true, Verb: "get", Resource: "pods"},
		{ResourceRequest: true, Verb: "update", Resource: "pods"},
	} {
		v := rules.Evaluate(&a)
		fmt.Println(a.Verb, a.Resource, v.Level, v.Keeps(audit.StageResponseComplete))
	}
	// Output:
	// create secrets Metadata true
	// get pods None false
	// update pods RequestResponse true
}
