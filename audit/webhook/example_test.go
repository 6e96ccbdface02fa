package webhook_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/kindwright/kindwright/audit/webhook"
)

func Example() {
	backend := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Printf("%s\n", body)
	}))
	defer backend.Close()
	sink, err := webhook.New(webhook.Connection{URL: backend.URL}, webhook.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sink.Write(context.Background(), []byte(`{"kind":"Event"}`)))
	fmt.Println(sink.Close())
	// Output:
	// <nil>
	// {"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[{"kind":"Event"}]}
	// <nil>
}
