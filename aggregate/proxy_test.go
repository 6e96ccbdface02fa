package aggregate_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/aggregate"
	"github.com/kindwright/kindwright/meta"
)

const boats = "/apis/boats.example.dev/v1/namespaces/default/boats"

// fleet is a server with one of ours behind it.
func fleet(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, nil)
	w.kindwright("boats", "v1")
	w.register("boats", "v1")
	w.await("v1.boats.example.dev", "Passed")
	return w
}

func TestOPS_08_AServerBehindAnother(t *testing.T) {
	w := fleet(t)
	code, body := w.do("POST", boats, `{"metadata":{"name":"a"},"spec":{"sails":2}}`)
	require.Equal(t, 201, code, body)
	code, body = w.do("GET", boats+"/a", "")
	require.Equal(t, 200, code, body)
	require.Contains(t, body, `"sails":2`)
	code, body = w.apply(boats+"/a?fieldManager=me&force=true", `{"apiVersion":"boats.example.dev/v1","kind":"Boat","metadata":{"name":"a"},"spec":{"sails":3}}`)
	require.Equal(t, 200, code, body)
	require.Contains(t, body, `"operation":"Apply"`)
	code, body = w.do("GET", boats, "", "Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
	require.Equal(t, 200, code)
	require.Contains(t, body, `"kind":"Table"`)
	code, body = w.do("DELETE", boats+"/a", "")
	require.Equal(t, 200, code, body)
	code, body = w.do("GET", boats+"/a", "")
	require.Equal(t, 404, code)
	require.Contains(t, body, `boats.boats.example.dev \"a\" not found`)
	code, body = w.do("GET", "/apis/boats.example.dev/v1/ships", "")
	require.Equal(t, 404, code, body)
}

func (w *world) apply(path, body string) (int, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPatch, w.http.URL+path, strings.NewReader(body))
	require.NoError(w.t, err)
	r.Header.Set("X-User", "alice")
	r.Header.Set("Content-Type", "application/apply-patch+yaml")
	res, err := w.http.Client().Do(r)
	require.NoError(w.t, err)
	defer func() { _ = res.Body.Close() }()
	var out json.RawMessage
	require.NoError(w.t, json.NewDecoder(res.Body).Decode(&out))
	return res.StatusCode, string(out)
}

func TestOPS_08_EventsOfAWatchArriveOneByOne(t *testing.T) {
	w := fleet(t)
	res := w.send("GET", boats+"?watch=true", "")
	require.Equal(t, 200, res.StatusCode)
	events := bufio.NewReader(res.Body)
	for _, name := range []string{"a", "b", "c"} {
		code, body := w.do("POST", boats, `{"metadata":{"name":"`+name+`"}}`)
		require.Equal(t, 201, code, body)
		line, err := events.ReadString('\n') // before the next is made
		require.NoError(t, err)
		require.Contains(t, line, `"name":"`+name+`"`)
	}
}

func TestDISC_07_KindsOfAllServersAreDescribedTogether(t *testing.T) {
	w := fleet(t)
	code, body := w.do("GET", "/apis", "", "Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	require.Equal(t, 200, code)
	var list meta.APIGroupDiscoveryList
	require.NoError(t, json.Unmarshal([]byte(body), &list))
	found := false
	for _, g := range list.Items {
		if g.Name != "boats.example.dev" {
			continue
		}
		found = true
		require.Len(t, g.Versions, 1)
		require.Equal(t, meta.DiscoveryFreshnessCurrent, g.Versions[0].Freshness)
		require.Equal(t, "boats", g.Versions[0].Resources[0].Resource)
		require.Equal(t, []string{"bt"}, g.Versions[0].Resources[0].ShortNames)
	}
	require.True(t, found)
	code, body = w.do("GET", "/apis/boats.example.dev/v1", "")
	require.Equal(t, 200, code)
	require.Contains(t, body, `"name":"boats/exec"`)
	code, body = w.do("GET", "/apis/boats.example.dev", "")
	require.Equal(t, 200, code)
	require.Contains(t, body, `"preferredVersion":{"groupVersion":"boats.example.dev/v1"`)
	require.Eventually(t, func() bool {
		_, body := w.do("GET", "/openapi/v3", "")
		return strings.Contains(body, "apis/boats.example.dev/v1?hash=")
	}, 20*time.Second, 5*time.Millisecond)
	code, body = w.do("GET", "/openapi/v3/apis/boats.example.dev/v1", "")
	require.Equal(t, 200, code)
	require.Contains(t, body, `"sails"`)
}

// Without a client certificate a back end is asked all the same. It has no reason to believe whom the
// header fields name, so a server that reads them sees an anonymous request.
func TestOPS_08_WithoutAClientCertificate(t *testing.T) {
	w := newWorld(t, func(cfg *aggregate.Config) {
		cfg.Certificate = func() (*tls.Certificate, error) { return nil, nil } //nolint:nilnil // none
	})
	var proven atomic.Int64
	w.listen("boats", http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		proven.Add(int64(len(r.TLS.PeerCertificates)))
		out.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/apis/boats.example.dev/v1" {
			_, _ = io.WriteString(out, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"boats.example.dev/v1","resources":[]}`)
			return
		}
		_, _ = fmt.Fprintf(out, `{"kind":"Asked","user":%q}`, r.Header.Get("X-Remote-User"))
	}), "boats.default.svc")
	w.register("boats", "v1")
	w.await("v1.boats.example.dev", "Passed")
	code, body := w.do("GET", boats, "")
	require.Equal(t, 200, code, body)
	require.Contains(t, body, `"user":"alice"`, "which the server has no reason to believe")
	require.Zero(t, proven.Load())
}
