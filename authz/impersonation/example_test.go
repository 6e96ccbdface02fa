package impersonation_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/impersonation"
)

// Support may act as customers.
func Example() {
	support := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.User.Name == "support" && a.Verb == "impersonate" && a.Resource == "users" {
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "", nil
	})
	who := authn.Func(func(r *http.Request) (authn.User, bool, error) {
		return authn.User{Name: r.Header.Get("X-Who")}, true, nil
	})
	read := func(r *http.Request) (authz.Attributes, error) {
		return authz.Attributes{Verb: "get", Path: r.URL.Path}, nil
	}
	greet := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, _ := authn.UserFrom(r.Context())
		_, _ = fmt.Fprint(w, "Hello ", u.Name)
	})
	impersonate := impersonation.Middleware(impersonation.Rules{Authorizer: support}, read)
	h := authn.Middleware(who, authn.WithImpersonation())(impersonate(greet))

	for _, name := range []string{"support", "mallory"} {
		r := httptest.NewRequestWithContext(context.Background(), "GET", "/", nil)
		r.Header.Set("X-Who", name)
		r.Header.Set("Impersonate-User", "alice")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Body.String()[:11])
	}
	// Output:
	// 200 Hello alice
	// 403 {"kind":"St
}
