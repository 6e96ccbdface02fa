package program_test

import (
	"context"
	"fmt"
	"os"

	"github.com/kindwright/kindwright/examples/internal/program"
)

// A command is this line with its own store.
func ExampleRun() {
	code := program.Run(context.Background(), []string{"--storage=paper"}, os.Stdout, os.Stdout, &program.Files{})
	fmt.Println("exit code", code)
	// Output:
	// server: --storage "paper": must be bbolt or memory
	// exit code 2
}
