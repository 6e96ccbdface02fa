package batch_test

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/internal/batch"
)

func Example() {
	q := batch.New(batch.Options{}, func(_ context.Context, records [][]byte) {
		for _, r := range records {
			fmt.Printf("%s\n", r)
		}
	}, func(n int) { fmt.Println(n, "lost") })
	q.Add([]byte("a"))
	q.Add([]byte("b"))
	q.Close()
	q.Add([]byte("c"))
	// Output:
	// a
	// b
	// 1 lost
}
