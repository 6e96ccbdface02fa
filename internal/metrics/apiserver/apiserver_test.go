package apiserver

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/metrics"
)

// lines returns the series whose names begin with prefix.
func lines(t testing.TB, r *metrics.Registry, prefix string) []string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, metrics.Write(&b, r.Families()))
	var out []string
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, prefix) {
			out = append(out, strings.TrimSuffix(line, "\n"))
		}
	}
	return out
}

var widgets = Resource{Group: "example.com", Version: "v1", Resource: "widgets"}

func TestVerbsOfPaths(t *testing.T) {
	for method, want := range map[string]string{
		"GET": "GET", "HEAD": "GET", "": "GET", "POST": "POST", "PUT": "PUT", "PATCH": "PATCH", "DELETE": "DELETE", "CONNECT": "CONNECT", "BREW": "other",
	} {
		require.Equal(t, want, verbNames[VerbOf(method)], method)
	}
}

func TestCodesWithoutANameAreFolded(t *testing.T) {
	for code, want := range map[int]string{
		0: "0", 200: "200", 404: "404", 422: "422", 299: "2xx", 399: "3xx", 499: "4xx", 599: "5xx", 504: "504",
		-1: "other", 1: "other", 42: "other", 199: "other", 600: "other", 1 << 40: "other",
	} {
		require.Equal(t, want, codeName(fold(code)), code)
	}
}

// count counts a finished request.
func count(s *Served, c Call, o Outcome) { s.Begin(c, false, false).End(o) }

func TestARequestIsCountedInEachOfItsFamilies(t *testing.T) {
	var r metrics.Registry
	q := NewRequests(&r)
	s := q.Serve(widgets)
	count(s, Call{Verb: Get, Scope: ResourceScope}, Outcome{Code: 200, Duration: 60 * time.Millisecond, Sent: 5000})
	count(s, Call{Verb: Put, Scope: ResourceScope, DryRun: DryRunAll}, Outcome{Code: 409, Duration: time.Second, Received: 60_000})
	count(s, Call{Verb: Delete, Scope: NamespaceScope}, Outcome{Code: 200, Received: 10})
	const rest = `group="example.com",version="v1",resource="widgets",subresource=""`
	require.Equal(t, []string{
		`apiserver_request_total{verb="DELETE",dry_run="",` + rest + `,scope="namespace",component="apiserver",code="200"} 1`,
		`apiserver_request_total{verb="GET",dry_run="",` + rest + `,scope="resource",component="apiserver",code="200"} 1`,
		`apiserver_request_total{verb="PUT",dry_run="All",` + rest + `,scope="resource",component="apiserver",code="409"} 1`,
	}, lines(t, &r, "apiserver_request_total"))
	require.Contains(t, lines(t, &r, "apiserver_request_duration_seconds"), `apiserver_request_duration_seconds_sum{verb="GET",dry_run="",`+rest+`,scope="resource",component="apiserver"} 0.06`)
	require.Equal(t, []string{
		`apiserver_request_sli_duration_seconds_sum{verb="DELETE",` + rest + `,scope="namespace",component="apiserver"} 0`,
		`apiserver_request_sli_duration_seconds_sum{verb="GET",` + rest + `,scope="resource",component="apiserver"} 0.06`,
	}, lines(t, &r, "apiserver_request_sli_duration_seconds_sum"), "a dry run is no sign of service")
	require.Equal(t, `apiserver_request_sli_duration_seconds_bucket{verb="DELETE",`+rest+`,scope="namespace",component="apiserver",le="0.05"} 1`,
		lines(t, &r, "apiserver_request_sli_duration_seconds_bucket")[0], "the first bucket of Kubernetes")
	require.Equal(t, []string{`apiserver_response_sizes_sum{verb="GET",` + rest + `,scope="resource",component="apiserver"} 5000`}, lines(t, &r, "apiserver_response_sizes_sum"))
	require.Equal(t, []string{
		`apiserver_request_body_size_bytes_sum{group="example.com",resource="widgets",verb="delete_collection"} 10`,
		`apiserver_request_body_size_bytes_sum{group="example.com",resource="widgets",verb="update"} 60000`,
	}, lines(t, &r, "apiserver_request_body_size_bytes_sum"))
}

