package abac_test

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/abac"
)

func Example() {
	policies, err := abac.Parse([]byte(`
# the shop
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"alice","namespace":"shop","resource":"widgets","apiGroup":"*","readonly":true}}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, verb := range []string{"list", "delete"} {
		decision, reason, err := policies.Authorize(context.Background(), authz.Attributes{
			User: authn.User{Name: "alice"}, Verb: verb, ResourceRequest: true,
			Group: "example.dev", Resource: "widgets", Namespace: "shop",
		})
		fmt.Println(verb, decision, reason, err)
	}
	// Output:
	// list allow  <nil>
	// delete no opinion No policy matched. <nil>
}
