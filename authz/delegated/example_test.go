package delegated_test

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/delegated"
)

// Administrators are allowed without a question to the host.
func ExampleNew() {
	z, err := delegated.New(delegated.Connection{URL: "https://kube.example"}, delegated.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	admin := authn.User{Name: "ann", Groups: []string{authn.GroupMasters}}
	fmt.Println(z.Authorize(context.Background(), authz.Attributes{User: admin, Verb: "get", Path: "/apis"}))
	// Output: allow  <nil>
}