func TestEachWriteHasABodyOfItsOwnSort(t *testing.T) {
	var r metrics.Registry
	s := NewRequests(&r).Serve(widgets)
	for verb := range Verbs {
		count(s, Call{Verb: verb, Scope: ResourceScope}, Outcome{Code: 200, Received: 1})
	}
	require.Equal(t, []string{
		`apiserver_request_body_size_bytes_count{group="example.com",resource="widgets",verb="create"} 1`,
		`apiserver_request_body_size_bytes_count{group="example.com",resource="widgets",verb="delete"} 1`,
		`apiserver_request_body_size_bytes_count{group="example.com",resource="widgets",verb="patch"} 2`,
		`apiserver_request_body_size_bytes_count{group="example.com",resource="widgets",verb="update"} 1`,
	}, lines(t, &r, "apiserver_request_body_size_bytes_count"))
}

func TestPathsAndUnknownResources(t *testing.T) {
	var r metrics.Registry
	q := NewRequests(&r)
	count(q.Serve(Resource{Subresource: "/healthz"}), Call{Verb: Get}, Outcome{Code: 200})
	count(q.Unserved(), Call{Verb: Post, Scope: ResourceScope}, Outcome{Code: 404, Received: 5})
	require.Equal(t, []string{
		`apiserver_request_total{verb="GET",dry_run="",group="",version="",resource="",subresource="/healthz",scope="",component="",code="200"} 1`,
		`apiserver_request_total{verb="POST",dry_run="",group="",version="",resource="",subresource="",scope="resource",component="apiserver",code="404"} 1`,
	}, lines(t, &r, "apiserver_request_total"))
	require.Empty(t, lines(t, &r, "apiserver_request_body_size_bytes"))
}

func TestWatchesAndEndings(t *testing.T) {
	var r metrics.Registry
	q := NewRequests(&r)
	s, c := q.Serve(widgets), Call{Verb: Watch, Scope: ClusterScope}
	Running{}.Event(1)
	Running{}.InitialList(0)
	first, second := s.Begin(c, true, false), s.Begin(c, true, false)
	first.Event(2000)
	second.Event(100)
	s.Begin(Call{Verb: Watch, Scope: NamespaceScope}, true, false).Event(1)
	first.InitialList(70 * time.Millisecond)
	first.End(Outcome{Code: 200, Aborted: true})
	for _, code := range []int{429, 503, 503, 404} {
		count(s, Call{Verb: Put, Scope: ResourceScope}, Outcome{Code: code})
		count(s, Call{Verb: Put, Scope: ResourceScope, DryRun: DryRunAll}, Outcome{Code: code, Aborted: true})
	}
	q.Unserved().Begin(Call{Verb: Post}, false, true)
	q.Unserved().Begin(Call{Verb: Post}, false, true)
	q.Unserved().Begin(Call{Verb: Get}, false, false)
	q.HandshakeErrors.Add(1)
	const kind = `group="example.com",version="v1",resource="widgets"`
	for _, want := range []string{
		`apiserver_longrunning_requests{verb="WATCH",` + kind + `,subresource="",scope="cluster",component="apiserver"} 1`,
		`apiserver_watch_events_total{` + kind + `} 3`,
		`apiserver_watch_events_sizes_sum{` + kind + `} 2101`,
		`apiserver_watch_list_duration_seconds_bucket{` + kind + `,scope="cluster",le="0.1"} 1`,
		`apiserver_request_aborts_total{verb="WATCH",` + kind + `,subresource="",scope="cluster"} 1`,
		`apiserver_request_aborts_total{verb="PUT",` + kind + `,subresource="",scope="resource"} 4`,
		`apiserver_current_inflight_requests{request_kind="mutating"} 2`,
		`apiserver_current_inflight_requests{request_kind="readOnly"} 1`,
		"apiserver_tls_handshake_errors_total 1",
	} {
		require.Contains(t, lines(t, &r, ""), want)
	}
	require.Equal(t, []string{
		`apiserver_request_terminations_total{verb="PUT",` + kind + `,subresource="",scope="resource",component="apiserver",code="429"} 2`,
		`apiserver_request_terminations_total{verb="PUT",` + kind + `,subresource="",scope="resource",component="apiserver",code="503"} 4`,
	}, lines(t, &r, "apiserver_request_terminations_total"))
	second.End(Outcome{Code: 200})
	require.Contains(t, lines(t, &r, ""), `apiserver_longrunning_requests{verb="WATCH",`+kind+`,subresource="",scope="cluster",component="apiserver"} 0`)
}

