package kindwright_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage/memory"
)

// series is what a server counts, in the text form, without the values.
func series(t testing.TB, srv *kindwright.Server) []string {
	t.Helper()
	var text strings.Builder
	require.NoError(t, metrics.Write(&text, srv.Families()))
	var out []string
	for line := range strings.Lines(text.String()) {
		if !strings.HasPrefix(line, "#") {
			out = append(out, line[:strings.LastIndexByte(line, ' ')])
		}
	}
	return out
}

// counted returns the lines of the text form that begin with prefix.
func counted(t testing.TB, srv *kindwright.Server, prefix string) []string {
	t.Helper()
	var text strings.Builder
	require.NoError(t, metrics.Write(&text, srv.Families()))
	var out []string
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, prefix) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

func TestMetricsOfEachEnding(t *testing.T) {
	r := ends(t)
	ask := func(method, path, user, body string) {
		req, err := http.NewRequestWithContext(t.Context(), method, r.web.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		if strings.HasPrefix(path, "apply ") {
			req.Header.Set("Content-Type", "application/apply-patch+yaml")
		}
		req.Header.Set("X-User", user)
		if user == "" {
			req.Header.Del("X-User")
		}
		if res, err := r.web.Client().Do(req); err == nil {
			_ = res.Body.Close()
		}
		r.next()
	}
	ask("POST", gadgetPath, "alice", `{"metadata":{"name":"a"}}`)
	ask("POST", gadgetPath+"?dryRun=All", "alice", `{"metadata":{"name":"b"}}`)
	ask("GET", gadgetPath+"/a", "alice", "")
	ask("GET", gadgetPath+"/none", "alice", "")
	ask("GET", gadgetPath, "bob", "")
	ask("GET", "/apis/example.dev/v1/gadgets", "", "")
	ask("GET", gadgetPath+"?limit=x", "alice", "")
	ask("BREW", gadgetPath, "alice", "")
	ask("GET", wrong+"panics", "alice", "")
	ask("GET", wrong+"aborts", "alice", "")
	ask("GET", "/nowhere", "alice", "")
	ask("GET", "/version", "alice", "")
	const gadget = `group="example.dev",version="v1",resource="gadgets",subresource=""`
	const nothing = `group="",version="",resource="",subresource=""`
	for _, want := range []string{
		`apiserver_request_total{verb="POST",dry_run="",` + gadget + `,scope="resource",component="apiserver",code="201"} 1`,
		`apiserver_request_total{verb="POST",dry_run="All",` + gadget + `,scope="resource",component="apiserver",code="201"} 1`,
		`apiserver_request_total{verb="GET",dry_run="",` + gadget + `,scope="resource",component="apiserver",code="200"} 1`,
		`apiserver_request_total{verb="GET",dry_run="",` + gadget + `,scope="resource",component="apiserver",code="404"} 1`,
		`apiserver_request_total{verb="LIST",dry_run="",` + gadget + `,scope="namespace",component="apiserver",code="403"} 1`,
		`apiserver_request_total{verb="LIST",dry_run="",` + gadget + `,scope="cluster",component="apiserver",code="401"} 1`,
		`apiserver_request_total{verb="GET",dry_run="",` + nothing + `,scope="",component="apiserver",code="400"} 1`,
		`apiserver_request_total{verb="other",dry_run="",` + nothing + `,scope="",component="apiserver",code="405"} 1`,
		`apiserver_request_total{verb="LIST",dry_run="",` + nothing + `,scope="namespace",component="apiserver",code="500"} 1`,
		`apiserver_request_total{verb="LIST",dry_run="",` + nothing + `,scope="namespace",component="apiserver",code="0"} 1`,
		`apiserver_request_aborts_total{verb="LIST",` + nothing + `,scope="namespace"} 1`,
		`apiserver_request_total{verb="GET",dry_run="",` + nothing + `,scope="",component="apiserver",code="404"} 1`,
		`apiserver_request_total{verb="GET",dry_run="",group="",version="",resource="",subresource="/version",scope="",component="",code="200"} 1`,
		`apiserver_request_body_size_bytes_sum{group="example.dev",resource="gadgets",verb="create"} 50`,
		`authentication_attempts{result="failure"} 1`,
		`apiserver_request_filter_duration_seconds_count{filter="authentication"} 12`,
		`authorization_attempts_total{result="no-opinion"} 1`,
		`apiserver_current_inflight_requests{request_kind="readOnly"} 0`,
		`apiserver_current_inflight_requests{request_kind="mutating"} 0`,
		`apiserver_storage_objects{resource="gadgets.example.dev"} 1`,
		`kindwright_gc_queue_length 0`,
	} {
		require.Contains(t, counted(t, r.server, ""), want)
	}
	require.NotEmpty(t, counted(t, r.server, `kindwright_storage_operation_duration_seconds_count{operation="commit"}`))
	require.NotEmpty(t, counted(t, r.server, "go_goroutines"))
	require.NotEmpty(t, counted(t, r.server, "kubernetes_build_info"))
}

func TestMetricsOfAWatch(t *testing.T) {
	r := ends(t)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, "GET", r.web.URL+gadgetPath+"?watch=1", nil)
	require.NoError(t, err)
	req.Header.Set("X-User", "alice")
	res, err := r.web.Client().Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	const kind = `group="example.dev",version="v1",resource="gadgets"`
	open := `apiserver_longrunning_requests{verb="WATCH",` + kind + `,subresource="",scope="namespace",component="apiserver"} `
	require.Contains(t, counted(t, r.server, "apiserver_longrunning"), open+"1")
	require.Contains(t, counted(t, r.server, "apiserver_current_inflight"), `apiserver_current_inflight_requests{request_kind="readOnly"} 0`)
	w := send(r.server, request("POST", gadgetPath, `{"metadata":{"name":"a"}}`))
	require.Equal(t, 201, w.code)
	r.next()
	_, err = bufio.NewReader(res.Body).ReadBytes('\n')
	require.NoError(t, err)
	require.Contains(t, counted(t, r.server, "apiserver_watch_events_total"), `apiserver_watch_events_total{`+kind+`} 1`)
	leave()
	r.next()
	require.Contains(t, counted(t, r.server, "apiserver_longrunning"), open+"0")
	require.Contains(t, counted(t, r.server, "kindwright_watch_watchers"), `kindwright_watch_watchers{group="example.dev",resource="gadgets"} 0`)
}

