package limit_test

import (
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/kindwright/kindwright/bench/limit"
)

func ExampleNew() {
	server := limit.New(limit.Faults{})
	for _, name := range []string{"a", "b"} {
		body := strings.NewReader(`{"metadata":{"name":"` + name + `"}}`)
		server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/api/v1/namespaces/default/configmaps", body))
	}
	answer := httptest.NewRecorder()
	server.ServeHTTP(answer, httptest.NewRequest("GET", "/api/v1/namespaces/default/configmaps/b", nil))
	fmt.Println(answer.Body)
	// Output: {"metadata":{"resourceVersion":"2","name":"b"}}
}
