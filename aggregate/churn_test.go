package aggregate_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/meta"
)

// get reads a path without failing the test, for other goroutines than its own.
func (w *world) get(path, accept string) (code int, body []byte, err error) {
	r, err := http.NewRequest(http.MethodGet, w.http.URL+path, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("X-User", "alice")
	r.Header.Set("Accept", accept)
	res, err := w.http.Client().Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err = io.ReadAll(res.Body)
	return res.StatusCode, body, err
}

// APIServices come and go, change their priorities and whom they trust, and two lead to one service,
// while clients read. Reads of a good back end do not fail, discovery is whole at each moment, and no
// connections are left.
func TestOPS_08_APIServicesInATightLoop(t *testing.T) {
	w := fleet(t)
	code, body := w.do("POST", boats, `{"metadata":{"name":"a"}}`)
	require.Equal(t, 201, code, body)
	var ended atomic.Bool
	var reads atomic.Int64
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for !ended.Load() {
				code, body, err := w.get(boats+"/a", "application/json")
				if err != nil || code != 200 {
					t.Errorf("%d: %s: %v", code, body, err)
					return
				}
				reads.Add(1)
			}
		})
	}
	work.Go(func() {
		for !ended.Load() {
			code, body, err := w.get("/apis", aggregated)
			var all meta.APIGroupDiscoveryList
			if err != nil || code != 200 || json.Unmarshal(body, &all) != nil {
				t.Errorf("%d: %v", code, err)
				return
			}
			at := slices.IndexFunc(all.Items, func(g meta.APIGroupDiscovery) bool { return g.Name == "boats.example.dev" })
			if at < 0 || len(all.Items[at].Versions) == 0 || len(all.Items[at].Versions[0].Resources) == 0 {
				t.Error("boats are gone")
				return
			}
		}
	})
	bundle := base64.StdEncoding.EncodeToString(w.serving.PEM())
	both := base64.StdEncoding.EncodeToString(slices.Concat(w.serving.PEM(), authority(t, "another").PEM()))
	for i := range max(20, effort.Of(60)) {
		group := fmt.Sprintf("g%d.example.dev", i)
		w.registerAs(group, []string{"boats", "none"}[i%2], "v1")
		for _, change := range []string{
			fmt.Sprintf(`{"caBundle":%q,"insecureSkipTLSVerify":false}`, both),
			`{"caBundle":null,"insecureSkipTLSVerify":true}`,
			fmt.Sprintf(`{"caBundle":%q,"insecureSkipTLSVerify":false,"groupPriorityMinimum":%d}`, bundle, i+1),
		} {
			code, body := w.patch(services+"/v1.boats.example.dev", `{"spec":`+change+`}`)
			require.Equal(t, 200, code, body)
		}
		code, body := w.do("DELETE", services+"/v1."+group, "")
		require.Equal(t, 200, code, body)
	}
	ended.Store(true)
	work.Wait()
	require.Greater(t, reads.Load(), int64(100))
	require.Eventually(t, func() bool { return w.open.Load() < 10 }, time.Minute, 5*time.Millisecond)
}
