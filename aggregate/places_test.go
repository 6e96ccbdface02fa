package aggregate_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/aggregate"
)

// A back end that passes its check and then hangs does not have all requests in flight that the server
// allows: those would be refused to everybody.
func TestOPS_08_ABackEndThatHangsLeavesRoom(t *testing.T) {
	const bound, users, each = 8, 10, 4
	w := newWorld(t, func(c *aggregate.Config) { c.InFlight = bound })
	var waiting, most atomic.Int64
	release := make(chan struct{})
	w.listen("boats", &liar{says: func(out http.ResponseWriter, _ *http.Request) {
		now := waiting.Add(1)
		for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
		}
		<-release
		waiting.Add(-1)
		_, _ = io.WriteString(out, "{}")
	}}, "boats.default.svc")
	w.register("boats", "v1")
	w.await("v1.boats.example.dev", "Passed")
	codes := make(chan *http.Response, users*each)
	for i := range users * each {
		go func() {
			r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, w.http.URL+boats, http.NoBody)
			if err != nil {
				panic(err)
			}
			r.Header.Set("X-User", fmt.Sprint("user", i%users))
			res, err := w.http.Client().Do(r)
			if err != nil {
				panic(err)
			}
			_ = res.Body.Close()
			codes <- res
		}()
	}
	for range users*each - bound { // these are told so, and the others wait
		res := <-codes
		require.Equal(t, 429, res.StatusCode)
		require.Equal(t, "1", res.Header.Get("Retry-After"))
	}
	require.Eventually(t, func() bool { return waiting.Load() == bound }, time.Minute, time.Millisecond)
	require.EqualValues(t, bound, most.Load())
	code, body := w.do("GET", "/api/v1/namespaces", "")
	require.Equal(t, 200, code, body)
	close(release)
	for range bound {
		require.Equal(t, 200, (<-codes).StatusCode)
	}
	code, body = w.do("GET", boats, "")
	require.Equal(t, 200, code, body)
}
