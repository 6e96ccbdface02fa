package jsonpath_test

import (
	"fmt"

	"github.com/kindwright/kindwright/internal/jsonpath"
)

// The status of the condition Ready.
func Example() {
	p, err := jsonpath.Parse(`.status.conditions[?(@.type=="Ready")].status`)
	if err != nil {
		fmt.Println(err)
		return
	}
	found, err := p.Find(map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "Synced", "status": "True"},
		map[string]any{"type": "Ready", "status": "Unknown"},
	}}})
	fmt.Println(found, err)

	// Only a plain path can be followed without decoding an object.
	fields, plain := p.Plain()
	fmt.Println(fields, plain)
	// Output:
	// [Unknown] <nil>
	// [status conditions] false
}
