package yaml_test

import (
	"fmt"

	"github.com/kindwright/kindwright/internal/yaml"
)

func Example() {
	out, err := yaml.ToJSON([]byte("kind: Widget\nspec:\n  size: 3\n"), 1<<20)
	fmt.Println(string(out), err)

	text, _ := yaml.FromJSON(out)
	fmt.Print(string(text))

	_, err = yaml.ToJSON([]byte("a: &x [1]\nb: *x\n"), 1<<20)
	fmt.Println(err)
	// Output:
	// {"kind":"Widget","spec":{"size":3}} <nil>
	// kind: Widget
	// spec:
	//   size: 3
	// YAML anchors and aliases are not accepted
}