// use makes a series of every sort.
func use(s *Served) {
	w := s.Begin(Call{Verb: Watch, Scope: ClusterScope}, true, false)
	w.Event(1)
	w.InitialList(0)
	w.End(Outcome{Code: 200, Aborted: true})
	count(s, Call{Verb: Post, Scope: ResourceScope}, Outcome{Code: 201, Received: 5})
	count(s, Call{Verb: List, Scope: ClusterScope}, Outcome{Code: 429})
}

func TestAKindThatGoesLeavesNoSeries(t *testing.T) {
	var r metrics.Registry
	q := NewRequests(&r)
	before := lines(t, &r, "")
	s := q.Serve(widgets)
	use(s)
	require.NotEqual(t, before, lines(t, &r, ""))
	s.Release()
	require.Equal(t, before, lines(t, &r, ""))

	use(s) // requests that are still under way
	count(s, Call{Verb: Get, Scope: ResourceScope}, Outcome{Code: 200})
	require.Equal(t, before, lines(t, &r, ""))
}

func TestAReplacedKindGoesOnCounting(t *testing.T) {
	var r metrics.Registry
	q := NewRequests(&r)
	old := q.Serve(widgets)
	use(old)
	replacement := q.Serve(widgets)
	old.Release()
	use(replacement)
	require.Contains(t, lines(t, &r, "apiserver_watch_events_total"), `apiserver_watch_events_total{group="example.com",version="v1",resource="widgets"} 2`)
}

func TestVersionsAndSubresourcesShareTheSeriesOfTheirResource(t *testing.T) {
	var r metrics.Registry
	q := NewRequests(&r)
	before := lines(t, &r, "")
	v2, status := widgets, widgets
	v2.Version, status.Subresource = "v2", "status"
	served := []*Served{q.Serve(widgets), q.Serve(v2), q.Serve(status)}
	for _, s := range served {
		use(s)
	}
	require.Contains(t, lines(t, &r, ""), `apiserver_request_body_size_bytes_count{group="example.com",resource="widgets",verb="create"} 3`)
	require.Contains(t, lines(t, &r, ""), `apiserver_watch_events_total{group="example.com",version="v1",resource="widgets"} 2`)
	served[0].Release()
	served[2].Release()
	require.NotContains(t, strings.Join(lines(t, &r, ""), "\n"), `version="v1"`)
	served[1].Release()
	require.Equal(t, before, lines(t, &r, ""))
}