func TestMetricsOfAWatchThatBeginsWithTheObjects(t *testing.T) {
	for _, objects := range []int{0, 3} {
		srv := quietServer(t)
		for i := range objects {
			require.Equal(t, 201, send(srv, request("POST", gadgetPath, fmt.Sprintf(`{"metadata":{"name":"g%d"}}`, i))).code)
		}
		web := httptest.NewServer(srv)
		t.Cleanup(web.Close)
		ctx, leave := context.WithCancel(t.Context())
		req := request("GET", web.URL+gadgetPath+"?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "").WithContext(ctx)
		req.RequestURI = ""
		res, err := web.Client().Do(req)
		require.NoError(t, err)
		lines := bufio.NewScanner(res.Body)
		for range objects + 1 { // the objects and the bookmark that ends them
			require.True(t, lines.Scan(), lines.Err())
		}
		require.Eventually(t, func() bool {
			return slices.Contains(counted(t, srv, "apiserver_watch_list_duration_seconds_count"),
				`apiserver_watch_list_duration_seconds_count{group="example.dev",version="v1",resource="gadgets",scope="namespace"} 1`)
		}, 10*time.Second, time.Millisecond)
		leave()
		require.NoError(t, res.Body.Close())
	}
}

func TestMetricsOfPlugins(t *testing.T) {
	allow := admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		if r.Name == "bad" {
			return admission.Denied(r, "it is bad")
		}
		return nil
	})
	h := run(t, kindwright.Admit(admission.Plugin{
		Name: "judge", Validator: allow, Handles: func(t admission.Target) bool { return t.Resource.Resource == "gadgets" },
	}))
	for name, code := range map[string]int{"good": 201, "bad": 403} {
		require.Equal(t, code, send(h.Server, request("POST", gadgetPath, `{"metadata":{"name":"`+name+`"}}`)).code)
		refused := fmt.Sprintf(`type="validate",operation="CREATE",rejected="%t"} 1`, name == "bad")
		require.Contains(t, counted(t, h.Server, "apiserver_admission"), `apiserver_admission_controller_admission_duration_seconds_count{name="judge",`+refused)
		require.Contains(t, counted(t, h.Server, "apiserver_admission"), `apiserver_admission_step_admission_duration_seconds_count{`+refused)
	}
}

