package authn_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/kindwright/kindwright/authn"
)

// What the middleware takes beside an authenticator that takes nothing, for a request with the header
// fields that client-go sends.
func BenchmarkMiddleware(b *testing.B) {
	user := authn.User{Name: "alice", Groups: []string{"devs", authn.GroupAuthenticated}}
	known := authn.Func(func(*http.Request) (authn.User, bool, error) { return user, true, nil })
	h := authn.Middleware(known)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, with := range []string{"a token", "a certificate"} {
		b.Run(with, func(b *testing.B) {
			r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/api/v1/namespaces", nil)
			for name, value := range map[string]string{
				"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "client/v1", "Kubectl-Session": "x", "Content-Type": "application/json",
			} {
				r.Header.Set(name, value)
			}
			if with == "a token" {
				r.Header.Set("Authorization", "Bearer wonderland")
			}
			w := httptest.NewRecorder()
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}