// TestClientsCannotMakeSeries: however the requests look, what is served bounds the series.
func TestClientsCannotMakeSeries(t *testing.T) {
	var r metrics.Registry
	q := NewRequests(&r)
	access := NewAccess(&r)
	handles := []*Served{q.Serve(widgets), q.Unserved()}
	random := rand.New(rand.NewPCG(1, 2))
	observe := func(verb Verb, scope Scope, dry DryRun, code int) {
		w := handles[random.IntN(len(handles))].Begin(Call{verb, scope, dry}, random.IntN(2) == 0, random.IntN(2) == 0)
		w.End(Outcome{Code: code, Duration: time.Duration(random.Int64N(1e10)), Sent: random.Int64N(1e6), Received: 1 + random.Int64N(1e6), Aborted: true})
		access.Authentication(Authentication(random.Uint32()), fmt.Sprint(random.Uint32()), 0, 0)
	}
	const codes = 700
	for _, s := range handles {
		for n := range int(Verbs) * int(Scopes) * int(DryRuns) {
			call := Call{Verb: Verb(n % int(Verbs)), Scope: Scope(n / int(Verbs) % int(Scopes)), DryRun: DryRun(n / int(Verbs) / int(Scopes))}
			for code := range codes {
				s.Begin(call, code%2 == 0, false).End(Outcome{Code: code, Aborted: true})
			}
		}
	}
	all := lines(t, &r, "")
	for range 100_000 {
		observe(Verb(random.IntN(int(Verbs))), Scope(random.IntN(int(Scopes))), DryRun(random.IntN(int(DryRuns))), random.IntN(2*codes)-codes/2)
	}
	require.Len(t, lines(t, &r, ""), len(all))
}

func TestKindsComeAndGoWhileRequestsRun(t *testing.T) {
	var r metrics.Registry
	q := NewRequests(&r)
	before := lines(t, &r, "")
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 500 {
				s := q.Serve(widgets)
				var requests sync.WaitGroup
				requests.Go(func() { use(s) })
				s.Release()
				requests.Wait()
			}
		})
	}
	group.Go(func() {
		for range 50 {
			lines(t, &r, "")
		}
	})
	group.Wait()
	require.Equal(t, before, lines(t, &r, ""))
	require.Len(t, q.served, 1)
}

// TestFirstRequestsRace: the first requests of a call and a code make one series.
func TestFirstRequestsRace(t *testing.T) {
	const workers = 8
	var r metrics.Registry
	s := NewRequests(&r).Serve(widgets)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for verb := range Verbs {
				for _, code := range []int{200, 404, 500} {
					count(s, Call{Verb: verb}, Outcome{Code: code})
				}
			}
		})
	}
	group.Wait()
	totals := lines(t, &r, "apiserver_request_total")
	require.Len(t, totals, int(Verbs)*3)
	for _, line := range totals {
		require.True(t, strings.HasSuffix(line, "} 8"), line)
	}
}

func TestAccess(t *testing.T) {
	var r metrics.Registry
	a := NewAccess(&r)
	for _, user := range []string{"admin", "me@example.com", "you", "kubelet", ""} {
		a.Authentication(Authenticated, user, time.Millisecond, 2*time.Millisecond)
	}
	a.Authentication(Unauthenticated, "ghost", 0, 0)
	a.Authentication(200, "ghost", 0, 0)
	a.Authorization(Allowed, time.Millisecond)
	a.Authorization(Denied, 0)
	a.Authorization(200, 0)
	require.Equal(t, []string{
		`authenticated_user_requests{username="admin"} 1`, `authenticated_user_requests{username="client"} 0`, `authenticated_user_requests{username="email_id"} 1`,
		`authenticated_user_requests{username="kube_proxy"} 0`, `authenticated_user_requests{username="kubelet"} 1`, `authenticated_user_requests{username="other"} 2`,
		`authenticated_user_requests{username="system:serviceaccount:kube-system:default"} 0`,
	}, lines(t, &r, "authenticated_user_requests"))
	require.Equal(t, []string{
		`authentication_attempts{result="error"} 1`, `authentication_attempts{result="failure"} 1`, `authentication_attempts{result="success"} 5`,
	}, lines(t, &r, "authentication_attempts"))
	require.Equal(t, []string{
		`authorization_attempts_total{result="allowed"} 1`, `authorization_attempts_total{result="denied"} 1`,
		`authorization_attempts_total{result="error"} 1`, `authorization_attempts_total{result="no-opinion"} 0`,
	}, lines(t, &r, "authorization_attempts_total"))
	for _, want := range []string{
		`authentication_duration_seconds_sum{result="success"} 0.005`,
		`authorization_duration_seconds_bucket{result="allowed",le="0.001"} 1`,
		`apiserver_request_filter_duration_seconds_bucket{filter="authentication",le="0.0003"} 2`,
		`apiserver_request_filter_duration_seconds_bucket{filter="authentication",le="0.001"} 7`,
		`apiserver_request_filter_duration_seconds_count{filter="authorization"} 3`,
		`apiserver_request_filter_duration_seconds_sum{filter="parse"} 0.005`,
	} {
		require.Contains(t, lines(t, &r, ""), want)
	}
}