func TestOPS_04_MetricsAreAuthorizedAndText(t *testing.T) {
	h := run(t, kindwright.Authorize(authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.User.Name == "alice" && a.Path == "/metrics" && a.Verb == "get" {
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "", nil
	})))
	require.Equal(t, 403, h.request("GET", "/metrics", "", "X-User", "bob", "X-Groups", "").StatusCode)
	require.Equal(t, 403, h.request("GET", "/metrics", "", "X-User", "eve", "X-Groups", "").StatusCode, "nor somebody else")
	res := h.request("GET", "/metrics", "", "X-User", "alice", "X-Groups", "")
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, metrics.ContentType, res.Header.Get("Content-Type"))
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Contains(t, string(body), `apiserver_request_total{verb="GET",dry_run="",group="",version="",resource="",subresource="/metrics",scope="",component="",code="403"} 2`)
	require.Equal(t, 200, h.request("HEAD", "/metrics", "", "X-User", "alice", "X-Groups", "").StatusCode)
	require.Equal(t, 405, send(h.Server, request("POST", "/metrics", "")).code)
	require.Equal(t, 404, send(h.Server, request("GET", "/metrics/more", "")).code)

	require.Equal(t, 200, send(h.Server, request("GET", "/readyz", "")).code)
	require.Equal(t, 403, h.request("GET", "/metrics/slis", "", "X-User", "alice", "X-Groups", "").StatusCode, "a right to one path is none to another")
	res = h.request("GET", "/metrics/slis", "", "X-User", "root")
	require.Equal(t, 200, res.StatusCode)
	body, err = io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Contains(t, string(body), `kubernetes_healthcheck{name="ping",type="readyz"} 1`)
	require.Contains(t, string(body), `kubernetes_healthchecks_total{name="ping",type="readyz",status="success"} 1`)
	require.NotContains(t, string(body), "apiserver_")
	require.Equal(t, 405, send(h.Server, request("DELETE", "/metrics/slis", "")).code)
}

