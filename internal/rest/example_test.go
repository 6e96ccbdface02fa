package rest_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/internal/rest"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

type lamp struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
}

// A handler expects the parsed request in the context; the chain of a server puts it there.
func Example() {
	db := memory.New()
	defer func() { _ = db.Close() }()
	e, err := engine.New(engine.Config{Store: storage.New(db)})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer e.Wait()
	defer stop()
	resource, err := registry.Kind[lamp]{Group: "home.example.com", Version: "v1", Plural: "lamps", Names: registry.Names{Kind: "Lamp"}, Scope: registry.ClusterScoped}.Resource()
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := e.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	if err := e.Install(ctx, resource); err != nil {
		fmt.Println(err)
		return
	}
	r := httptest.NewRequest("GET", "/apis/home.example.com/v1/lamps/desk", nil)
	info, err := request.Parse(r, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	w := httptest.NewRecorder()
	h := rest.New(e, rest.Options{})
	x := new(request.Exchange).Begin(r, "", time.Now())
	x.Info.Store(info)
	h.Find(x)
	h.ServeHTTP(w, r.WithContext(x))
	fmt.Println(w.Code, w.Body)
	// Output: 404 {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"lamps.home.example.com \"desk\" not found","reason":"NotFound","details":{"name":"desk","group":"home.example.com","kind":"lamps"},"code":404}
}
