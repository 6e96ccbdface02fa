package noderestriction_test

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/noderestriction"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/meta"
)

// A node registers itself, without labels that would bring it workloads.
func Example() {
	chain, err := admission.NewChain(noderestriction.Plugin(""))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, label := range []string{"kubernetes.io/os", "node-role.kubernetes.io/control-plane"} {
		_, _, err := chain.Mutate(context.Background(), &admission.Request{
			Operation: admission.Create,
			Resource:  meta.GroupVersionResource{Version: "v1", Resource: "nodes"}, Name: "north",
			Object: map[string]any{"metadata": map[string]any{"name": "north", "labels": map[string]any{label: "x"}}},
			User:   authn.User{Name: "system:node:north", Groups: []string{"system:nodes"}},
		})
		fmt.Println(err)
	}

	// Output:
	// <nil>
	// nodes "north" is forbidden: node "north" is not allowed to set the following labels: node-role.kubernetes.io/control-plane
}
