package json_test

import (
	"fmt"

	"github.com/kindwright/kindwright/internal/json"
)

func Example() {
	tree, err := json.DecodeTree([]byte(`{"spec": {"size": 9007199254740993, "ratio": 1.50}}`), json.TreeOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	canonical, _ := json.AppendTree(nil, tree)
	fmt.Println(string(canonical))

	_, err = json.DecodeTree([]byte(`{"spec":{"size":1,"size":2}}`), json.TreeOptions{})
	fmt.Println(err)
	// Output:
	// {"spec":{"ratio":1.5,"size":9007199254740993}}
	// invalid JSON at byte 18, in spec.size: duplicate field "spec.size"
}

func ExampleScanMetadata() {
	object := []byte(`{"kind":"Widget","metadata":{"labels":{"app":"a"},"name":"w","uid":"u-1"},"spec":{}}`)
	m, err := json.ScanMetadata(object)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Name, m.UID, m.Labels)
	fmt.Printf("%s\"resourceVersion\":\"7\",%s\n", object[:m.Splice], object[m.Splice:])
	// Output:
	// w u-1 [{app a}]
	// {"kind":"Widget","metadata":{"labels":{"app":"a"},"name":"w","resourceVersion":"7","uid":"u-1"},"spec":{}}
}
