package patch_test

import (
	"fmt"

	"github.com/kindwright/kindwright/internal/patch"
	"github.com/kindwright/kindwright/meta"
)

// Two patches of the same object. Neither changes it.
func Example() {
	widget := map[string]any{"spec": map[string]any{"size": int64(3), "color": "red"}}
	about := patch.Options{Kind: meta.GroupKind{Group: "example.dev", Kind: "Widget"}, Name: "a"}

	merged, err := patch.Merge(widget, []byte(`{"spec":{"color":null,"size":4}}`), about)
	fmt.Println(merged, err)
	patched, err := patch.JSON(widget, []byte(`[{"op":"test","path":"/spec/size","value":3},{"op":"replace","path":"/spec/size","value":5}]`), about)
	fmt.Println(patched, err)
	_, err = patch.JSON(widget, []byte(`[{"op":"remove","path":"/spec/owner"}]`), about)
	fmt.Println(err)
	fmt.Println(widget)
	// Output:
	// map[spec:map[size:4]] <nil>
	// map[spec:map[color:red size:5]] <nil>
	// Widget.example.dev "a" is invalid: patch: Invalid value: error in remove for path: '/spec/owner': unable to remove nonexistent key: owner: missing value
	// map[spec:map[color:red size:3]]
}
