package flowcontrol_test

import (
	"context"
	"fmt"
	"time"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/flowcontrol"
)

// A program that is no server of ours shares ten seats.
func ExampleController() {
	c := flowcontrol.NewController(10)
	c.Put(flowcontrol.Suggested(flowcontrol.DefaultGroupDomain))

	ann := authn.User{Name: "ann", Groups: []string{"system:authenticated"}}
	list := authz.Attributes{User: ann, Verb: "list", Version: "v1", Resource: "pods", Namespace: "shop", ResourceRequest: true}
	place, reason := c.Enter(context.Background(), &list, 1, time.Second)
	if reason != "" {
		fmt.Println("no seat:", reason)
		return
	}
	defer place.Leave()

	fmt.Println(place.Schema(), "at", place.Level())
	// Output: global-default at global-default
}
