package webhook_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/kindwright/kindwright/authn/webhook"
)

func Example() {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question, _ := io.ReadAll(r.Body)
		fmt.Printf("%s\n", question)
		_, _ = fmt.Fprint(w, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":true,"user":{"username":"alice","groups":["ops"]}}}`)
	}))
	defer backend.Close()
	a, err := webhook.New(webhook.Connection{URL: backend.URL}, webhook.Options{Version: "v1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer 3f9a")
	u, ok, err := a.Authenticate(r)
	fmt.Println(u.Name, u.Groups, ok, err)
	// Output:
	// {"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","metadata":{},"spec":{"token":"3f9a"},"status":{}}
	// alice [ops] true <nil>
}
