package node_test

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/node"
	"github.com/kindwright/kindwright/meta"
)

// A node reads the secrets of its own pods.
func Example() {
	x := node.NewIndex("")
	x.Put(meta.GroupResource{Resource: "pods"}, "shop", "till", []byte(`{"spec":{"nodeName":"north","imagePullSecrets":[{"name":"registry"}]}}`))
	z := node.With(x, "")
	for _, name := range []string{"north", "south"} {
		decision, reason, _ := z.Authorize(context.Background(), authz.Attributes{
			User: authn.User{Name: "system:node:" + name, Groups: []string{"system:nodes"}},
			Verb: "get", ResourceRequest: true, Version: "v1", Resource: "secrets", Namespace: "shop", Name: "registry",
		})
		fmt.Printf("%s: %q\n", decision, reason)
	}

	// Output:
	// allow: ""
	// no opinion: "no relationship found between node 'south' and this object"
}
