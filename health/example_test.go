package health_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"

	"github.com/kindwright/kindwright/health"
)

func Example() {
	checks := health.New()
	storage := health.Check{Name: "storage", Check: func(context.Context) error { return errors.New("disk is full") }}
	if err := checks.Add(health.Ready, storage); err != nil {
		fmt.Println(err)
		return
	}
	for _, path := range []string{"/livez", "/readyz", "/readyz/storage"} {
		w := httptest.NewRecorder()
		checks.Handler("").ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		fmt.Printf("%s %d\n%s\n", path, w.Code, w.Body)
	}
	// Output:
	// /livez 200
	// ok
	// /readyz 500
	// [+]ping ok
	// [+]log ok
	// [-]storage failed: reason withheld
	// [+]shutdown ok
	// readyz check failed
	//
	// /readyz/storage 500
	// internal server error: disk is full
}
