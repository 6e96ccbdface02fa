package aggregate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A namespace goes with its objects, wherever they are. Otherwise they would be those of the next
// namespace of that name.
func TestNS_02_ANamespaceGoesWithTheObjectsOfBackEnds(t *testing.T) {
	w := newWorld(t, nil)
	w.kindwright("boats", "v1")
	w.register("boats", "v1")
	w.registerAs("dead.example.dev", "dead", "v1")
	w.await("v1.boats.example.dev", "Passed")
	w.await("v1.dead.example.dev", "ServiceNotFound")
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
