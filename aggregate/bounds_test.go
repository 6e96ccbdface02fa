package aggregate_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/aggregate"
)

const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// resources is an answer to a question about a group version.
func resources(group, list string) string {
	return `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"` + group + `.example.dev/v1","resources":[` + list + `]}`
}

// Servers of metrics have no resources until there are metrics. A version that is marked as stale
// is an error for kubectl, and keeps namespaces from ending.
func TestDISC_07_AServerWithoutResourcesIsNotStale(t *testing.T) {
	w := newWorld(t, nil)
	w.listen("boats", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, resources("boats", "")) }), "boats.default.svc")
	w.register("boats", "v1")
	w.await("v1.boats.example.dev", "Passed")
	_, body := w.do("GET", "/apis", "", "Accept", aggregated)
	require.Contains(t, body, `"boats.example.dev"},"versions":[{"version":"v1","freshness":"Current"}]`)
}

// Adapters of metrics describe each metric as a resource, and there are thousands. Pods could not be scaled
// by any of them where there were more than 2,000.
func TestDISC_OPS_08_ServersOfManyMetrics(t *testing.T) {
	w := newWorld(t, nil)
	var of strings.Builder
	for i := range 15_000 {
		_, _ = fmt.Fprintf(&of, `{"name":"pods/rate_of_something_%d","singularName":"","namespaced":true,"kind":"MetricValueList","verbs":["get"]},`, i)
	}
	said := resources("boats", strings.TrimSuffix(of.String(), ","))
	w.listen("boats", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, said) }), "boats.default.svc")
	w.register("boats", "v1")
	w.await("v1.boats.example.dev", "Passed")
	_, body := w.do("GET", "/apis/boats.example.dev/v1", "")
	require.Contains(t, body, `"name":"pods/rate_of_something_14999"`)
}

// Four bytes of an answer can be a resource of 200. One answer of 4 MiB took 3 GiB.
func TestDISC_ADescriptionIsCountedBeforeItIsRead(t *testing.T) {
	for name, of := range map[string]string{
		"objects": strings.Repeat("{},", 300_000) + "{}",
		"texts":   `{"name":"a","verbs":[` + strings.Repeat(`"",`, 600_000) + `""]}`,
		"nothing": `{"name":"a","verbs":[` + strings.Repeat(`0,`, 600_000) + `0]}`,
	} {
		w := newWorld(t, func(c *aggregate.Config) { c.ProbeEvery = time.Hour })
		said := resources("boats", of)
		var asked atomic.Uint64 // a slow machine has time for another check
		w.listen("boats", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			_, _ = io.WriteString(w, said)
		}), "boats.default.svc")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w.register("boats", "v1")
		w.awaitMessage("v1.boats.example.dev", "FailedDiscoveryCheck", "more than 20000 resources, or too much about them")
		runtime.ReadMemStats(&after)
		require.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, 25*asked.Load(), name)
	}
}

// What a client does not read is left with the back end, whatever the client asks for. It was 4 MiB
// for each stream.
func TestLIM_15_AnswersThatNobodyReadsAreNotHeld(t *testing.T) {
	sent := make(chan int)
	w, _ := lying(t, func(w http.ResponseWriter, _ *http.Request) {
		part, all := make([]byte, 16<<10), 0
		for all < 3<<20 {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Second))
			n, err := w.Write(part)
			if all += n; err != nil {
				break
			}
			_ = http.NewResponseController(w).Flush()
		}
		sent <- all
	})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, boats+"?watch=true", http.NoBody)
	require.NoError(t, err)
	r.Header.Set("X-User", "alice")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { _ = recover() }() // the answer ends in the middle
		w.front.ServeHTTP(&deaf{header: http.Header{}, until: ctx}, r)
	}()
	require.Less(t, <-sent, 1<<20)
	cancel()
	<-ended
}

// deaf is a client that does not read.
type deaf struct {
	header http.Header
	until  context.Context //nolint:containedctx // it ends with the test
}

func (d *deaf) Header() http.Header { return d.header }
func (*deaf) WriteHeader(int)       {}
func (*deaf) Flush()                {}

