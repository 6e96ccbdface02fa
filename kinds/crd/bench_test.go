package crd_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/kinds/crd"
)

// do sends a request and returns the code of the answer.
func do(b *testing.B, srv *apitest.Server, method, path, body string) int {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, srv.URL+path, strings.NewReader(body))
	require.NoError(b, err)
	r.Header.Set("Content-Type", "application/json")
	answer, err := srv.Client().Do(r)
	require.NoError(b, err)
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	return answer.StatusCode
}

// BenchmarkFirstObject sends a definition, and then objects of it until one is created.
func BenchmarkFirstObject(b *testing.B) {
	srv := apitest.New(b, crd.Kinds())
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		group := fmt.Sprintf("shop%d.example.com", n)
		code := do(b, srv, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", strings.ReplaceAll(shirts, "shop.example.com", group))
		require.Equal(b, http.StatusCreated, code)
		for {
			code = do(b, srv, "POST", "/apis/"+group+"/v1/namespaces/default/shirts", `{"apiVersion":"`+group+`/v1","kind":"Shirt","metadata":{"name":"a"}}`)
			if code == http.StatusCreated {
				break
			}
		}
	}
}
