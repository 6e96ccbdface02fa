package aggregate_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/aggregate"
	"github.com/kindwright/kindwright/flowcontrol"
	"github.com/kindwright/kindwright/kinds"
)

// A watch has its seat until its answer begins. At a back end that does not answer, watches kept theirs for
// as long as their clients waited.
func TestAPF_02_OPS_08_WatchesOfABackEndThatHangsHaveNoSeats(t *testing.T) {
	const watches = 20 // more than all levels together have seats
	var there sync.WaitGroup
	there.Add(watches)
	w, _ := lying(t, func(_ http.ResponseWriter, r *http.Request) {
		there.Done()
		<-r.Context().Done()
	}, kindwright.Serve(kinds.FlowControl(), kinds.ConfigMaps()), kindwright.Fairness(flowcontrol.New("")), kindwright.Limits{Reads: 6, ReadsPerUser: 3, Writes: 4, WritesPerUser: 2})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for range watches {
		all.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.http.URL+boats+"?watch=true", http.NoBody)
			if err != nil {
				return
			}
			r.Header.Set("X-User", "alice")
			if res, err := w.http.Client().Do(r); err == nil {
				_ = res.Body.Close()
				if res.StatusCode == http.StatusTooManyRequests {
					there.Done() // or the test hangs
				}
			}
		})
	}
	there.Wait()
	code, body := w.do("GET", "/api/v1/configmaps?timeout=4s", "")
	require.Equal(t, 200, code, body)
}

// The 34 seconds of a write are those of the kinds of a server. Behind kube-apiserver a server has the time
// that the request has.
func TestERR_26_OPS_08_WritesOfBackEndsHaveTheTimeOfTheRequest(t *testing.T) {
	var left time.Duration
	w, _ := lying(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }, kindwright.Serve(kinds.ConfigMaps()),
		kindwright.Before("authenticate", func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if until, ok := r.Context().Deadline(); ok && r.Method == http.MethodPost {
					left = time.Until(until)
				}
				next.ServeHTTP(w, r)
			})
		}))
	code, body := w.do("POST", boats, "{}")
	require.Equal(t, 200, code, body)
	require.Greater(t, left, 35*time.Second)
	code, body = w.do("POST", boats+"?timeout=9s", "{}")
	require.Equal(t, 200, code, body)
	require.Less(t, left, 10*time.Second, "what the client asks for counts")
	code, body = w.do("POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"a"}}`)
	require.Equal(t, 201, code, body)
	require.Less(t, left, 35*time.Second, "a kind of the server")
}

// Clients read the documents of all groups before they do anything, so a back end that has passed its check and then
// hangs would hold up each command for as long as a request may take.
func TestDISC_OPS_08_ADocumentHasTheTimeOfACheck(t *testing.T) {
	var hangs atomic.Bool
	w := newWorld(t, func(c *aggregate.Config) { c.Timeout, c.ProbeEvery = time.Second, time.Hour }, kindwright.HTTP{RequestTimeout: time.Hour})
	w.listen("boats", http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if hangs.Load() {
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(out, list)
	}), "boats.default.svc")
	w.register("boats", "v1")
	w.await("v1.boats.example.dev", "Passed")
	code, body := w.do("GET", "/apis/boats.example.dev/v1", "")
	require.Equal(t, 200, code, body)
	hangs.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.http.URL+"/apis/boats.example.dev/v1", http.NoBody)
	require.NoError(t, err)
	r.Header.Set("X-User", "alice")
	res, err := w.http.Client().Do(r)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, 504, res.StatusCode)
	require.Empty(t, res.Header.Get("Retry-After"))
	w.await("v1.boats.example.dev", "FailedDiscoveryCheck") // which it is asked for before its time
}

// Alerts ask for these names: KubeAggregatedAPIDown and KubeAggregatedAPIErrors of kubernetes-mixin.
func TestOPS_04_OPS_08_MetricsOfAvailability(t *testing.T) {
	w := newWorld(t, nil)
	w.boatsAndDead()
	metrics := func() string {
		code, body := w.do("GET", "/metrics", "")
		require.Equal(t, 200, code)
		var ours []string
		for line := range strings.Lines(body) {
			if strings.HasPrefix(line, "aggregator_") {
				ours = append(ours, line)
			}
		}
		return strings.Join(ours, "")
	}
	text := metrics()
	require.Contains(t, text, `aggregator_unavailable_apiservice{name="v1.boats.example.dev"} 0`)
	require.Contains(t, text, `aggregator_unavailable_apiservice{name="v1.dead.example.dev"} 1`)
	require.Contains(t, text, `aggregator_unavailable_apiservice{name="v1."} 0`)
	require.NotContains(t, text, `aggregator_unavailable_apiservice_total{name="v1.`, "nothing has been available and is not any more")
	w.mu.Lock()
	w.addresses["boats"] = ""
	w.mu.Unlock()
	w.await("v1.boats.example.dev", "ServiceNotFound")
	text = metrics()
	require.Contains(t, text, `aggregator_unavailable_apiservice{name="v1.boats.example.dev"} 1`)
	require.Contains(t, text, `aggregator_unavailable_apiservice_total{name="v1.boats.example.dev",reason="ServiceNotFound"} 1`)
	code, body := w.do("DELETE", services+"/v1.boats.example.dev", "")
	require.Equal(t, 200, code, body)
	require.Eventually(t, func() bool { return !strings.Contains(metrics(), "v1.boats.example.dev") }, time.Minute, 5*time.Millisecond)
}
