package connection_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/kindwright/kindwright/internal/connection"
)

func Example() {
	calls := 0
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls == 1 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = fmt.Fprint(w, "{}")
	}))
	defer backend.Close()
	to := connection.Connection{URL: backend.URL}.WithClient()
	err := connection.Retry(context.Background(), connection.Backoff{Factor: 1, Steps: 5}, func() error {
		answer, err := to.Post(context.Background(), []byte(`{}`))
		fmt.Printf("%q %v\n", answer, err)
		return err
	})
	fmt.Println(err)
	// Output:
	// "" the answer is 429 Too Many Requests
	// "{}" <nil>
	// <nil>
}
