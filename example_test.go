package kindwright_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

// Book is a kind of the examples.
type Book struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Title           string `json:"title" minLength:"1"`
	Pages           int32  `json:"pages,omitempty" minimum:"1" default:"100"`
}

// An API inside a service that exists: the host owns the listener, the login and the mux.
func Example() {
	books := registry.Kind[Book]{Group: "library.example.com", Version: "v1", Plural: "books", Scope: registry.ClusterScoped}
	login := authn.Func(func(r *http.Request) (authn.User, bool, error) {
		name, _, ok := r.BasicAuth() // stands for the host's own way
		return authn.User{Name: name}, ok, nil
	})
	db := memory.New()
	defer func() { _ = db.Close() }()
	api, err := kindwright.New(db,
		kindwright.Serve(books),
		kindwright.Authenticate(login),
		kindwright.Authorize(authz.AlwaysAllow()),
		kindwright.HTTP{PathPrefix: "/library"},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer api.Wait()
	defer stop()
	if err := api.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/library/", api)

	r := httptest.NewRequest("POST", "/library/apis/library.example.com/v1/books", strings.NewReader(`{"metadata":{"name":"emma"},"title":"","pages":0}`))
	r.SetBasicAuth("jane", "x")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	_, message, _ := bytes.Cut(w.Body.Bytes(), []byte(`"message":"`))
	fmt.Println(w.Code, strings.ReplaceAll(string(message[:bytes.Index(message, []byte(`","reason`))]), `\"`, `"`))
	// Output: 422 Book.library.example.com "emma" is invalid: [pages: Invalid value: 0: pages in body should be greater than or equal to 1, title: Invalid value: "": title in body should be at least 1 chars long]
}

// Kinds come and go while a server runs. What is stored stays, and is there when its kind comes back.
func ExampleServer_Install() {
	books := registry.Kind[Book]{Group: "library.example.com", Version: "v1", Plural: "books", Scope: registry.ClusterScoped}
	db := memory.New()
	defer func() { _ = db.Close() }()
	admin := authn.Func(func(*http.Request) (authn.User, bool, error) {
		return authn.User{Name: "admin", Groups: []string{authn.GroupMasters}}, true, nil
	})
	srv, err := kindwright.New(db, kindwright.Authenticate(admin))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer srv.Wait()
	defer stop()
	if err := srv.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	look := func(when string) {
		w := httptest.NewRecorder()
		srv.ServeHTTP(w, httptest.NewRequest("GET", "/apis/library.example.com/v1/books", nil))
		fmt.Println(when, w.Code)
	}
	look("before")
	if err := srv.Install(ctx, books); err != nil {
		fmt.Println(err)
		return
	}
	look("installed")
	srv.Remove(meta.GroupResource{Group: books.Group, Resource: books.Plural})
	look("removed")
	// Output:
	// before 404
	// installed 200
	// removed 404
}

// The chain is a list; middleware of the host's own goes in front of a link by name.
func ExampleBefore() {
	db := memory.New()
	defer func() { _ = db.Close() }()
	srv, err := kindwright.New(db, kindwright.Before("authorize", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Tenant", "acme")
			next.ServeHTTP(w, r)
		})
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(strings.Join(srv.Chain(), " → "))
	// Output: audit-id → recover → parse → host → origin → ready → deadline → authenticate → impersonate → limits → authorize → body
}

// Middleware reads what a request is from its context. Here it stands in front of the whole chain but the first link, so it
// sees the requests that are refused, too.
func ExampleRequestFrom() {
	db := memory.New()
	defer func() { _ = db.Close() }()
	books := registry.Kind[Book]{Group: "library.example.com", Version: "v1", Plural: "books", Scope: registry.ClusterScoped}
	srv, err := kindwright.New(db, kindwright.Serve(books), kindwright.Authorize(authz.AlwaysAllow()),
		kindwright.Before("recover", func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(w, r)
				x := kindwright.RequestFrom(r.Context())
				fmt.Println(x.User.Name, x.Verb, x.Resource, x.Name, x.Code)
			})
		}))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer srv.Wait()
	defer stop()
	if err := srv.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for _, path := range []string{"/apis/library.example.com/v1/books", "/apis/library.example.com/v1/books/emma"} {
		srv.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
	}
	// Output:
	// system:anonymous list books  200
	// system:anonymous get books emma 404
}
