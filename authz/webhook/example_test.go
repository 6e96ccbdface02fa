package webhook_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/webhook"
)

func Example() {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question, _ := io.ReadAll(r.Body)
		fmt.Printf("%s\n", question)
		_, _ = fmt.Fprint(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true,"reason":"she is known"}}`)
	}))
	defer backend.Close()
	z, err := webhook.New(webhook.Connection{URL: backend.URL}, webhook.Options{Version: "v1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(z.Authorize(context.Background(), authz.Attributes{User: authn.User{Name: "alice"}, Verb: "get", Path: "/version"}))
	// Output:
	// {"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{"nonResourceAttributes":{"path":"/version","verb":"get"},"user":"alice"},"status":{"allowed":false}}
	// allow she is known <nil>
}
