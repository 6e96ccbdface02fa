package authn_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/token"
)

// A server that knows two callers by token and admits everyone else as anonymous. Package authz
// decides what they may do.
func Example() {
	tokens, err := token.Read(strings.NewReader(`t-alice,alice,1,"dev,ops"` + "\n" + `t-root,root,0,system:masters`))
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := authn.Middleware(authn.Union(tokens, authn.Anonymous()))(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			u, _ := authn.UserFrom(r.Context())
			fmt.Println(u.Name, u.Groups, "credentials left:", len(r.Header["Authorization"]))
		}))
	for _, credential := range []string{"Bearer t-alice", "", "Bearer guess"} {
		r := httptest.NewRequest("GET", "/apis", nil)
		if credential != "" {
			r.Header.Set("Authorization", credential)
		}
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != http.StatusOK {
			fmt.Println(w.Code, w.Body)
		}
	}
	// Output:
	// alice [dev ops system:authenticated] credentials left: 0
	// system:anonymous [system:unauthenticated] credentials left: 0
	// 401 {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}
}

// Another service has received a token and asks who owns it.
func ExampleReviewToken() {
	tokens, err := token.Read(strings.NewReader(`t-alice,alice,1,"dev,ops"`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, spec := range []authn.TokenReviewSpec{{Token: "t-alice"}, {Token: "guess"}} {
		s := authn.ReviewToken(context.Background(), authn.Union(tokens, authn.Anonymous()), spec)
		fmt.Printf("%t %q %q %q\n", s.Authenticated, s.User.Username, s.User.Groups, s.Error)
	}
	// Output:
	// true "alice" ["dev" "ops" "system:authenticated"] ""
	// false "" [] "invalid bearer token"
}
