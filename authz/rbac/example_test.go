package rbac_test

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/rbac"
)

// An index answers without a server. The program says what roles and bindings there are.
func Example() {
	x := rbac.NewIndex("k8s.io")
	x.PutRole("shop", "reader", []rbac.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}})
	x.PutBinding("shop", "readers", rbac.RoleRef{Kind: rbac.KindRole, Name: "reader"}, []rbac.Subject{{Kind: rbac.KindGroup, Name: "staff"}})

	a := authz.Attributes{
		User: authn.User{Name: "ann", Groups: []string{"staff"}},
		Verb: "get", ResourceRequest: true, Resource: "configmaps", Namespace: "shop", Name: "prices",
	}
	decision, reason, _ := x.Authorize(context.Background(), a)
	fmt.Println(decision, "-", reason)
	a.Namespace = "bank"
	decision, _, _ = x.Authorize(context.Background(), a)
	fmt.Println(decision)

	// Output:
	// allow - RBAC: allowed by RoleBinding "readers/shop" of Role "reader" to Group "staff"
	// no opinion
}

// Nobody grants what they do not have. Several rules may cover one together.
func ExampleCovers() {
	have := []rbac.PolicyRule{
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}},
		{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"services"}},
	}
	missing, _ := rbac.Covers(have, []rbac.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods", "services"}}})
	fmt.Println(missing)

	// Output: [{APIGroups:[""], Resources:["pods"], Verbs:["list"]}]
}
