package apitest_test

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

func ExampleNew() {
	t := &scope{} // in a test, the *testing.T; there the end comes by itself
	defer t.end()
	ctx := context.Background() // in a test, t.Context()

	srv := apitest.New(t, Widgets)
	c := client.For(srv.Client(), Widgets)
	w, err := c.Create(ctx, &Widget{ObjectMeta: meta.Named("default", "chair")})
	if err != nil {
		fmt.Println(err)
		return
	}
	w.Status.Phase = "Ready"
	w, err = c.UpdateStatus(ctx, w)
	fmt.Println(w.Key(), w.Status.Phase, err)
	// Output:
	// default/chair Ready <nil>
}

// As tests a controller with the rights that it will have in production.
func ExampleServer_As() {
	t := &scope{}
	defer t.end()
	ctx := context.Background()

	readers := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.User.In("readers") && (a.Verb == "get" || a.Verb == "list" || a.Verb == "watch") {
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "", nil
	})
	srv := apitest.Config{Options: []kindwright.Option{kindwright.Authorize(readers)}}.New(t, Widgets)
	c := client.For(srv.As("system:serviceaccount:shop:painter", "readers"), Widgets)

	all, err := c.List(ctx, client.In("default"))
	fmt.Println(len(all.Items), err)
	_, err = c.Create(ctx, &Widget{ObjectMeta: meta.Named("default", "chair")})
	fmt.Println(status.IsForbidden(err))
	// Output:
	// 0 <nil>
	// true
}
