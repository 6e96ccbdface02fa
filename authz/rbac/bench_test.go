package rbac_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/rbac"
)

// crowd is 1,000 roles of 5 rules and 5,000 bindings, spread over users and namespaces, or all on
// one group with 4,500 of them in one namespace.
func crowd(skewed bool) *rbac.Index {
	x := rbac.NewIndex("k8s.io")
	for i := range 1000 {
		var rules []rbac.PolicyRule
		for j := range 5 {
			rules = append(rules, rbac.PolicyRule{
				Verbs: []string{"get", "list", "watch"}, APIGroups: []string{fmt.Sprintf("g%d", i%20)},
				Resources: []string{fmt.Sprintf("r%d", (i*5+j)%300), "widgets/status"},
			})
		}
		x.PutRole("", fmt.Sprint("role", i), rules)
	}
	for i := range 5000 {
		subject := rbac.Subject{Kind: "User", Name: fmt.Sprint("u", i%500)}
		namespace := fmt.Sprint("n", i%100)
		if skewed {
			subject = rbac.Subject{Kind: "Group", Name: "everybody"}
			if i%10 > 0 {
				namespace = "n1"
			}
		}
		x.PutBinding(namespace, fmt.Sprint("b", i), clusterRole(fmt.Sprint("role", i%1000)), []rbac.Subject{subject})
	}
	return x
}

func BenchmarkAuthorize(b *testing.B) {
	for _, skewed := range []bool{false, true} {
		x := crowd(skewed)
		user := authn.User{Name: "u1", Groups: []string{"everybody", "team", "system:authenticated"}}
		a := authz.Attributes{User: user, Verb: "get", ResourceRequest: true, Group: "g1", Resource: "r5", Namespace: "n1", Name: "x"}
		no := a
		no.Verb = "delete"
		path := authz.Attributes{User: user, Verb: "get", Path: "/healthz"}
		for name, a := range map[string]authz.Attributes{"allowed": a, "denied": no, "path": path} {
			b.Run(fmt.Sprintf("skewed=%v/%s", skewed, name), func(b *testing.B) {
				b.ReportAllocs()
				want := authz.NoOpinion
				if name == "allowed" {
					want = authz.Allow
				}
				for b.Loop() {
					if d, _, _ := x.Authorize(context.Background(), a); d != want {
						b.Fatal(d)
					}
				}
			})
		}
	}
}

// A write to a role of the crowded group: what the writer pays.
func BenchmarkPutRole(b *testing.B) {
	x := crowd(true)
	i := 0
	for b.Loop() {
		i++
		x.PutRole("", fmt.Sprint("role", i%1000), []rbac.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{"g1"}, Resources: []string{fmt.Sprint("r", i%300)}}})
	}
}
