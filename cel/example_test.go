package cel_test

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/cel"
)

func Example() {
	environment, err := cel.NewEnvironment(cel.AccessReview())
	if err != nil {
		fmt.Println(err)
		return
	}
	condition, err := environment.Compile("!('system:nodes' in request.groups)", cel.Bool())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, groups := range [][]string{{"dev"}, {"system:nodes"}} {
		fmt.Println(condition.Holds(context.Background(), cel.Values{"request": map[string]any{"groups": groups}}))
	}
	_, err = environment.Compile("request.usr == 'alice'", cel.Bool())
	fmt.Println(err)
	// Output:
	// true <nil>
	// false <nil>
	// compilation failed: ERROR: <input>:1:8: undefined field 'usr'
	//  | request.usr == 'alice'
	//  | .......^
}
