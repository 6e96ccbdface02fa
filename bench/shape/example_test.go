package shape_test

import (
	"fmt"

	"github.com/kindwright/kindwright/bench/shape"
)

func ExampleTemplate() {
	patch, err := shape.Parse(`{"metadata":{${version}"labels":{"turn":"${seq}"}}}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(patch.Append(nil, shape.Values{Seq: 1})))
	fmt.Println(string(patch.Append(nil, shape.Values{Seq: 2, Version: "17"})))
	// Output:
	// {"metadata":{"labels":{"turn":"1"}}}
	// {"metadata":{"resourceVersion":"17","labels":{"turn":"2"}}}
}
