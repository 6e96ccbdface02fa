package effort_test

import (
	"fmt"

	"github.com/kindwright/kindwright/internal/effort"
)

func Example() {
	total := 0
	for i := range effort.Of(1000) { // 100 under the race detector
		total += i % 2
	}
	fmt.Println(total*2 == effort.Of(1000))
	// Output: true
}