func (d *deaf) Write([]byte) (int, error) {
	<-d.until.Done()
	return 0, d.until.Err()
}

// A back end that passes its check and breaks off everything else had its check and its documents asked
// for with each request of a client.
func TestRequestsOfClientsDoNotAskForDocuments(t *testing.T) {
	var checks, documents atomic.Int64
	w := newWorld(t, func(c *aggregate.Config) { c.ProbeEvery = time.Hour })
	w.listen("boats", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/openapi/"):
			documents.Add(1)
			http.NotFound(w, r)
		case r.URL.Path == "/apis/boats.example.dev/v1":
			checks.Add(1)
			_, _ = io.WriteString(w, list)
		default:
			panic(http.ErrAbortHandler)
		}
	}), "boats.default.svc")
	w.register("boats", "v1")
	w.await("v1.boats.example.dev", "Passed")
	require.Eventually(t, func() bool { return documents.Load() == 2 }, time.Minute, time.Millisecond)
	before := checks.Load()
	for range 300 {
		code, _ := w.do("GET", boats, "")
		require.Equal(t, 503, code)
	}
	require.Less(t, checks.Load()-before, int64(150))
	require.EqualValues(t, 2, documents.Load())
}

// The proxy of the standard library refuses a change of the protocol that nobody has asked for, and
// then forgets the connection, which stays open.
func TestAnAnswerInAnotherProtocolThatNobodyAskedFor(t *testing.T) {
	var open atomic.Int64
	w, _ := lying(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, out, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		open.Add(1)
		defer open.Add(-1)
		_, _ = io.WriteString(out, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: evil\r\n\r\n")
		_ = out.Flush()
		_, _ = io.Copy(io.Discard, out)
		_ = conn.Close()
	})
	for range 20 {
		code, said := w.do("GET", boats, "", "Connection", "Upgrade", "Upgrade", "echo")
		require.Equal(t, 502, code)
		require.Contains(t, said, "a protocol that was not asked for")
	}
	require.Eventually(t, func() bool { return open.Load() == 0 }, time.Minute, 5*time.Millisecond)
}

// Whoever renews a certificate gives the host two authorities for a while, and then the new one. The
// kinds must not be gone meanwhile, however long the server takes to answer.
func TestOPS_08_AnotherAuthorityChangesNothingOfWhatIsKnown(t *testing.T) {
	var hangs atomic.Bool
	asked := make(chan struct{}, 100)
	w := newWorld(t, func(c *aggregate.Config) { c.ProbeEvery, c.Timeout = time.Hour, 2*time.Second })
	w.listen("boats", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hangs.Load() {
			asked <- struct{}{}
			<-r.Context().Done()
			return
		}
		switch {
		case strings.HasPrefix(r.URL.Path, "/openapi/v3"):
			_, _ = io.WriteString(w, `{"openapi":"3.0.0"}`)
		case strings.HasPrefix(r.URL.Path, "/openapi"):
			http.NotFound(w, r)
		default:
			_, _ = io.WriteString(w, list)
		}
	}), "boats.default.svc")
	w.register("boats", "v1")
	w.await("v1.boats.example.dev", "Passed")
	described := func() bool {
		_, index := w.do("GET", "/openapi/v3", "")
		_, apis := w.do("GET", "/apis", "", "Accept", aggregated)
		_, after, _ := strings.Cut(apis, `"boats.example.dev"`)
		return strings.Contains(index, "apis/boats.example.dev/v1") && strings.Contains(after, `"resource":"boats"`) && strings.Contains(after, `"freshness":"Current"`)
	}
	require.Eventually(t, described, time.Minute, 5*time.Millisecond)
	hangs.Store(true)
	code, body := w.apply(services+"/v1.boats.example.dev?fieldManager=me&force=true", fmt.Sprintf(
		`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.boats.example.dev"},"spec":{"caBundle":%q}}`,
		base64.StdEncoding.EncodeToString(slices.Concat(w.serving.PEM(), authority(t, "another").PEM()))))
	require.Equal(t, 200, code, body)
	<-asked // over a new connection
	require.True(t, described())
}