// A client can write what it likes: it makes no series.
func TestClientsMakeNoSeries(t *testing.T) {
	srv := quietServer(t)
	const mark = "zq"
	words := 0
	random := func() {
		rng := rand.New(rand.NewPCG(1, 1)) // the same choices each time, of other words
		pick := func(of ...string) string { return of[rng.IntN(len(of))] }
		word := func() string { words++; return fmt.Sprintf("%s%x", mark, words) }
		for range effort.Of(100_000) {
			path := "/" + word()
			switch rng.IntN(8) {
			case 0, 1:
				path = gadgetPath + "/" + word() + pick("", "/"+word(), "/status", "/scale")
			case 2:
				path = gadgetPath
			case 3:
				path = "/apis/example.dev/v1/" + word()
			case 4:
				path = "/apis/" + word() + "/v1/namespaces/" + word() + "/" + word() + pick("", "/"+word())
			case 5:
				path = "/api/v1/namespaces/" + word()
			case 6:
				path = pick("/healthz", "/readyz", "/livez", "/version", "/apis", "/openapi/v3") + pick("", "/"+word())
			}
			path += pick("", "", "?"+word()+"="+word(), "?dryRun="+word(), "?dryRun=All", "?limit="+word(), "?labelSelector="+word()+"&watch="+word())
			r := httptest.NewRequest(http.MethodGet, path, strings.NewReader(pick("", "{}", word())))
			r.Method = pick("GET", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", word())
			r.Header.Set("User-Agent", word())
			r.Header.Set("Content-Type", pick("application/json", word(), "application/merge-patch+json", "application/apply-patch+yaml"))
			r.Header.Set("Accept", pick("application/json", word()))
			r.Header.Set("X-User", word())
			r.Header.Set("X-Groups", pick("", "system:masters"))
			// A watch has ended when it begins. A health check that has may pass or not, so it does not.
			if strings.Contains(r.URL.RawQuery, "watch=") && strings.HasPrefix(path, "/api") {
				ctx, cancel := context.WithCancel(r.Context())
				cancel()
				r = r.WithContext(ctx)
			}
			send(srv, r)
		}
	}
	random()
	before := series(t, srv)
	random()
	after := series(t, srv)
	require.Empty(t, slices.DeleteFunc(after, func(one string) bool { return slices.Contains(before, one) }), "new series")
	require.NotContains(t, strings.Join(before, "\n"), mark)
}

// quietServer is a server in process.
func quietServer(t *testing.T) *kindwright.Server {
	t.Helper()
	db := memory.New()
	srv, err := kindwright.New(db, kindwright.Serve(gadgets(), places(), kinds.ControlPlane()), kindwright.Authenticate(header))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	t.Cleanup(func() {
		cancel()
		srv.Wait()
		require.NoError(t, db.Close())
	})
	return srv
}

func TestCountingARequestAllocatesNothing(t *testing.T) {
	srv := quietServer(t)
	for _, path := range []string{gadgetPath + "/a", gadgetPath, gadgetPath + "?watch=1", gadgetPath + "/a/status", "/version", "/nowhere"} {
		once := srv.MeterOnce(t, request("GET", path, ""))
		least := testing.AllocsPerRun(100, once)
		for range 4 { // what the goroutines of other servers allocate is counted, too
			least = min(least, testing.AllocsPerRun(100, once))
		}
		require.Zero(t, least, path)
	}
}

// BenchmarkMetrics is what counting adds to a request.
func BenchmarkMetrics(b *testing.B) {
	once := benchServer(b, 1).MeterOnce(b, request("GET", gadgetPath+"/g000000", ""))
	b.ReportAllocs()
	for b.Loop() {
		once()
	}
}

func TestAKindThatGoesTakesItsSeriesAlong(t *testing.T) {
	srv := quietServer(t)
	books := gadgets()
	books.Plural, books.Names.Kind = "books", "Book"
	of := func() int {
		return len(slices.DeleteFunc(series(t, srv), func(s string) bool { return !strings.Contains(s, `resource="books"`) }))
	}
	ask := func() { send(srv, request("GET", "/apis/example.dev/v1/namespaces/default/books", "")) }
	for range 3 {
		ask()
		require.Zero(t, of(), "it is not served")
		require.NoError(t, srv.Install(t.Context(), books))
		ask()
		require.Positive(t, of())
		srv.Remove(meta.GroupResource{Group: "example.dev", Resource: "books"})
		require.Eventually(t, func() bool { return of() == 0 }, time.Minute, time.Millisecond)
	}
}

func TestAKindThatIsReplacedGoesOnCounting(t *testing.T) {
	srv := quietServer(t)
	ask := func() { send(srv, request("GET", gadgetPath, "")) }
	ask()
	changed := gadgets()
	changed.Doc = "Another one."
	for range 10 {
		require.NoError(t, srv.Change(t.Context(), []meta.GroupVersionResource{{Group: "example.dev", Version: "v1", Resource: "gadgets"}}, changed))
	}
	ask()
	require.Eventually(t, func() bool {
		return slices.Contains(counted(t, srv, "apiserver_request_total"),
			`apiserver_request_total{verb="LIST",dry_run="",group="example.dev",version="v1",resource="gadgets",subresource="",scope="namespace",component="apiserver",code="200"} 2`)
	}, time.Minute, time.Millisecond)
}

func TestAScrapeWhileTheServerStartsAndStops(t *testing.T) {
	db := memory.New()
	defer func() { require.NoError(t, db.Close()) }()
	srv, err := kindwright.New(db, kindwright.Serve(gadgets(), kinds.ControlPlane()), kindwright.Authenticate(header))
	require.NoError(t, err)
	var scrapers sync.WaitGroup
	done := make(chan struct{})
	var mu sync.Mutex
	seen := map[int]int{}
	saw := func(code int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return seen[code] > 0
		}
	}
	for range 4 {
		scrapers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				code := send(srv, request("GET", "/metrics", "")).code
				_ = series(t, srv) // as the client library does, which asks nobody whether the server is ready
				mu.Lock()
				seen[code]++
				mu.Unlock()
			}
		})
	}
	require.Eventually(t, saw(503), time.Minute, time.Millisecond)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	require.Eventually(t, saw(200), time.Minute, time.Millisecond, "%v", &seen)
	cancel()
	srv.Wait()
	close(done)
	scrapers.Wait()
	require.Len(t, seen, 2, "%v", seen)
	require.Equal(t, 503, send(srv, request("GET", "/metrics", "")).code)
}