func TestAdmission(t *testing.T) {
	var r metrics.Registry
	a := NewAdmission(&r, "quota", "idle")
	a[""].Observe(Admit, Create, false, 10*time.Millisecond)
	a["quota"].Observe(Validate, Deletion, true, 0)
	a["quota"].Observe(200, 200, false, 0)
	require.Contains(t, lines(t, &r, ""), `apiserver_admission_step_admission_duration_seconds_bucket{type="admit",operation="CREATE",rejected="false",le="0.025"} 1`)
	summary := lines(t, &r, "apiserver_admission_step_admission_duration_seconds_summary")
	require.Len(t, summary, 5)
	require.Contains(t, summary, `apiserver_admission_step_admission_duration_seconds_summary_count{type="admit",operation="CREATE",rejected="false"} 1`)
	require.Contains(t, strings.Join(summary, "\n"), `_summary{type="admit",operation="CREATE",rejected="false",quantile="0.99"} 0.01`)
	require.Equal(t, []string{
		`apiserver_admission_controller_admission_duration_seconds_count{name="quota",type="validate",operation="CONNECT",rejected="false"} 1`,
		`apiserver_admission_controller_admission_duration_seconds_count{name="quota",type="validate",operation="DELETE",rejected="true"} 1`,
	}, lines(t, &r, "apiserver_admission_controller_admission_duration_seconds_count"))
}

func TestHealthStorageAndBuild(t *testing.T) {
	var r metrics.Registry
	h := NewHealth(&r)
	h.Observe("storage", "readyz", true)
	h.Observe("storage", "readyz", false)
	h.Observe("ping", "livez", true)
	size, known := int64(4096), true
	get := NewStorage(&r, func() (int64, bool) { return size, known }, "get")["get"]
	get.Took.Observe(0.001)
	get.Failed.Add(1)
	CollectBuild(&r, Build{Major: "1", Minor: "36", GitVersion: "v1.36.0"})
	all := lines(t, &r, "")
	for _, want := range []string{
		`kubernetes_healthcheck{name="storage",type="readyz"} 0`,
		`kubernetes_healthcheck{name="ping",type="livez"} 1`,
		`kubernetes_healthchecks_total{name="storage",type="readyz",status="error"} 1`,
		`kubernetes_healthchecks_total{name="storage",type="readyz",status="success"} 1`,
		`apiserver_storage_size_bytes{storage_cluster_id="store-0"} 4096`,
		`kindwright_storage_operation_duration_seconds_count{operation="get"} 1`,
		`kindwright_storage_operation_errors_total{operation="get"} 1`,
	} {
		require.Contains(t, all, want)
	}
	require.Len(t, lines(t, &r, `kubernetes_build_info{major="1",minor="36",git_version="v1.36.0",`), 1)
	known = false
	require.Empty(t, lines(t, &r, "apiserver_storage_size_bytes"))
}

