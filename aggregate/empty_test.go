package aggregate_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A namespace goes with its objects, wherever they are. Otherwise they would be those of the next
// namespace of that name.
func TestNS_02_ANamespaceGoesWithTheObjectsOfBackEnds(t *testing.T) {
	w := newWorld(t, nil)
	w.boatsAndDead()
	const inside, elsewhere = "/apis/boats.example.dev/v1/namespaces/port/boats", "/apis/boats.example.dev/v1/namespaces/sea/boats"
	boat := func(path, more string) {
		t.Helper()
		code, body := w.do("POST", path, `{"apiVersion":"boats.example.dev/v1","kind":"Boat","metadata":{"name":"mary"`+more+`}}`)
		require.Equal(t, 201, code, body)
	}
	boat(elsewhere, "")
	gone := func(path string) bool {
		code, _ := w.do("GET", path, "")
		return code == 404
	}
	const namespaces = "/api/v1/namespaces"
	for _, more := range []string{"", `,"finalizers":["example.dev/hold"]`} {
		code, body := w.do("POST", namespaces, `{"metadata":{"name":"port"}}`)
		require.Equal(t, 201, code, body)
		boat(inside, more)
		code, body = w.do("DELETE", namespaces+"/port", "")
		require.Equal(t, 200, code, body)
		if more != "" {
			require.Eventually(t, func() bool {
				_, body = w.do("GET", namespaces+"/port", "")
				return strings.Contains(body, "boats.boats.example.dev has 1 resource instances")
			}, time.Minute, 5*time.Millisecond)
			require.Contains(t, body, `"phase":"Terminating"`)
			_, body = w.do("GET", inside+"/mary", "")
			require.Contains(t, body, `"deletionTimestamp"`)
			code, body = w.do("PUT", inside+"/mary", strings.Replace(body, `["example.dev/hold"]`, "[]", 1))
			require.Equal(t, 200, code, body)
		}
		require.Eventually(t, func() bool { return gone(namespaces + "/port") }, time.Minute, 5*time.Millisecond)
		require.True(t, gone(inside+"/mary"))
	}
	require.False(t, gone(elsewhere+"/mary"))
}

// A server may say that it deletes collections and refuse to (405). As in Kubernetes, what it has is then
// deleted one by one. The namespace ended never.
func TestNS_02_ABackEndThatCannotDeleteCollections(t *testing.T) {
	var gone atomic.Bool
	w := newWorld(t, nil)
	w.listen("boats", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const inside = "/apis/boats.example.dev/v1/namespaces/port/boats"
		switch {
		case r.URL.Path == "/apis/boats.example.dev/v1":
			_, _ = io.WriteString(w, resources("boats", `{"name":"boats","namespaced":true,"kind":"Boat","verbs":["list","delete","deletecollection"]}`))
		case r.Method == http.MethodDelete && r.URL.Path == inside+"/mary":
			gone.Store(true)
			_, _ = io.WriteString(w, "{}")
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case r.URL.Path == inside && !gone.Load():
			_, _ = io.WriteString(w, `{"items":[{"metadata":{"name":"mary"}}]}`)
		default:
			_, _ = io.WriteString(w, `{"items":[]}`)
		}
	}), "boats.default.svc")
	w.register("boats", "v1")
	w.await("v1.boats.example.dev", "Passed")
	const port = "/api/v1/namespaces/port"
	code, body := w.do("POST", "/api/v1/namespaces", `{"metadata":{"name":"port"}}`)
	require.Equal(t, 201, code, body)
	code, body = w.do("DELETE", port, "")
	require.Equal(t, 200, code, body)
	require.Eventually(t, func() bool {
		code, _ := w.do("GET", port, "")
		return code == 404
	}, 30*time.Second, 5*time.Millisecond)
	require.True(t, gone.Load())
}
