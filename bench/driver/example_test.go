package driver_test

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/bench/driver"
	"github.com/kindwright/kindwright/bench/limit"
	"github.com/kindwright/kindwright/bench/server"
	"github.com/kindwright/kindwright/bench/shape"
)

func Example() {
	ctx := context.Background()
	id, err := server.NewIdentity("token")
	if err != nil {
		fmt.Println(err)
		return
	}
	child, err := server.Start(ctx, id, server.Memory, "", limit.Faults{})
	if err != nil {
		fmt.Println(err)
		return
	}
	scale := driver.DefaultScale()
	scale.Scratch, scale.Operations = 64, 100
	target, err := driver.Open(ctx, driver.Config{
		Name: "ours", URL: child.URL, Token: id.Token, TLS: id.TLS(), Shape: shape.ConfigMap(), Processes: child.Processes,
	}, scale)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, w := range driver.Workloads(scale) {
		if w.Name == "get/c16" {
			r := w.Run(ctx, target)
			fmt.Println(w.Doc+":", r.Operations, "operations,", r.Errors, "errors")
		}
	}
	target.Close()
	fmt.Println(child.Stop())
	// Output:
	// one object, with the latest state, 16 at once: 100 operations, 0 errors
	// <nil>
}
