package crd_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/storage/memory"
)

// A server that takes definitions from its clients.
func ExampleKinds() {
	db := memory.New()
	defer func() { _ = db.Close() }()
	admin := authn.Func(func(*http.Request) (authn.User, bool, error) {
		return authn.User{Name: "admin", Groups: []string{authn.GroupMasters}}, true, nil
	})
	srv, err := kindwright.New(db, kindwright.Serve(kinds.ControlPlane(), crd.Kinds()), kindwright.Authenticate(admin))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer srv.Wait()
	defer cancel()
	if err := srv.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	request := httptest.NewRequest(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", strings.NewReader(shirts))
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	srv.ServeHTTP(answer, request)
	fmt.Println(answer.Code)
	// Output: 201
}
