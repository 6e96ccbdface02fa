package delegated_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/delegated"
)

// In a pod, InCluster finds the host.
func ExampleNew() {
	host, err := delegated.InCluster(func(error) {})
	if err != nil {
		host = delegated.Connection{URL: "https://kube.example"}
	}
	users, err := delegated.New(host, delegated.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	go users.Run(ctx) // follows what the host publishes
	defer stop()
	_ = authn.Middleware(users)(http.NotFoundHandler())
	_, _, err = users.Authenticate(&http.Request{})
	fmt.Println(err)
	// Output: <nil>
}
