package kindwright_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

// OldBook is a Book of v1beta1.
type OldBook struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Name            string `json:"name"`
	Sheets          int32  `json:"sheets,omitempty"`
}

// A kind in two versions: v1 is stored, v1beta1 is made of it by two functions, and whoever still uses it is warned.
func Example_versions() {
	old := registry.Kind[OldBook]{
		Group: "library.example.com", Version: "v1beta1", Plural: "books", Names: registry.Names{Kind: "Book"},
		Serving: registry.Serving{Deprecated: &registry.Deprecation{Instead: meta.GroupVersionKind{Version: "v1"}}},
	}
	books := registry.Kind[Book]{
		Group: "library.example.com", Version: "v1", Plural: "books", Scope: registry.ClusterScoped,
		Also: []registry.Form{registry.As(old,
			func(o *OldBook) (*Book, error) { return &Book{Title: o.Name, Pages: o.Sheets * 2}, nil },
			func(b *Book) (*OldBook, error) { return &OldBook{Name: b.Title, Sheets: b.Pages / 2}, nil },
			nil,
		)},
	}
	admin := authn.Func(func(*http.Request) (authn.User, bool, error) {
		return authn.User{Name: "admin", Groups: []string{authn.GroupMasters}}, true, nil
	})
	db := memory.New()
	defer func() { _ = db.Close() }()
	srv, err := kindwright.New(db, kindwright.Serve(books), kindwright.Authenticate(admin))
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
	call := func(method, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		srv.ServeHTTP(w, r)
		return w
	}
	w := call("POST", "/apis/library.example.com/v1beta1/books", `{"metadata":{"name":"emma"},"name":"Emma","sheets":237}`)
	fmt.Println(w.Code, w.Header().Get("Warning"))
	w = call("GET", "/apis/library.example.com/v1/books/emma", "")
	_, pages, _ := strings.Cut(w.Body.String(), `"pages":`)
	fmt.Println(w.Code, pages)
	// Output:
	// 201 299 - "library.example.com/v1beta1 Book is deprecated; use library.example.com/v1 Book"
	// 200 474,"title":"Emma"}
}
