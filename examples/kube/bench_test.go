package kube

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/storage/memory"
)

// BenchmarkRequest measures requests for config maps of 1 KiB, and for a pod, in the whole chain, without a network.
func BenchmarkRequest(b *testing.B) {
	const path = "/api/v1/namespaces/default/configmaps"
	template := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"labels":{"app":"bench","group":"%d"}},"data":{"seq":"%d","text":"` + strings.Repeat("lorem ipsum ", 70) + `"}}`
	requests := map[string]func(i int) (method, path, contentType, body string){
		"create": func(i int) (string, string, string, string) {
			return http.MethodPost, path, "application/json", fmt.Sprintf(template, fmt.Sprint("new-", i), i%100, i)
		},
		"create-pod": func(i int) (string, string, string, string) {
			return http.MethodPost, "/api/v1/namespaces/default/pods", "application/json", fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pod-%d"},"spec":{`+
				`"containers":[{"name":"a","image":"a:1","env":[{"name":"A","value":"b"}],"ports":[{"containerPort":80}],"resources":{"requests":{"cpu":"100m","memory":"64Mi"}}}]}}`, i)
		},
		"get": func(int) (string, string, string, string) { return http.MethodGet, path + "/one", "", "" },
		"update": func(i int) (string, string, string, string) {
			return http.MethodPut, path + "/one", "application/json", fmt.Sprintf(template, "one", i%100, i)
		},
		"patch": func(i int) (string, string, string, string) {
			return http.MethodPatch, path + "/one", "application/merge-patch+json", fmt.Sprintf(`{"data":{"seq":"%d"}}`, i)
		},
		"apply": func(i int) (string, string, string, string) {
			return http.MethodPatch, path + "/applied?fieldManager=bench&force=true", "application/apply-patch+yaml", fmt.Sprintf(template, "applied", 1, i)
		},
		"apply-noop": func(int) (string, string, string, string) {
			return http.MethodPatch, path + "/applied?fieldManager=bench&force=true", "application/apply-patch+yaml", fmt.Sprintf(template, "applied", 1, 0)
		},
	}
	handler := benchServer(b)
	ask := func(method, path, contentType, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(b.Context(), method, path, strings.NewReader(body))
		if contentType != "" {
			r.Header.Set("Content-Type", contentType)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	require.Equal(b, http.StatusCreated, ask(http.MethodPost, path, "application/json", fmt.Sprintf(template, "one", 1, 0)).Code)
	for _, name := range []string{"create", "create-pod", "get", "update", "patch", "apply", "apply-noop"} {
		i := 0
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				i++
				if w := ask(requests[name](i)); w.Code >= 300 {
					b.Fatal(w.Body)
				}
			}
		})
	}
}

// benchServer returns a server of all kinds in memory.
func benchServer(b *testing.B) http.Handler {
	b.Helper()
	db := memory.New()
	srv, err := kindwright.New(db, kindwright.Serve(Kinds(Options{})), kindwright.Authorize(authz.AlwaysAllow()), kindwright.Authenticate(administrator{}))
	require.NoError(b, err)
	ctx, stop := context.WithCancel(context.Background())
	require.NoError(b, srv.Start(ctx))
	b.Cleanup(func() {
		stop()
		srv.Wait()
		require.NoError(b, db.Close())
	})
	return srv
}
