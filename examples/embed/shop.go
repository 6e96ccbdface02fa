package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
)

// Order is what the shop stores, as a resource. Every Kubernetes client can list and watch it.
type Order struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec OrderSpec `json:"spec"`
}

// OrderSpec says what was ordered.
type OrderSpec struct {
	Article string `json:"article" minLength:"1" column:"Article" doc:"What was ordered."`
	Count   int32  `json:"count,omitempty" minimum:"1" default:"1" column:"Count" doc:"How many of it."`
}

// orders describes the kind: the server serves it, and clients read it.
var orders = registry.Kind[Order]{Group: "shop.example.com", Version: "v1", Plural: "orders"}

// prefix is the path of the API.
const prefix = "/shop"

// newAPI makes the resource API. It starts nothing.
func newAPI(store storage.Backend) (*kindwright.Server, error) {
	return kindwright.New(store,
		kindwright.Serve(orders),
		kindwright.HTTP{PathPrefix: prefix},
		kindwright.Authenticate(authn.Func(fromInside), authn.Func(login)),
		kindwright.Authorize(authz.Func(teamsOnly)),
	)
}

// account is a user of the service.
type account struct{ password, team string }

// lookUp finds an account. A real service asks its database.
func lookUp(name string) (account, bool) {
	switch name {
	case "ann":
		return account{password: "apple", team: "red"}, true
	case "bob":
		return account{password: "banana", team: "blue"}, true
	}
	return account{}, false
}

// login authenticates the users of the service. The API has no other authentication.
func login(r *http.Request) (authn.User, bool, error) {
	name, password, given := r.BasicAuth()
	if !given {
		return authn.User{}, false, nil
	}
	a, known := lookUp(name)
	if !known || a.password != password { // a real service compares hashes, in constant time
		return authn.User{}, false, errors.New("wrong name or password")
	}
	return authn.User{Name: name, Groups: []string{a.team}}, true, nil
}

// inside marks the service's own requests in their context. Nothing that comes over a wire can set
// a context value.
type inside struct{}

func fromInside(r *http.Request) (authn.User, bool, error) {
	return authn.User{Name: "service", Groups: []string{authn.GroupMasters}}, r.Context().Value(inside{}) != nil, nil
}

// teamsOnly lets users do everything in their team's namespace, and read the API's documents.
func teamsOnly(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
	switch {
	case a.ResourceRequest && a.Namespace != "" && a.User.In(a.Namespace):
		return authz.Allow, "", nil
	case !a.ResourceRequest && a.Verb == "get" && a.User.In(authn.GroupAuthenticated):
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "the namespace is another team's", nil
}

// routes adds the API to the routes of the service.
func routes(api http.Handler, inProcess *client.Transport) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(prefix+"/", api)
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "Hello.\n") })
	// The service's own code uses the API like every client, but without a connection.
	c := client.For(&http.Client{Transport: inProcess}, orders, client.At(client.InProcessURL+prefix))
	mux.HandleFunc("GET /total", func(w http.ResponseWriter, r *http.Request) {
		total := 0
		for page, err := range c.Pages(r.Context(), client.Selection{}) {
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			if page.Restarted {
				total = 0
			}
			for _, o := range page.Items {
				total += int(o.Spec.Count)
			}
		}
		_, _ = io.WriteString(w, strconv.Itoa(total)+"\n")
	})
	return mux
}

// own marks a request as the service's own.
func own(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), inside{}, true)))
	})
}
