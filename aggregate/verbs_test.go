package aggregate_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a method means for a path of a back end, only the back end knows. The right to such a request is
// the one that kube-apiserver asks for.
func TestOPS_08_MethodsThatHaveAMeaningForABackEndAlone(t *testing.T) {
	w, l := lying(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.Method+" "+r.URL.Path+" "+string(body))
	})
	for i, c := range []struct{ method, path, right string }{
		{"POST", boats + "/mary", "create-mary"},
		{"PUT", boats, "update-"},
		{"PATCH", boats, "patch-"},
		{"PROPFIND", boats + "/mary", "-mary"},
		{"OPTIONS", boats, "-"},
	} {
		code, body := as(w, "only-get-mary", c.method, c.path)
		require.Equal(t, 403, code, body)
		require.Len(t, l.seen, i)
		code, body = as(w, "only-"+c.right, c.method, c.path)
		require.Equal(t, 200, code, body)
		require.Equal(t, c.method+" "+c.path+" {}", body)
		require.Len(t, l.seen, i+1)
	}
	before := len(l.seen)
	for _, c := range [][2]string{
		{"TRACE", boats},
		{"HEAD", boats + "?watch=1"},
		{"POST", "/api/v1/namespaces/default"},
		{"PUT", "/api/v1/namespaces"},
		{"PROPFIND", "/api/v1/namespaces"},
		{"POST", "/apis/cars.example.dev/v1/cars/one"},
	} {
		code, body := as(w, "alice", c[0], c[1])
		require.Equal(t, 405, code, "%s: %s", c, body)
	}
	require.Len(t, l.seen, before)
}

// The server does not read the body of a GET. The back end must not be told of it either: it would wait for
// the body, or take the next request for it.
func TestH4_OPS_08_ABodyThatNobodyReadsIsNotAnnounced(t *testing.T) {
	w, l := lying(t, func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		_, _ = fmt.Fprint(w, r.ContentLength, err)
	})
	for _, upgrade := range [][]string{nil, {"Connection", "Upgrade", "Upgrade", "other"}} { // over HTTP/2 and HTTP/1.1
		res := w.send("GET", boats, "{}", upgrade...)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, 200, res.StatusCode, string(body))
		require.Equal(t, "0 <nil>", string(body))
		require.Empty(t, l.last().Header["Content-Length"])
		res = w.send("HEAD", boats, "{}", upgrade...)
		require.Equal(t, 200, res.StatusCode)
	}
}

// as sends a request of a user.
func as(w *world, user, method, path string) (int, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, w.http.URL+path, strings.NewReader("{}"))
	require.NoError(w.t, err)
	r.Header.Set("X-User", user)
	res, err := w.http.Client().Do(r)
	require.NoError(w.t, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	return res.StatusCode, string(body)
}
