package process_test

import (
	"fmt"
	"os"

	"github.com/kindwright/kindwright/bench/process"
)

func ExampleGroup() {
	server := process.Group{os.Getpid()}
	before, err := server.CPU()
	if err != nil {
		fmt.Println(err)
		return
	}
	after, err := server.CPU()
	fmt.Println(after >= before, err)
	// Output: true <nil>
}
