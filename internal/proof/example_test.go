package proof_test

import (
	"context"
	"fmt"
	"time"

	"github.com/kindwright/kindwright/internal/proof"
)

func Example() {
	cache := proof.New[string](1000)
	for range 2 {
		user, err := cache.Get(context.Background(), "a-token", "key set 1", func(context.Context) (string, time.Time, error) {
			fmt.Println("verifying")
			return "alice", time.Now().Add(time.Hour), nil
		})
		fmt.Println(user, err)
	}
	// Output:
	// verifying
	// alice <nil>
	// alice <nil>
}
