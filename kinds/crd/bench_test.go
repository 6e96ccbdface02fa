package crd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
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
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
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

// BenchmarkChange changes a definition, and which of its versions is stored, under informers.
func BenchmarkChange(b *testing.B) {
	for _, informers := range []int{0, 100} {
		b.Run(fmt.Sprintf("%d informers", informers), func(b *testing.B) {
			srv := apitest.New(b, crd.Kinds())
			definition := multiVersion()
			body, err := json.Marshal(definition)
			require.NoError(b, err)
			require.Equal(b, http.StatusCreated, do(b, srv, "POST", definitions, string(body)))
			for n := range 100 {
				body, err := json.Marshal(fixture(fmt.Sprintf("o%d", n), "v1beta1"))
				require.NoError(b, err)
				require.Equal(b, http.StatusCreated, do(b, srv, "POST", objects("v1beta1"), string(body)))
			}
			ctx, cancel := context.WithCancel(b.Context())
			var following sync.WaitGroup
			defer following.Wait()
			defer cancel()
			for range informers {
				following.Go(func() {
					for ctx.Err() == nil {
						if _, body, err := get(ctx, srv, objects("v1beta1")+"?watch=true"); err == nil {
							_, _ = io.Copy(io.Discard, body)
							_ = body.Close()
						}
					}
				})
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				spec := definition["spec"].(tree)
				storing([]string{"v1beta1", "v1alpha1"}[n%2])(spec)
				for _, v := range spec["versions"].([]any) {
					v.(tree)["schema"].(tree)["openAPIV3Schema"].(tree)["description"] = fmt.Sprintf("change %d", n)
				}
				body, err := json.Marshal(tree{"spec": spec})
				require.NoError(b, err)
				require.Equal(b, http.StatusOK, do(b, srv, "PATCH", multiversion, string(body)))
			}
		})
	}
}
