package request_test

import (
	"fmt"
	"net/http/httptest"

	"github.com/kindwright/kindwright/internal/request"
)

func ExampleParser_Parse() {
	parser := request.NewParser("/shop", "")
	for _, target := range []string{
		"/shop/apis/example.dev/v1/namespaces/a/widgets/x/status",
		"/shop/api/v1/namespaces?watch=1&fieldSelector=metadata.name%3Da",
		"/shop/livez",
		"/shop/apis/example.dev/v1/namespaces/a%2Fwidgets/x",
	} {
		info, err := parser.Parse(httptest.NewRequest("GET", target, nil))
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Printf("%s resource=%q subresource=%q namespace=%q name=%q path=%s\n",
			info.Verb, info.Resource, info.Subresource, info.Namespace, info.Name, info.Path)
	}
	// Output:
	// get resource="widgets" subresource="status" namespace="a" name="x" path=/apis/example.dev/v1/namespaces/a/widgets/x/status
	// watch resource="namespaces" subresource="" namespace="" name="a" path=/api/v1/namespaces
	// get resource="" subresource="" namespace="" name="" path=/livez
	// path segment "a/widgets" contains an encoded slash or percent sign
}

func ExampleQuery_ValidateList() {
	info, err := request.Parse(httptest.NewRequest("GET", "/api/v1/events?resourceVersionMatch=Exact", nil), "")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(info.Query.ValidateList())
	// Output:
	// ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided
}
