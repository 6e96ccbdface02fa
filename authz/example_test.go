package authz_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
)

// Masters may do everything, everyone may read /livez, and team members may read. All else is
// forbidden.
func Example() {
	open, err := authz.AllowPaths("/livez")
	if err != nil {
		fmt.Println(err)
		return
	}
	readers := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.User.In("team") && a.Verb == "get" {
			return authz.Allow, "members of team may read", nil
		}
		return authz.NoOpinion, "", nil
	})
	// A server passes the attributes of its own parse here; this one serves only plain paths.
	attributes := func(r *http.Request) (authz.Attributes, error) {
		verb := map[string]string{"GET": "get", "POST": "post"}[r.Method]
		return authz.Attributes{Verb: verb, Path: r.URL.Path}, nil
	}
	handler := authz.Middleware(authz.Union(authz.Masters(), open, readers), attributes)(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "served") }))

	ask := func(u authn.User, method, path string) {
		r := httptest.NewRequest(method, path, nil)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r.WithContext(authn.WithUser(r.Context(), u)))
		fmt.Println(u.Name, method, path, w.Code)
	}
	member := authn.User{Name: "alice", Groups: []string{"team"}}
	ask(member, "GET", "/reports")
	ask(member, "POST", "/reports")
	ask(authn.User{Name: "root", Groups: []string{authn.GroupMasters}}, "POST", "/reports")
	ask(authn.User{Name: authn.UserAnonymous}, "GET", "/livez")
	ask(authn.User{Name: authn.UserAnonymous}, "GET", "/livez/storage")
	// Output:
	// alice GET /reports 200
	// alice POST /reports 403
	// root POST /reports 200
	// system:anonymous GET /livez 200
	// system:anonymous GET /livez/storage 403
}

// RulesOf lists what a user may do, as far as the authorizers can tell.
func ExampleRulesOf() {
	open, err := authz.AllowPaths("/livez")
	if err != nil {
		fmt.Println(err)
		return
	}
	external := authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) {
		return authz.NoOpinion, "", nil
	})
	for _, u := range []authn.User{{Name: "root", Groups: []string{authn.GroupMasters}}, {Name: "alice"}} {
		rules := authz.RulesOf(context.Background(), authz.Union(authz.Masters(), open, external), u, "default")
		fmt.Println(u.Name, rules.Resources, rules.Paths)
		if rules.Incomplete {
			fmt.Println("perhaps more:", rules.Why)
		}
	}
	// Output:
	// root [{[*] [*] [*] []}] [{[*] [*]}]
	// alice [] [{[get] [/livez]}]
	// perhaps more: an authorizer of the server cannot list what it allows
}