func TestStatesAreReadWhenScraped(t *testing.T) {
	var r metrics.Registry
	state := []Stored{
		{Group: "example.com", Resource: "widgets", Objects: 3, Revision: 3_000_000_000_000_042, Received: 9, Watchers: 2, Changes: 5, LogBytes: 700},
		{Resource: "events", Objects: 1},
	}
	CollectStored(&r, func() iter.Seq[Stored] { return slices.Values(state) })
	CollectGarbage(&r, func() Garbage {
		return Garbage{Reads: 1, Deletes: 2, Stripped: 3, Released: 4, Retries: 5, Unserved: 6, References: 7, Waiting: 8}
	})
	CollectMigrations(&r, func() iter.Seq[Migration] {
		return slices.Values([]Migration{{Group: "example.com", Resource: "widgets", Done: 1, Left: 2, Kept: 3}})
	})
	require.Equal(t, []string{
		`apiserver_resource_objects{group="",resource="events"} 1`, `apiserver_resource_objects{group="example.com",resource="widgets"} 3`,
		`apiserver_storage_objects{resource="events"} 1`, `apiserver_storage_objects{resource="widgets.example.com"} 3`,
		`apiserver_watch_cache_events_dispatched_total{group="",resource="events"} 0`, `apiserver_watch_cache_events_dispatched_total{group="example.com",resource="widgets"} 9`,
		`apiserver_watch_cache_events_received_total{group="",resource="events"} 0`, `apiserver_watch_cache_events_received_total{group="example.com",resource="widgets"} 9`,
		`apiserver_watch_cache_resource_version{group="",resource="events"} 0`, `apiserver_watch_cache_resource_version{group="example.com",resource="widgets"} 42`,
	}, lines(t, &r, "apiserver_"))
	require.Equal(t, []string{
		"kindwright_gc_deletes_total 2", "kindwright_gc_orphaned_total 3", "kindwright_gc_queue_length 8", "kindwright_gc_reads_total 1",
		"kindwright_gc_references 7", "kindwright_gc_released_total 4", "kindwright_gc_retries_total 5", "kindwright_gc_unserved_total 6",
	}, lines(t, &r, "kindwright_gc_"))
	require.Equal(t, []string{
		`kindwright_migration_objects{group="example.com",resource="widgets",state="done"} 1`,
		`kindwright_migration_objects{group="example.com",resource="widgets",state="kept"} 3`,
		`kindwright_migration_objects{group="example.com",resource="widgets",state="left"} 2`,
	}, lines(t, &r, "kindwright_migration_"))
	state = state[:1]
	require.Len(t, lines(t, &r, "kindwright_watch_"), 5, "a kind that is gone has no series")
}

// TestCountingAllocatesNothing: what runs for each request or event.
func TestCountingAllocatesNothing(t *testing.T) {
	var r metrics.Registry
	s, access, plugin, rules := NewRequests(&r).Serve(widgets), NewAccess(&r), NewAdmission(&r, "quota")["quota"], NewExpressions()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		w := s.Begin(Call{Verb: Patch, Scope: ResourceScope, DryRun: DryRunAll}, false, true)
		w.End(Outcome{Code: 200, Duration: time.Millisecond, Sent: 100, Received: 100, Aborted: true})
		w = s.Begin(Call{Verb: Watch, Scope: ClusterScope}, true, false)
		w.Event(100)
		w.InitialList(1)
		w.End(Outcome{Code: 429})
		access.Authentication(Authenticated, "somebody", 1, 2)
		access.Authorization(Allowed, 1)
		plugin.Observe(Admit, Update, true, 1)
		rules.Evaluated(time.Millisecond)
	}))
}

func BenchmarkRequest(b *testing.B) {
	var r metrics.Registry
	s := NewRequests(&r).Serve(widgets)
	for name, call := range map[string]Call{
		"get":    {Verb: Get, Scope: ResourceScope},
		"list":   {Verb: List, Scope: ClusterScope},
		"update": {Verb: Put, Scope: ResourceScope},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Begin(call, false, false).End(Outcome{Code: 200, Duration: 300 * time.Microsecond, Sent: 2000, Received: 2000})
			}
		})
	}
}

// BenchmarkScrape is a scrape of a server with many kinds that are all in use.
func BenchmarkScrape(b *testing.B) {
	var r metrics.Registry
	q := NewRequests(&r)
	for i := range 10_000 {
		use(q.Serve(Resource{Group: "example.com", Version: "v1", Resource: fmt.Sprintf("kind%05d", i)}))
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := metrics.Write(io.Discard, r.Families()); err != nil {
			b.Fatal(err)
		}
	}
}
