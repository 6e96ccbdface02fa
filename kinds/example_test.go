package kinds_test

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage/memory"
)

// A server is given its built-in kinds like any others.
func Example() {
	db := memory.New()
	defer db.Close()
	srv, err := kindwright.New(db, kindwright.Serve(kinds.ControlPlane()))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer srv.Wait()
	defer stop()
	if err := srv.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for _, served := range srv.Engine().Set().All() {
		fmt.Println(served.Resource.APIVersion(), served.Resource.Names.Kind)
	}
	// Output:
	// v1 Namespace
	// authentication.k8s.io/v1 SelfSubjectReview
	// authorization.k8s.io/v1 SelfSubjectAccessReview
}
