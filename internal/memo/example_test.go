package memo_test

import (
	"fmt"
	"time"

	"github.com/kindwright/kindwright/internal/memo"
)

func Example() {
	c := memo.New[string, int](2)
	c.Put("a", 1, time.Hour)
	c.Put("b", 2, time.Hour)
	c.Get("a")
	c.Put("c", 3, time.Hour)
	_, hasB := c.Get("b")
	a, hasA := c.Get("a")
	fmt.Println(a, hasA, hasB)
	// Output: 1 true false
}
