package server_test

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/bench/limit"
	"github.com/kindwright/kindwright/bench/server"
)

func ExampleStart() {
	id, err := server.NewIdentity("token")
	if err != nil {
		fmt.Println(err)
		return
	}
	child, err := server.Start(context.Background(), id, server.Memory, "", limit.Faults{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(child.Processes), "process")
	fmt.Println(child.Stop())
	// Output:
	// 1 process
	// <nil>
}
