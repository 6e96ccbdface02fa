package kube_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/examples/kube"
	"github.com/kindwright/kindwright/storage/memory"
)

// A server of Kubernetes' kinds is a server like any other.
func Example() {
	db := memory.New()
	srv, err := kindwright.New(db, kindwright.Serve(kube.Kinds(kube.Options{})), kindwright.Authorize(authz.AlwaysAllow()))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	if err := srv.Start(ctx); err != nil {
		fmt.Println(err)
	}
	body := []byte(`{"metadata":{"name":"settings"},"data":{"color":"blue"}}`)
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/namespaces/default/configmaps", bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	srv.ServeHTTP(answer, request)
	fmt.Println(answer.Code)
	stop()
	srv.Wait()
	fmt.Println(db.Close())
	// Output:
	// 201
	// <nil>
}
