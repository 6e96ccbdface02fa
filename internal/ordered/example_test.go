package ordered_test

import (
	"fmt"

	"github.com/kindwright/kindwright/internal/ordered"
)

func ExampleMap_Snapshot() {
	m := ordered.New[int]()
	m.Set("b", 2)
	m.Set("a", 1)
	before := m.Snapshot()
	m.Set("c", 3)
	m.Delete("a")
	for key, value := range before.Ascend("") {
		fmt.Println("before:", key, value)
	}
	for key, value := range m.After("b") {
		fmt.Println("now, after b:", key, value)
	}
	// Output:
	// before: a 1
	// before: b 2
	// now, after b: c 3
}
