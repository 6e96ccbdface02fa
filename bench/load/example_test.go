package load_test

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/bench/load"
)

func ExampleLoop() {
	out := load.Loop{Workers: 2, Operations: 100}.Run(context.Background(), func(context.Context, int, int) (int64, error) {
		return 1024, nil // such as the length of a response body
	})
	fmt.Println(len(out.Latencies), "operations,", out.Bytes>>10, "KiB,", out.Failed, "failed")
	// Output: 100 operations, 100 KiB, 0 failed
}
